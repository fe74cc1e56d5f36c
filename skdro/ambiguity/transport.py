"""Transport norms: what it costs nature to move a record, and the dual norm that this puts on the model.

A `TransportNorm` bundles the norm of the cost ||x - x'||, its dual norm ||.||_*, and a direction v with
||v|| <= 1 and <v, d> = ||d||_*.  The table `TRANSPORT_NORMS` maps an estimator's string to a component;
nothing below the estimators branches on that string.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

__all__ = ["TRANSPORT_NORMS", "TransportNorm", "pairs_in_spread", "spread", "spread_subgradient", "widest_pair"]


@dataclass(frozen=True)
class TransportNorm:
    """A norm on records and what its dual does to a model.

    Parameters
    ----------
    name : str
        Norm of the transport cost: "linf", "l2" or "l1".
    order : float
        Its order for `numpy.linalg.norm`.
    dual_order : float
        Order of the dual norm.
    metric : str
        The dual norm's name in `scipy.spatial.distance.pdist`.
    direction : callable
        Maps d, shape (n_features,), to v with ||v|| <= 1 (transport norm) and <v, d> = ||d||_*.
    """

    name: str
    order: float
    dual_order: float
    metric: str
    direction: Callable[[np.ndarray], np.ndarray]

    def length(self, X: np.ndarray) -> np.ndarray:
        """Transport norm of each row of `X`, shape (n_records,)."""
        return np.linalg.norm(X, ord=self.order, axis=-1)

    def dual(self, W: np.ndarray) -> np.ndarray:
        """Dual norm of each row of `W`, shape (n_rows,)."""
        return np.linalg.norm(W, ord=self.dual_order, axis=-1)


def _unit(d):
    length = np.sqrt(d @ d)
    return d / length if length > 0 else d


def _largest_coordinate(d):
    v = np.zeros_like(d)
    q = np.abs(d).argmax()
    v[q] = np.sign(d[q])
    return v


TRANSPORT_NORMS = {
    "linf": TransportNorm("linf", np.inf, 1, "cityblock", np.sign),
    "l2": TransportNorm("l2", 2, 2, "euclidean", _unit),
    "l1": TransportNorm("l1", 1, np.inf, "chebyshev", _largest_coordinate),
}


def pairs_in_spread(n_classes: int, present: np.ndarray | None = None) -> np.ndarray:
    """Pairs i < j of classes that count in phi, shape (n_pairs, 2).

    All pairs; or, when labels are trusted, those with a label that occurs (mask `present`).
    """
    pairs = np.column_stack(np.triu_indices(n_classes, k=1))
    return pairs if present is None else pairs[present[pairs].any(axis=1)]


def widest_pair(W: np.ndarray, norm: TransportNorm, present: np.ndarray | None = None) -> tuple[float, int, int]:
    """phi(W) = max over pairs of ||w_i - w_j||_* and the pair that attains it.

    Parameters
    ----------
    W : ndarray of shape (n_classes, n_features)
        Feature columns of a model, without the intercept.
    norm : TransportNorm
    present : ndarray of bool, shape (n_classes,), optional
        Labels that occur.  Given only when labels are trusted (kappa = inf): a record can then never reach a
        pair of two labels that do not occur, and such pairs do not count.

    Returns
    -------
    phi : float
    i, j : int
    """
    n_classes = len(W)
    distances = pdist(W, norm.metric)
    if present is not None:
        i, j = np.triu_indices(n_classes, k=1)
        distances[~(present[i] | present[j])] = -1.0
    best = int(distances.argmax())
    # pdist lists the pairs of triu_indices in the same order
    i = int(n_classes - 2 - np.floor((np.sqrt(4 * n_classes * (n_classes - 1) - 8 * best - 7) - 1) / 2))
    j = best + 1 - i * (2 * n_classes - i - 3) // 2
    return float(distances[best]), i, int(j)


def spread(W: np.ndarray, norm: TransportNorm, present: np.ndarray | None = None) -> float:
    """phi(W) = max over pairs of classes of ||w_i - w_j||_*; see `widest_pair`."""
    return widest_pair(W, norm, present)[0]


def spread_subgradient(W: np.ndarray, norm: TransportNorm, present: np.ndarray | None = None) -> np.ndarray:
    """A subgradient (e_i - e_j) v^T of phi at W, shape (n_classes, n_features); zero where phi is."""
    _, i, j = widest_pair(W, norm, present)
    C = np.zeros_like(W)
    v = norm.direction(W[i] - W[j])
    C[i], C[j] = v, -v
    return C
