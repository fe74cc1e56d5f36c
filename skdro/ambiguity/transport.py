"""Transport norms: what it costs nature to move a record, and the dual norm that this puts on the model.

A `TransportNorm` bundles the norm of the cost ||x - x'||, its dual norm ||.||_*, and a direction v with
||v|| <= 1 and <v, d> = ||d||_*. The table `TRANSPORT_NORMS` maps an estimator's string to a component; no
code below the estimators branches on that string.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

__all__ = [
    "TRANSPORT_NORMS",
    "TransportNorm",
    "pair_distances",
    "pairs_in_spread",
    "spread",
    "spread_and_subgradient",
    "spread_subgradient",
    "spreads_and_subgradients",
    "widest_pair",
]


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
    direction : callable
        Maps d, shape (..., n_features), to v with ||v|| <= 1 (transport norm) and <v, d> = ||d||_*.
    farthest : callable
        Maps models W, shape (n_models, n_classes, n_features), to the two classes i, j of each that are farthest
        apart in the dual norm.
    """

    name: str
    order: float
    dual_order: float
    direction: Callable[[np.ndarray], np.ndarray]
    farthest: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

    def length(self, X: np.ndarray) -> np.ndarray:
        """Transport norm of each row of `X`, shape (n_records,)."""
        return np.linalg.norm(X, ord=self.order, axis=-1)

    def dual(self, W: np.ndarray) -> np.ndarray:
        """Dual norm of each row of `W`, shape (n_rows,)."""
        return np.linalg.norm(W, ord=self.dual_order, axis=-1)


def _unit(d):
    length = np.sqrt((d * d).sum(axis=-1, keepdims=True))
    return d / np.where(length > 0, length, 1.0)


def _largest_coordinate(d):
    v = np.zeros_like(d)
    q = np.abs(d).argmax(axis=-1)[..., None]
    np.put_along_axis(v, q, np.sign(np.take_along_axis(d, q, axis=-1)), axis=-1)
    return v


def _largest_entry(distances):
    n_classes = distances.shape[-1]
    return np.divmod(distances.reshape(len(distances), -1).argmax(axis=1), n_classes)


def _farthest_l1(W):
    n_models, n_classes, n_features = W.shape
    at_once = max(1, 2_000_000 // (n_classes**2 * n_features))  # differences of all pairs take memory
    ones, found = np.ones(n_features), []
    for start in range(0, n_models, at_once):
        part = W[start : start + at_once]
        differences = part[:, :, None] - part[:, None]
        found.append(_largest_entry(np.abs(differences, out=differences) @ ones))
    i, j = zip(*found, strict=True)
    return np.concatenate(i), np.concatenate(j)


def _farthest_l2(W):
    centred = W - W.mean(axis=1, keepdims=True)  # as large as their distances, which nothing then cancels
    gram = centred @ centred.transpose(0, 2, 1)
    squares = np.einsum("gkk->gk", gram)
    return _largest_entry(squares[:, :, None] + squares[:, None] - 2 * gram)


def _farthest_linf(W):
    models = np.arange(len(W))
    q = (W.max(axis=1) - W.min(axis=1)).argmax(axis=1)
    return W[models, :, q].argmax(axis=1), W[models, :, q].argmin(axis=1)


TRANSPORT_NORMS = {
    "linf": TransportNorm("linf", np.inf, 1, np.sign, _farthest_l1),
    "l2": TransportNorm("l2", 2, 2, _unit, _farthest_l2),
    "l1": TransportNorm("l1", 1, np.inf, _largest_coordinate, _farthest_linf),
}


@lru_cache(maxsize=32)
def _all_pairs(n_classes):
    """Index pairs i < j; kept, since listing them takes longer than measuring them for a few classes."""
    i, j = np.triu_indices(n_classes, k=1)
    i.flags.writeable = j.flags.writeable = False
    return i, j


def pairs_in_spread(n_classes: int, present: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Pairs i < j of classes that count in phi: all, or those with a label that occurs.

    Parameters
    ----------
    n_classes : int
    present : ndarray of bool, shape (n_classes,), optional
        Labels that occur; see `widest_pair`.

    Returns
    -------
    i, j : ndarray of int, shape (n_pairs,)
    """
    i, j = _all_pairs(n_classes)
    if present is None:
        return i, j
    keep = present[i] | present[j]
    return i[keep], j[keep]


def pair_distances(
    W: np.ndarray, norm: TransportNorm, present: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """||w_i - w_j||_* of the pairs i < j that count in phi: all, or those with a label that occurs.

    Parameters
    ----------
    W : ndarray of shape (n_classes, n_features)
    norm : TransportNorm
    present : ndarray of bool, shape (n_classes,), optional
        See `widest_pair`.

    Returns
    -------
    distances : ndarray of shape (n_pairs,)
    i, j : ndarray of int, shape (n_pairs,)
    """
    i, j = pairs_in_spread(len(W), present)
    return norm.dual(W[i] - W[j]), i, j


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
    distances, i, j = pair_distances(W, norm, present)
    best = int(distances.argmax())
    return float(distances[best]), int(i[best]), int(j[best])


def spread(W: np.ndarray, norm: TransportNorm, present: np.ndarray | None = None) -> float:
    """phi(W) = max over pairs of classes of ||w_i - w_j||_*.

    Parameters
    ----------
    W, norm, present
        As in `widest_pair`.
    """
    return widest_pair(W, norm, present)[0]


def spread_subgradient(W: np.ndarray, norm: TransportNorm, present: np.ndarray | None = None) -> np.ndarray:
    """A subgradient (e_i - e_j) v^T of phi at W, shape (n_classes, n_features); zero where phi is.

    Parameters
    ----------
    W, norm, present
        As in `widest_pair`.
    """
    _, i, j = widest_pair(W, norm, present)
    C = np.zeros_like(W)
    v = norm.direction(W[i] - W[j])
    C[i], C[j] = v, -v
    return C


def spread_and_subgradient(W: np.ndarray, norm: TransportNorm) -> tuple[float, np.ndarray]:
    """phi(W) and a subgradient (e_i - e_j) v^T of it, shape (n_classes, n_features); zero where phi is.

    Parameters
    ----------
    W : ndarray of shape (n_classes, n_features)
    norm : TransportNorm
    """
    phi, i, j = widest_pair(W, norm)  # for one model and few classes, listing the pairs is the quickest
    C = np.zeros_like(W)
    v = norm.direction(W[i] - W[j])
    C[i], C[j] = v, -v
    return phi, C


def spreads_and_subgradients(W: np.ndarray, norm: TransportNorm) -> tuple[np.ndarray, np.ndarray]:
    """`spread_and_subgradient` of many models at once.

    Parameters
    ----------
    W : ndarray of shape (n_models, n_classes, n_features)
    norm : TransportNorm

    Returns
    -------
    phi : ndarray of shape (n_models,)
    C : ndarray of shape (n_models, n_classes, n_features)
    """
    models = np.arange(len(W))
    i, j = norm.farthest(W)
    differences = W[models, i] - W[models, j]
    v = norm.direction(differences)
    C = np.zeros_like(W)
    C[models, i] = v
    C[models, j] -= v  # i = j where all classes agree
    return norm.dual(differences), C
