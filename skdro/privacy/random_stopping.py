"""Best of a random number of private trials: what the winner costs when the number stays secret.

One trial is mu-GDP and gives a model with a score.  K trials are made, K from a truncated negative binomial law, and
only the best comes out; neither K nor any other trial is shown.  For all orders l > 1 and h >= 1 the result satisfies
Renyi differential privacy (Papernot & Steinke 2022, Theorem 2)

    eps'(l) = l mu^2/2 + (1 + eta) (1 - 1/h) h mu^2/2 + (1 + eta) log(1/gamma) / h + log E[K] / (l - 1).

The best h is sqrt(2 log(1/gamma)) / mu in closed form, the best l is found numerically after the conversion to
(epsilon, delta) of Canonne, Kamath & Steinke (2020, Proposition 12).  Any l and h give a valid bound, so that the
search for the best ones cannot flatter.  A fixed K would cost about sqrt(K) mu, whatever comes out.
"""

from dataclasses import dataclass
from math import exp, expm1, inf, log, log1p, sqrt

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from .accounting import check_budget

__all__ = ["TruncatedNegativeBinomial", "search_epsilon", "search_mu"]

SLACK = 1e-9
"""Relative distance by which a calibrated mu is moved to its safe side."""


@dataclass(frozen=True)
class TruncatedNegativeBinomial:
    """Law of the number of trials K >= 1 (Papernot & Steinke 2022, Definition 1).

    P[K = k] is proportional to (1 - gamma)^k  prod_{j < k} (j + eta) / (j + 1);  eta = 1 is the geometric law and
    eta = 0 the logarithmic one.

    Parameters
    ----------
    eta : float
        > -1.  The larger, the more concentrated K is and the more the search costs.
    gamma : float
        In (0, 1).

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    >>> law = TruncatedNegativeBinomial.with_mean(10.0, eta=1.0)
    >>> round(law.gamma, 6), round(law.mean, 6), law.quantile(0.5)
    (0.1, 10.0, 7)
    """

    eta: float
    gamma: float

    def __post_init__(self):
        if not -1 < self.eta < inf:
            raise ValueError(f"eta must be a finite number > -1; got {self.eta!r}.")
        if not 0 < self.gamma < 1:
            raise ValueError(f"gamma must be a number in (0, 1); got {self.gamma!r}.")

    @classmethod
    def with_mean(cls, mean: float, eta: float) -> "TruncatedNegativeBinomial":
        """The law whose mean is `mean`.

        Parameters
        ----------
        mean : float
            > 1.
        eta : float

        Raises
        ------
        ValueError
            `mean` is not larger than one, or `eta` is out of range.
        """
        cls(eta, 0.5)
        if not 1 < mean < inf:
            raise ValueError(f"The mean number of trials must be a finite number > 1; got {mean!r}.")
        root = brentq(lambda t: log(cls(eta, exp(-t)).mean / mean), 1e-9, 600.0, xtol=1e-14)
        return cls(eta, exp(-root))

    @property
    def _first(self):
        """P[K = 1]."""
        if self.eta == 0:
            return (1 - self.gamma) / -log(self.gamma)
        return self.eta * (1 - self.gamma) / expm1(-self.eta * log(self.gamma))

    @property
    def mean(self) -> float:
        """E[K]."""
        if self.eta == 0:
            return (1 / self.gamma - 1) / -log(self.gamma)
        return -self.eta * (1 - self.gamma) / (self.gamma * expm1(self.eta * log(self.gamma)))

    def pmf(self, n: int) -> np.ndarray:
        """P[K = 1], ..., P[K = n].

        Parameters
        ----------
        n : int
        """
        ratio = (1 - self.gamma) * (np.arange(1, n) + self.eta) / np.arange(2, n + 1)
        return self._first * np.cumprod(np.concatenate([[1.0], ratio]))

    def quantile(self, u: float) -> int:
        """Smallest k with P[K <= k] >= u: K itself for a uniform `u`.

        Parameters
        ----------
        u : float
            In [0, 1); numbers so close to one that rounding swallows the tail give the last k before that.
        """
        k, probability = 1, self._first
        total = probability
        while total < u and probability > 1e-18:
            probability *= (1 - self.gamma) * (k + self.eta) / (k + 1)
            k += 1
            total += probability
        return k


def search_epsilon(mu: float, delta: float, law: TruncatedNegativeBinomial) -> float:
    """Epsilon at `delta` of the best of K trials that are mu-GDP each.

    Parameters
    ----------
    mu : float
        > 0; the model and its score together.
    delta : float
        In (0, 1).
    law : TruncatedNegativeBinomial

    Examples
    --------
    >>> law = TruncatedNegativeBinomial.with_mean(10.0, eta=0.0)
    >>> round(search_epsilon(0.3, 1e-6, law), 4)
    2.2925
    """
    worst_order = sqrt(2 * -log(law.gamma)) / mu
    hidden = mu * sqrt(2 * -log(law.gamma)) - mu**2 / 2 if worst_order > 1 else -log(law.gamma)
    tail = log(law.mean) - log(delta)

    def epsilon(log_excess):
        excess = exp(log_excess)  # l - 1
        order = 1 + excess
        return order * mu**2 / 2 + (tail - log(order)) / excess - log1p(1 / excess)

    middle = log(sqrt(2 * tail) / mu)
    best = minimize_scalar(epsilon, bounds=(middle - 5, middle + 5), method="bounded", options={"xatol": 1e-10})
    return max(float(best.fun), 0.0) + (1 + law.eta) * hidden


def search_mu(epsilon: float, delta: float, law: TruncatedNegativeBinomial) -> float:
    """Largest mu of a trial for which the whole search costs at most (`epsilon`, `delta`), rounded down.

    Parameters
    ----------
    epsilon, delta : float
    law : TruncatedNegativeBinomial

    Raises
    ------
    ValueError
        `epsilon` or `delta` is out of range.

    Examples
    --------
    >>> law = TruncatedNegativeBinomial.with_mean(10.0, eta=0.0)
    >>> round(search_mu(3.73, 1e-6, law), 4)
    0.4825
    """
    check_budget(epsilon, delta)
    low = high = epsilon / (10 * sqrt(-log(delta) + log(law.mean) + epsilon))
    while search_epsilon(low, delta, law) > epsilon:
        low /= 2
    while search_epsilon(high, delta, law) < epsilon:
        high *= 2
    mu = brentq(lambda mu: search_epsilon(mu, delta, law) - epsilon, low, high, xtol=1e-300, rtol=1e-12)
    mu *= 1 - SLACK
    while search_epsilon(mu, delta, law) > epsilon:
        mu *= 1 - 1e-6
    return mu
