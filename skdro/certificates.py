"""How large a Wasserstein radius must be, and what a radius then guarantees out of sample.

Theory (Lemma 1, Proposition 2 and Theorem 5 of [1]_, which rest on measure concentration [2]_): N independent records
on a compact set of R^m satisfy  W_p(P_N, P) <= eps(beta)  with probability >= 1 - beta, where, with R half the
diameter of the set in the sup norm and h(x) = x^2 / ln(2 + 1/x)^2,

    eps(beta) = R ( ln(c1 / beta) / (c2 N) )^(1 / max(2p, m))             if p != m / 2
    eps(beta) = R h^{-1}( ln(c1 / beta) / (c2 N) )^(1 / p)                if p = m / 2.

c1 and c2 depend on p and m only, and nobody knows useful values of them: these radii say how a guarantee scales with
the number of records, not what to use.  `bootstrap_radius` is what people use: a heuristic without a guarantee.

.. [1] Liu, Li, You, Cherukuri. Distributionally Robust Federated Learning with Multi-Source Data. arXiv 2609.20501.
.. [2] Boskos, Cortes, Martinez. High-confidence data-driven ambiguity sets for time-varying linear systems. IEEE
   Transactions on Automatic Control 69 (2024), Proposition 4.2.
"""

import warnings

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, linear_sum_assignment
from scipy.spatial.distance import cdist

__all__ = [
    "bootstrap_radius",
    "coverage_probability",
    "empirical_wasserstein",
    "out_of_sample_gap",
    "wasserstein_radius",
]


def wasserstein_radius(
    n_samples: ArrayLike,
    dim: int,
    beta: ArrayLike,
    p: float,
    diameter: float,
    *,
    c1: float | None = None,
    c2: float | None = None,
) -> np.ndarray | float:
    """Radius of the ball around N records that holds their distribution with probability 1 - beta (Lemma 1).

    Parameters
    ----------
    n_samples : array-like of int
        Records N of each client.
    dim : int
        m: n_features, plus 1 if responses are part of a record.
    beta : array-like of float
        Probability of failure, in (0, 1).
    p : float
        Order of the distance, >= 1.
    diameter : float
        Of the records' support in the sup norm, in the units of the records.
    c1, c2 : float or None
        The theorem's constants, > 0.  None takes 1 and warns: no proof covers that.

    Returns
    -------
    float or ndarray, broadcast over `n_samples` and `beta`

    Warns
    -----
    UserWarning
        A constant was not given.

    Raises
    ------
    ValueError
        A parameter is out of its range.

    Examples
    --------
    >>> wasserstein_radius([100, 1600], dim=3, beta=0.05, p=2, diameter=2.0, c1=1.0, c2=1.0).round(3)
    array([0.416, 0.208])
    """
    c1, c2 = _constants(c1, c2)
    n, beta = np.broadcast_arrays(np.asarray(n_samples, dtype=float), np.asarray(beta, dtype=float))
    _check(dim, p, diameter, n)
    if np.any((beta <= 0) | (beta >= 1)):
        raise ValueError("beta must be in (0, 1).")
    rate = np.maximum(np.log(c1 / beta), 0.0) / (c2 * n)
    scaled = np.vectorize(_inverse_h)(rate) ** (1 / p) if 2 * p == dim else rate ** (1 / max(2 * p, dim))
    return (0.5 * diameter * scaled)[()]


def coverage_probability(
    radius: ArrayLike,
    n_samples: ArrayLike,
    dim: int,
    p: float,
    diameter: float,
    *,
    heterogeneity: float = np.inf,
    c1: float | None = None,
    c2: float | None = None,
) -> float:
    """Probability with which the ambiguity set holds the deployment distribution, whatever its mixture (Prop. 2).

    Either every client's ball holds the client's distribution, or, where clients differ by at most
    `heterogeneity`, one ball holds them all:  max{ prod (1 - beta_i), 1 - prod betabar_i }  with
    eps_i(beta_i) = eps_i and eps_i(betabar_i) = eps_i - heterogeneity.

    Parameters
    ----------
    radius : array-like of shape (n_clients,)
        eps_i >= 0.
    n_samples : array-like of int, shape (n_clients,)
    dim, p, diameter, c1, c2
        As in `wasserstein_radius`.
    heterogeneity : float, default=inf
        Bound delta on W_p between the true distributions of any two clients.

    Returns
    -------
    float

    Warns
    -----
    UserWarning
        A constant was not given.

    Raises
    ------
    ValueError
        A parameter is out of its range.

    Examples
    --------
    >>> n = [100, 1600]
    >>> radius = wasserstein_radius(n, dim=3, beta=0.05, p=2, diameter=2.0, c1=1.0, c2=1.0)
    >>> round(coverage_probability(radius, n, 3, 2, 2.0, c1=1.0, c2=1.0), 4)
    0.9025
    """
    c1, c2 = _constants(c1, c2)
    eps, n = np.broadcast_arrays(np.asarray(radius, dtype=float), np.asarray(n_samples, dtype=float))
    _check(dim, p, diameter, n)
    if np.any(eps < 0) or not heterogeneity >= 0:
        raise ValueError("radius and heterogeneity must be >= 0.")

    def failure(distance):
        scaled = np.maximum(distance, 0.0) / (0.5 * diameter)
        exponent = _h(scaled**p) if 2 * p == dim else scaled ** max(2 * p, dim)
        return np.where(distance > 0, np.minimum(c1 * np.exp(-c2 * n * exponent), 1.0), 1.0)

    return float(max(np.prod(1 - failure(eps)), 1 - np.prod(failure(eps - heterogeneity))))


