"""What nature does to one record when moving it costs rho per squared distance: the inner maximisation.

    sup over xi in a box of  loss(xi) - rho ||xi - zeta||^2          (inner problem of eqs. (26) and (27) of [1]_)

Two ways.  `ascend` takes projected gradient steps from the sample, for any loss.  `worst_in_box` is exact for the
squared loss, whose residual is linear: e(xi) = e + v . (xi - zeta).  Every maximiser has the form

    xi(tau) = clip(zeta + tau v / rho)     with tau = e(xi(tau)),

and tau -> e(xi(tau)) is piecewise linear and nondecreasing with breaks where a coordinate meets its bound; so the
supremum is the largest value over all roots, of which each of the 2 m + 1 pieces has at most one.  Without a box
the supremum is  rho / (rho - ||v||^2) e^2  for rho > ||v||^2 and infinite for less.

.. [1] Liu, Li, You, Cherukuri. Distributionally Robust Federated Learning with Multi-Source Data. arXiv 2609.20501.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["Box", "ascend", "perturb", "worst_in_box"]


@dataclass(frozen=True)
class Box:
    """Where records may lie.

    Parameters
    ----------
    lo, hi : ndarray of shape (n_coordinates,)
        `lo` < `hi`; infinite where there is no bound.
    """

    lo: np.ndarray
    hi: np.ndarray

    def clip(self, xi: np.ndarray) -> np.ndarray:
        """Euclidean projection, shape (..., n_coordinates)."""
        return np.minimum(np.maximum(xi, self.lo), self.hi)

    @property
    def bounded(self) -> bool:
        """Whether all bounds are finite."""
        return bool(np.isfinite(self.lo).all() and np.isfinite(self.hi).all())


def ascend(
    gradient: Callable[[np.ndarray], np.ndarray],
    zeta: np.ndarray,
    penalty: np.ndarray,
    box: Box,
    n_steps: int,
    step: float | np.ndarray,
) -> np.ndarray:
    """Projected gradient ascent on  loss(xi) - rho ||xi - zeta||^2,  started at the sample.

    Parameters
    ----------
    gradient : callable
        Gradient of the loss in xi, both of shape (..., n_coordinates).
    zeta : ndarray of shape (..., n_coordinates)
    penalty : ndarray broadcastable to (...)
        rho, > 0.
    box : Box
    n_steps : int
    step : float or ndarray broadcastable to (...)

    Returns
    -------
    xi : ndarray of shape (..., n_coordinates)

    Examples
    --------
    >>> unbounded = Box(np.full(1, -np.inf), np.full(1, np.inf))
    >>> ascend(lambda xi: np.ones_like(xi), np.zeros(1), np.array(2.0), unbounded, n_steps=100, step=0.1)
    array([0.25])
    """
    step = np.asarray(step)[..., None]
    pull = 2.0 * np.asarray(penalty)[..., None] * step
    kept, anchor = 1.0 - pull, pull * zeta  # xi - pull (xi - zeta): the cost's part of a step, in two products
    xi = zeta
    for _ in range(n_steps):
        xi = box.clip(kept * xi + anchor + step * gradient(xi))
    return xi


def perturb(xi: np.ndarray, normals: np.ndarray, length: float | np.ndarray, box: Box) -> np.ndarray:
    """Points moved by `length` in a random direction and projected on the box.

    Parameters
    ----------
    xi : ndarray of shape (..., n_coordinates)
    normals : ndarray of shape (..., n_coordinates)
        Standard normal numbers that give the directions.
    length : float
    box : Box
    """
    return box.clip(xi + length * normals / np.linalg.norm(normals, axis=-1, keepdims=True))


def worst_in_box(zeta: np.ndarray, v: np.ndarray, residual: np.ndarray, penalty: np.ndarray, box: Box) -> np.ndarray:
    """Maximiser of  (e + v . (xi - zeta))^2 - rho ||xi - zeta||^2  over a bounded box, exactly.

    Parameters
    ----------
    zeta : ndarray of shape (..., n_coordinates)
        Samples, in the box.
    v : ndarray broadcastable to (..., n_coordinates)
    residual : ndarray of shape (...)
        e, the residual at the sample.
    penalty : ndarray broadcastable to (...)
        rho, > 0.
    box : Box
        With finite bounds.

    Returns
    -------
    xi : ndarray of shape (..., n_coordinates)

    Examples
    --------
    >>> unit = Box(np.full(1, -1.0), np.ones(1))
    >>> worst_in_box(np.zeros(1), np.ones(1), np.array(0.1), np.array(0.5), unit)
    array([1.])
    """
    rho, v = np.asarray(penalty, dtype=float)[..., None], np.broadcast_to(v, zeta.shape)
    # a coordinate that v does not touch has no break; 0 is as good a knot as any
    speed = np.where(v == 0, np.inf, v) / rho
    knots = np.sort(np.concatenate([(box.lo - zeta) / speed, (box.hi - zeta) / speed], axis=-1), axis=-1)

    def moved(tau):  # (..., n_knots) -> (..., n_knots, n_coordinates), relative to the sample
        step = tau[..., None] * (v / rho)[..., None, :]
        return box.clip(zeta[..., None, :] + step) - zeta[..., None, :]

    def residual_at(delta):
        return residual[..., None] + np.vecdot(delta, v[..., None, :])

    at_knots = residual_at(moved(knots))
    excess = at_knots - knots
    left, right = excess[..., :-1], excess[..., 1:]
    share = np.divide(left, left - right, out=np.zeros_like(left), where=left != right).clip(0.0, 1.0)
    roots = knots[..., :-1] + share * np.diff(knots, axis=-1)
    # beyond the first and the last knot all coordinates rest at a bound, and the residual stays what it is there
    tau = np.concatenate([at_knots[..., :1], roots, at_knots[..., -1:]], axis=-1)
    delta = moved(tau)
    # where a piece has no root its candidate is some other feasible point, which cannot beat the supremum
    gain = residual_at(delta) ** 2 - rho * (delta**2).sum(axis=-1)
    best = gain.argmax(axis=-1)[..., None, None]
    return zeta + np.take_along_axis(delta, best, axis=-2)[..., 0, :]
