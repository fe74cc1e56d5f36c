"""The cuts of a bundle as one table, and the minimiser of the model they make.

The data term is a sum of parts, each with its own cuts: f = sum_g t_g.  A data cut of part g and a phi cut have
one shape,  units . (t_1, ..., t_G, lam) >= <slope, M> + offset:  data cuts have 1 for t_g, -h for lam and offset
c, phi cuts 1 for lam and 0.  The first rows are the start cuts of the parts (h = 0), the next is the zero cut;
they never go, since with them the dual stays feasible.
"""

from dataclasses import dataclass

import numpy as np

from ._quadratic import Basis, solve_quadratic

__all__ = ["BundleState", "Cuts"]

_IDLE = 20
"""Solutions of the model after which a cut without weight is dropped."""

_ROOM = 16
"""Cuts that find room before the table grows."""

_PARTS = 5
"""Parts up to which the program is solved to the tolerance itself."""


@dataclass(frozen=True)
class BundleState:
    """What a bundle keeps between solves: arrays only.  See `skdro.solvers.bundle` for the symbols.

    Parameters
    ----------
    slopes : ndarray of shape (n_cuts, n_classes * n_columns)
        G of the data cuts and C of the phi cuts, flattened.
    units : ndarray of shape (n_parts + 1, n_cuts)
        What a cut bounds: t_g - h lam for data cuts, lam for phi cuts.
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
    inverse : ndarray of shape (n_parts + 1 + len(support), n_parts + 1 + len(support))
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
    parts : ndarray of shape (n_parts,)
        The model's values of the parts of the data term at (M, lam).
    """

    M: np.ndarray
    lam: float
    bound: float
    slope: np.ndarray
    offset: float
    parts: np.ndarray


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
        self._total = np.append(np.ones(len(state.units) - 1), radius)
        self._take(state, len(state.offsets) + _ROOM)
        self.basis = Basis(state.support, state.inverse)
        if abs(self.units[-1, : self.n] @ self.weights[: self.n] - radius) > 1e-9 * max(radius, 1e-9):
            self._restart()

    @classmethod
    def start(cls, slopes: np.ndarray, offsets: np.ndarray, radius: float) -> "Cuts":
        """The start cut of each part, made without flips, and the zero cut.

        Parameters
        ----------
        slopes : ndarray of shape (n_parts, n_classes, n_columns)
        offsets : ndarray of shape (n_parts,)
        radius : float
        """
        m = len(offsets) + 1
        slopes = np.vstack([slopes.reshape(len(offsets), -1), np.zeros(slopes[0].size)])
        gram, units, support = slopes @ slopes.T, np.eye(m), np.arange(m)
        inverse = Basis.of(support, gram, units).inverse
        weights = np.append(np.ones(m - 1), radius)
        state = BundleState(
            slopes, units, np.append(offsets, 0.0), gram, weights, np.zeros(m, dtype=int), support, inverse
        )
        return cls(state, radius)

    @property
    def n_parts(self) -> int:
        """Parts of the data term."""
        return len(self.units) - 1

    def _take(self, state, capacity):
        self.n = n = len(state.offsets)
        self.slopes = np.empty((capacity, state.slopes.shape[1]))
        self.gram = np.empty((capacity, capacity))
        self.units = np.empty((len(state.units), capacity))
        self.offsets, self.weights = np.empty(capacity), np.zeros(capacity)
        self.idle = np.zeros(capacity, dtype=int)
        self.slopes[:n], self.gram[:n, :n], self.units[:, :n] = state.slopes, state.gram, state.units
        self.offsets[:n], self.weights[:n], self.idle[:n] = state.offsets, state.weights, state.idle

    def _restart(self):
        """Feasible point and basis of two cuts: for another radius, or where rounding spoiled the basis."""
        self.weights[:] = 0.0
        self.weights[: self.n_parts + 1] = self._total
        self.basis = Basis.of(np.arange(self.n_parts + 1), self.gram, self.units)

    def add_data(self, part: int, G: np.ndarray, h: float, c: float) -> None:
        """Append the cut  t_part >= <G, M> + h lam + c."""
        unit = np.zeros(self.n_parts + 1)
        unit[part], unit[-1] = 1.0, -h
        self._append(G, unit, c)

    def add_phi(self, C: np.ndarray) -> None:
        """Append the cut  lam >= <C, M>."""
        unit = np.zeros(self.n_parts + 1)
        unit[-1] = 1.0
        self._append(C, unit, 0.0)

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
        mass = np.where(units[:-1].any(axis=0), 1.0, max(self.radius, 1e-12))
        # what each part may be off by adds up
        tol = tol * min(1.0, _PARTS / self.n_parts)
        program = (self.gram[:n, :n], units, rho * reward, self._total)
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
            max(float(multipliers[-1]) / rho, 0.0),
            bound,
            W.reshape(centre.shape),
            float(weights @ self.offsets[:n]),
            multipliers[:-1] / rho,
        )

    def _solve(self, program, mass, tol):
        """Solve the quadratic program in place; should it fail, the weights still give a valid bound."""
        try:
            return solve_quadratic(*program, self.weights[: self.n], self.basis, mass, tol)
        except np.linalg.LinAlgError:
            return np.zeros(self.n_parts + 1), False

    def to_state(self) -> BundleState:
        """Copy of the cuts that have had weight lately, with the basis."""
        n = self.n
        wanted = self.idle[:n] < _IDLE
        wanted[: self.n_parts + 1] = wanted[self.basis.support] = True
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

    That is: a >= 0, sum a = 1 in each part, b >= 0, sum b = radius + sum a_j h_j.

    Parameters
    ----------
    weights : ndarray of shape (n_cuts,)
    units : ndarray of shape (n_parts + 1, n_cuts)
    radius : float

    Returns
    -------
    weights : ndarray of shape (n_cuts,)
        The flips in `a` may cost more than the radius; the start cuts, which have none, then take part of
        its weight.
    """
    weights, n_parts = np.maximum(weights, 0.0), len(units) - 1
    totals = units[:-1] @ weights
    if not totals.all():
        weights[:n_parts][totals == 0] = totals[totals == 0] = 1.0
    is_data = units[:-1].sum(axis=0)
    a = weights * ((1.0 / totals) @ units[:-1])
    b = weights * (1.0 - is_data)
    flips = float(units[-1] @ a)
    if flips > radius:
        a *= radius / flips
        a[:n_parts] += 1.0 - radius / flips
        flips = radius
    total = b.sum()
    if total > 0:
        b *= (radius - flips) / total
    else:
        b[n_parts] = radius - flips
    return a + b