def out_of_sample_gap(lipschitz: float, radius: ArrayLike, heterogeneity: float) -> float:
    """How far the certificate can lie above the true cost, where it holds:  L (2 max_i eps_i + delta)  (Theorem 5).

    Needs a compact support and a loss that is Lipschitz in the record: not the squared loss on all of R^m.

    Parameters
    ----------
    lipschitz : float
        L.
    radius : array-like of shape (n_clients,)
    heterogeneity : float
        delta.

    Examples
    --------
    >>> out_of_sample_gap(2.0, [0.1, 0.25], 0.5)
    2.0
    """
    return float(lipschitz * (2.0 * np.max(radius) + heterogeneity))


def empirical_wasserstein(records: ArrayLike, others: ArrayLike, p: float = 2.0) -> float:
    """W_p between two samples of the same size with Euclidean ground metric, exactly, as an assignment problem.

    Parameters
    ----------
    records, others : array-like of shape (n_records, dim)
    p : float, default=2

    Returns
    -------
    float

    Examples
    --------
    >>> empirical_wasserstein([[0.0], [1.0]], [[3.0], [0.0]], p=1)
    1.0
    """
    records, others = np.asarray(records, dtype=float), np.asarray(others, dtype=float)
    if records.ndim != 2 or records.shape != others.shape:
        raise ValueError(f"records and others must be of one shape (n, dim); got {records.shape} and {others.shape}.")
    cost = cdist(records, others) ** p
    return float(cost[linear_sum_assignment(cost)].mean() ** (1 / p))


def bootstrap_radius(
    records: ArrayLike,
    beta: float = 0.1,
    p: float = 2.0,
    *,
    n_bootstrap: int = 100,
    max_records: int = 300,
    random_state: int | np.random.Generator | None = None,
) -> float:
    """Radius from the data: a quantile of W_p between the records and their bootstrap samples.  A heuristic.

    Nothing is proved about it.  Bootstrap samples share their atoms with the records, so that it falls short of
    W_p(P_N, P) in high dimension; a radius cross-validated by the loss of interest is the alternative.

    Parameters
    ----------
    records : array-like of shape (n_records, dim)
        One client's records, responses included if they may move.
    beta : float, default=0.1
        The 1 - beta quantile is returned.
    p : float, default=2
    n_bootstrap : int, default=100
    max_records : int, default=300
        With more records the distance is measured on samples of this size and scaled by the rate
        n^(-1 / max(2p, dim)).
    random_state : int, Generator or None, default=None

    Returns
    -------
    float
        In the units of the records.

    Raises
    ------
    ValueError
        A parameter is out of its range.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bool(bootstrap_radius(rng.normal(size=(200, 2)), random_state=0) < 1.0)
    True
    """
    records = np.asarray(records, dtype=float)
    if records.ndim != 2 or len(records) < 2:
        raise ValueError(f"records must have shape (n_records, dim) with n_records >= 2; got {records.shape}.")
    if not 0 < beta < 1:
        raise ValueError(f"beta must be in (0, 1); got {beta!r}.")
    rng = np.random.default_rng(random_state)
    n = min(len(records), max_records)
    distances = []
    for _ in range(n_bootstrap):
        base = records if n == len(records) else records[rng.choice(len(records), size=n, replace=False)]
        distances.append(empirical_wasserstein(base, base[rng.integers(n, size=n)], p))
    rate = 1 / max(2 * p, records.shape[1])
    return float(np.quantile(distances, 1 - beta) * (n / len(records)) ** rate)


def _h(x):
    return np.where(x > 0, (x / np.log(2 + 1 / np.maximum(x, 1e-300))) ** 2, 0.0)


def _inverse_h(value):
    """H increases from 0 without bound."""
    if value == 0:
        return 0.0
    high = 1.0
    while _h(high) < value:
        high *= 2.0
    return brentq(lambda x: _h(x) - value, 0.0, high, xtol=1e-14)


def _constants(c1, c2):
    if c1 is None or c2 is None:
        warnings.warn(
            "The constants c1 and c2 of the concentration bound are unknown and were taken to be 1: the result shows "
            "how a guarantee scales, and proves none. Pass c1 and c2 to silence this.",
            UserWarning,
            stacklevel=3,
        )
    c1, c2 = (1.0 if c is None else float(c) for c in (c1, c2))
    if not (c1 > 0 and c2 > 0):
        raise ValueError("c1 and c2 must be > 0.")
    return c1, c2


def _check(dim, p, diameter, n):
    if dim < 1 or not p >= 1 or not diameter > 0 or np.any(n < 1):
        raise ValueError(
            f"need dim >= 1, p >= 1, diameter > 0 and n_samples >= 1; got dim={dim!r}, p={p!r}, "
            f"diameter={diameter!r}."
        )
