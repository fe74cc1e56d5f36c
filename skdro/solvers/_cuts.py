"""The cuts of a bundle as one table, and the minimiser of the model they make.

A data cut and a phi cut have one shape,  unit_t t + unit_lam lam >= <slope, M> + offset:  data cuts have
units (1, -h) and offset c, phi cuts (0, 1) and 0.  Row 0 is the start cut (h = 0), row 1 the zero cut;
neither ever goes, since with them the dual stays feasible.
"""

from dataclasses import dataclass

import numpy as np

from ._quadratic import Basis, solve_quadratic

__all__ = ["BundleState", "Cuts"]

_START, _ZERO = 0, 1
_IDLE = 20
_ROOM = 16
"""Solutions of the model after which a cut without weight is dropped."""


@dataclass(frozen=True)
class BundleState:
    """What a bundle keeps between solves: arrays only.  See `skdro.solvers.bundle` for the symbols.

    Parameters
    ----------
    slopes : ndarray of shape (n_cuts, n_classes * n_columns)
        G of the data cuts and C of the phi cuts, flattened.
    units : ndarray of shape (2, n_cuts)
        What a cut bounds: t - h lam for data cuts, lam for phi cuts.
    offsets : ndarray of shape (n_cuts,)
        c of the data cuts, 0 for phi cuts.
    gram : ndarray of shape (n_cuts, n_cuts)
        Inner products of the slopes.
    weights : ndarray of shape (n_cuts,)
        Multipliers a and b of the cuts in the last solve.
    idle : ndarray of int, shape (n_cuts,)
        Solutions of the model since the cut last had weight.
    support : ndarray of int
        Cuts in the basis.
    inverse : ndarray of shape (len(support) + 2, len(support) + 2)
        Inverse of the basis's optimality system.
    """

    slopes: np.ndarray
    units: np.ndarray
    offsets: np.ndarray
    gram: np.ndarray
    weights: np.ndarray
    idle: np.ndarray
    support: np.ndarray
    inverse: np.ndarray


@dataclass(frozen=True)
class ModelMinimum:
    """Minimiser of the model plus the proximal term, and what its exactly feasible multipliers prove.

    Parameters
    ----------
    M : ndarray of shape (n_classes, n_columns)
    lam : float
    bound : float
        No larger than the least of the risk plus the proximal term.
    slope : ndarray of shape (n_classes, n_columns)
        W: the risk is nowhere below  <W, M> + offset.
    offset : float
        sum_j a_j c_j.
    """

    M: np.ndarray
    lam: float
    bound: float
    slope: np.ndarray
    offset: float


