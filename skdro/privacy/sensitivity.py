"""How far one record can move what is released: one function per released sum, for both notions of neighbour.

A released sum adds one bounded term c_i per record.  If one record is **replaced** by another, the sum moves
by max ||c_i - c_j||.  If it is **zeroed out** (its term in every released sum is 0 while it is still
counted), the sum moves by max ||c_i||.  The table `ADJACENCIES` maps an estimator's string to the component
that knows this.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

__all__ = [
    "ADJACENCIES",
    "Adjacency",
    "crammer_singer_gradient",
    "label_branch_share",
    "mean_gradient",
    "model_step",
    "multiplier_step",
    "weighted_gradient_sum",
]


@dataclass(frozen=True)
class Adjacency:
    """When two data sets count as neighbours, and what that does to a sum of bounded terms.

    Parameters
    ----------
    name : str
    words : str
        The definition, for the privacy report.
    ball : float
        Largest movement of a sum of terms with ||c_i|| <= 1, whose directions are free.
    interval : float
        Largest movement of a sum of terms in [0, 1].
    """

    name: str
    words: str
    ball: float
    interval: float


ADJACENCIES = {
    "replace_one": Adjacency(
        "replace_one",
        "one record replaced by any other; the rows per client stay the same",
        ball=2.0,
        interval=1.0,
    ),
    "zero_out": Adjacency(
        "zero_out",
        "one record's term set to zero in every released sum while the record is still counted",
        ball=1.0,
        interval=1.0,
    ),
}


def crammer_singer_gradient(data_norm: float, adjacency: Adjacency) -> float:
    """l2 sensitivity of the sum of Crammer-Singer subgradients (Lemma 1 of the first paper).

    A record's subgradient (e_rival - e_label) x^T has Frobenius norm sqrt(2) ||x|| or 0.  The bound is
    attained: with the same x and the labels of the two top classes swapped, the subgradient changes sign.

    Parameters
    ----------
    data_norm : float
        Bound L on the l2 norm of a row, intercept column included.
    adjacency : Adjacency

    Examples
    --------
    >>> round(crammer_singer_gradient(1.0, ADJACENCIES["replace_one"]), 4)
    2.8284
    >>> round(crammer_singer_gradient(1.0, ADJACENCIES["zero_out"]), 4)
    1.4142
    """
    return adjacency.ball * sqrt(2.0) * data_norm


def label_branch_share(kappa: float, adjacency: Adjacency) -> float:
    """Sensitivity of  kappa * (number of records whose worst case is a flipped label)  (Lemma 2).

    Parameters
    ----------
    kappa : float
        Cost of a label flip, finite.
    adjacency : Adjacency

    Examples
    --------
    >>> label_branch_share(0.5, ADJACENCIES["replace_one"])
    0.5
    """
    return adjacency.interval * kappa


def mean_gradient(data_norm: float, n_records: np.ndarray, adjacency: Adjacency) -> np.ndarray:
    """l2 sensitivity of each client's mean Crammer-Singer subgradient.

    Parameters
    ----------
    data_norm : float
    n_records : ndarray of int, shape (n_clients,)
        Rows of each client, public.
    adjacency : Adjacency

    Returns
    -------
    sensitivity : ndarray of shape (n_clients,)

    Examples
    --------
    >>> import numpy as np
    >>> mean_gradient(1.0, np.array([10, 20]), ADJACENCIES["replace_one"]).round(4)
    array([0.2828, 0.1414])
    """
    return crammer_singer_gradient(data_norm, adjacency) / np.asarray(n_records)


def weighted_gradient_sum(
    data_norm: float, client_weights: np.ndarray, n_records: np.ndarray, adjacency: Adjacency
) -> np.ndarray:
    """How far one record of each client moves  sum_g alpha_g (mean subgradient of client g).

    The noise added once to that sum has to hide the largest entry, which is 2 sqrt(2) L / N (replace_one)
    only for weights by size.

    Parameters
    ----------
    data_norm : float
    client_weights : ndarray of shape (n_clients,)
        alpha_g >= 0, public.
    n_records : ndarray of int, shape (n_clients,)
    adjacency : Adjacency

    Returns
    -------
    sensitivity : ndarray of shape (n_clients,)

    Examples
    --------
    >>> import numpy as np
    >>> n_records, client_weights = np.array([10, 20]), np.array([0.5, 0.5])
    >>> weighted_gradient_sum(1.0, client_weights, n_records, ADJACENCIES["replace_one"]).round(4)
    array([0.1414, 0.0707])
    """
    return np.asarray(client_weights) * mean_gradient(data_norm, n_records, adjacency)


def model_step(
    data_norm: float, n_records: np.ndarray, rho: float, eta: np.ndarray, adjacency: Adjacency
) -> np.ndarray:
    """l2 sensitivity Delta_M of the model step of Algorithm 2, the mean subgradient over rho + 1/eta_g.

    Parameters
    ----------
    data_norm : float
    n_records : ndarray of int, shape (n_clients,)
    rho : float
        Consensus penalty.
    eta : float or ndarray of shape (n_clients,)
        Step sizes of the model.
    adjacency : Adjacency

    Returns
    -------
    sensitivity : ndarray of shape (n_clients,)

    Examples
    --------
    >>> import numpy as np
    >>> model_step(1.0, np.array([10]), 1.0, np.array([0.25]), ADJACENCIES["replace_one"]).round(4)
    array([0.0566])
    """
    return mean_gradient(data_norm, n_records, adjacency) / (rho + 1.0 / np.asarray(eta))


def multiplier_step(kappa: float, n_records: np.ndarray, nu: np.ndarray, adjacency: Adjacency) -> np.ndarray:
    """Sensitivity Delta_lam of the step of the transport multiplier in Algorithm 2.

    Parameters
    ----------
    kappa : float
    n_records : ndarray of int, shape (n_clients,)
    nu : float or ndarray of shape (n_clients,)
        Step sizes of the multiplier.
    adjacency : Adjacency

    Returns
    -------
    sensitivity : ndarray of shape (n_clients,)

    Examples
    --------
    >>> import numpy as np
    >>> multiplier_step(0.5, np.array([10]), np.array([2.0]), ADJACENCIES["zero_out"])
    array([0.1])
    """
    return label_branch_share(kappa, adjacency) * np.asarray(nu) / np.asarray(n_records)