class Cuts:
    """Growing table of cuts with the quadratic program over them; lives for one solve.

    Parameters
    ----------
    state : BundleState
        Cuts to start from; its arrays are not changed.
    radius : float
    """

    def __init__(self, state: BundleState, radius: float):
        self.radius = radius
        self._take(state, len(state.offsets) + _ROOM)
        self.basis = Basis(state.support, state.inverse)
        if abs(self.units[1, : self.n] @ self.weights[: self.n] - radius) > 1e-9 * max(radius, 1e-9):
            self._restart()

    @classmethod
    def start(cls, G: np.ndarray, c: float, radius: float) -> "Cuts":
        """The start cut, made without flips, and the zero cut."""
        slopes = np.vstack([G.ravel(), np.zeros(G.size)])
        gram, units, support = slopes @ slopes.T, np.eye(2), np.array([_START, _ZERO])
        inverse = Basis.of(support, gram, units).inverse
        weights, idle = np.array([1.0, radius]), np.zeros(2, dtype=int)
        return cls(BundleState(slopes, units, np.array([c, 0.0]), gram, weights, idle, support, inverse), radius)

    def _take(self, state, capacity):
        self.n = n = len(state.offsets)
        self.slopes = np.empty((capacity, state.slopes.shape[1]))
        self.gram = np.empty((capacity, capacity))
        self.units = np.empty((2, capacity))
        self.offsets, self.weights = np.empty(capacity), np.zeros(capacity)
        self.idle = np.zeros(capacity, dtype=int)
        self.slopes[:n], self.gram[:n, :n], self.units[:, :n] = state.slopes, state.gram, state.units
        self.offsets[:n], self.weights[:n], self.idle[:n] = state.offsets, state.weights, state.idle

    def _restart(self):
        """Feasible point and basis of two cuts: for another radius, or where rounding spoiled the basis."""
        self.weights[:] = 0.0
        self.weights[_START], self.weights[_ZERO] = 1.0, self.radius
        self.basis = Basis.of(np.array([_START, _ZERO]), self.gram, self.units)

    def add_data(self, G: np.ndarray, h: float, c: float) -> None:
        """Append the cut  t >= <G, M> + h lam + c."""
        self._append(G, (1.0, -h), c)

    def add_phi(self, C: np.ndarray) -> None:
        """Append the cut  lam >= <C, M>."""
        self._append(C, (0.0, 1.0), 0.0)

    def _append(self, slope, unit, offset):
        if self.n == len(self.offsets):
            self._make_room()
        n = self.n
        self.slopes[n] = slope.ravel()
        self.gram[n, : n + 1] = self.gram[: n + 1, n] = self.slopes[: n + 1] @ self.slopes[n]
        self.units[:, n], self.offsets[n] = unit, offset
        self.weights[n], self.idle[n] = 0.0, 0
        self.n = n + 1

    def _make_room(self):
        """Drop the cuts that have been idle for long and double the room if few were."""
        state = self.to_state()
        self._take(state, max(len(self.offsets), 2 * len(state.offsets)))
        self.basis.support = state.support

    def minimise_model(self, centre: np.ndarray, rho: float, tol: float) -> "ModelMinimum":
        """Minimise the model plus rho/2 ||M - centre||^2.

        Parameters
        ----------
        centre : ndarray of shape (n_classes, n_columns)
        rho : float
        tol : float
            Model values this close to the least are good enough.
        """
        n, A = self.n, centre.ravel()
        slopes, units = self.slopes[:n], self.units[:, :n]
        reward = self.offsets[:n] + slopes @ A
        # a weight can reach one on a data cut and the radius on a phi cut
        mass = np.where(units[0] > 0, 1.0, max(self.radius, 1e-12))
        program = (self.gram[:n, :n], units, rho * reward, np.array([1.0, self.radius]))
        multipliers, ok = self._solve(program, mass, rho * tol)
        if not ok:
            self._restart()
            multipliers, _ = self._solve(program, mass, rho * tol)
        self.idle[:n] += 1
        self.idle[:n][self.weights[:n] > 0] = 0
        weights = feasible_weights(self.weights[:n], units, self.radius)
        W = weights @ slopes
        bound = float(weights @ reward - W @ W / (2 * rho))
        return ModelMinimum(
            (A - W / rho).reshape(centre.shape),
            max(float(multipliers[1]) / rho, 0.0),
            bound,
            W.reshape(centre.shape),
            float(weights @ self.offsets[:n]),
        )

    def _solve(self, program, mass, tol):
        """Solve the quadratic program in place; should it fail, the weights still give a valid bound."""
        try:
            return solve_quadratic(*program, self.weights[: self.n], self.basis, mass, tol)
        except np.linalg.LinAlgError:
            return np.zeros(2), False

    def to_state(self) -> BundleState:
        """Copy of the cuts that have had weight lately, with the basis."""
        n = self.n
        wanted = self.idle[:n] < _IDLE
        wanted[[_START, _ZERO]] = wanted[self.basis.support] = True
        keep = np.flatnonzero(wanted)
        position = np.cumsum(wanted) - 1
        return BundleState(
            self.slopes[keep],
            self.units[:, keep],
            self.offsets[keep],
            self.gram[np.ix_(keep, keep)],
            self.weights[keep],
            self.idle[keep],
            position[self.basis.support],
            self.basis.inverse,
        )


def feasible_weights(weights: np.ndarray, units: np.ndarray, radius: float) -> np.ndarray:
    """Exactly feasible multipliers next to rounded ones.

    That is: a >= 0, sum a = 1, b >= 0, sum b = radius + sum a_j h_j.

    Parameters
    ----------
    weights : ndarray of shape (n_cuts,)
    units : ndarray of shape (2, n_cuts)
    radius : float

    Returns
    -------
    weights : ndarray of shape (n_cuts,)
        The flips in `a` may cost more than the radius; the start cut, which has none, then takes part of its
        weight.
    """
    weights = np.maximum(weights, 0.0)
    a = weights * units[0]
    total = a.sum()
    if total > 0:
        a /= total
    else:
        a[_START] = 1.0
    flips = float((units[1] * units[0]) @ a)
    if flips > radius:
        a *= radius / flips
        a[_START] += 1.0 - radius / flips
        flips = radius
    b = weights * (1.0 - units[0])
    total = b.sum()
    if total > 0:
        b *= (radius - flips) / total
    else:
        b[_ZERO] = radius - flips
    return a + b
