"""The cuts of a bundle as one table, and the minimiser of the model they make.

A cut bounds a combination of the *levels* of a model, the variables other than M, from below by an affine
function of M:  unit . levels >= <slope, M> + offset.

For one robust risk the data term is a sum of parts, each with its own cuts, f = sum_g t_g, and the levels are
t_1, ..., t_G and lam: data cuts have 1 for t_g, -h for lam and offset c, phi cuts 1 for lam and 0.  The first
cuts are the start cuts of the parts (h = 0), the next is the zero cut; they never go, since with them the dual
stays feasible.
"""

from dataclasses import dataclass

import numpy as np

from ._quadratic import Basis, solve_quadratic

__all__ = ["BundleState", "CutTable", "Cuts", "ModelMinimum", "feasible_weights", "start_state"]

_IDLE = 20
"""Solutions of the model after which a cut without weight is dropped."""

_ROOM = 16
"""Cuts that find room before the table grows."""


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
    tags : ndarray of shape (n_cuts, n_tags)
        What else is to be known of the cuts that have weight.
    """

    slopes: np.ndarray
    units: np.ndarray
    offsets: np.ndarray
    gram: np.ndarray
    weights: np.ndarray
    idle: np.ndarray
    support: np.ndarray
    inverse: np.ndarray
    tags: np.ndarray


@dataclass(frozen=True)
class ModelMinimum:
    """Minimiser of the model plus the proximal term, and what its exactly feasible multipliers prove.

    Parameters
    ----------
    M : ndarray of shape (n_classes, n_columns)
    bound : float
        No larger than the least of the risk plus the proximal term.
    slope : ndarray of shape (n_classes, n_columns)
        W: the risk is nowhere below  <W, M> + offset.
    offset : float
        sum_j a_j c_j.
    levels : ndarray of shape (n_levels,)
        Where the model has the variables that the cuts bound.
    tag : ndarray of shape (n_tags,)
        Tags of the cuts, weighted.
    """

    M: np.ndarray
    bound: float
    slope: np.ndarray
    offset: float
    levels: np.ndarray
    tag: np.ndarray

    @property
    def parts(self) -> np.ndarray:
        """Values of the parts of the data term, shape (n_parts,); for `Cuts`."""
        return self.levels[:-1]

    @property
    def lam(self) -> float:
        """The multiplier, not below zero; for `Cuts`."""
        return max(float(self.levels[-1]), 0.0)


class CutTable:
    """Growing table of cuts with the quadratic program over them; lives for one solve.

    A subclass says how to make multipliers exactly feasible: `repaired`.

    Parameters
    ----------
    state : BundleState
        Cuts to start from; its arrays are not changed.  The first `n_levels` are a basis.
    total : ndarray of shape (n_levels,)
        What the weighted units of the cuts sum to: the costs of the variables that the cuts bound.
    capacity : ndarray of shape (n_levels,)
        Largest weight of a cut that bounds one variable.
    n_parts : int
        Leading variables that are values; the others are multipliers of budgets.
    """

    def __init__(self, state: BundleState, total: np.ndarray, capacity: np.ndarray, n_parts: int):
        self.total, self.capacity, self.n_parts = total, capacity, n_parts
        self._take(state, len(state.offsets) + _ROOM)
        self.basis = Basis(state.support, state.inverse)
        wrong = self.units[:, : self.n] @ self.weights[: self.n] - total
        if (np.abs(wrong) > 1e-9 * np.maximum(capacity, 1e-9)).any():  # another radius
            self._restart()

    def _take(self, state, capacity):
        self.n = n = len(state.offsets)
        self.slopes = np.empty((capacity, state.slopes.shape[1]))
        self.gram = np.empty((capacity, capacity))
        self.units = np.empty((len(state.units), capacity))
        self.offsets, self.weights = np.empty(capacity), np.zeros(capacity)
        self.idle, self.tags = np.zeros(capacity, dtype=int), np.zeros((capacity, state.tags.shape[1]))
        self.mass = np.empty(capacity)
        self.slopes[:n], self.gram[:n, :n], self.units[:, :n] = state.slopes, state.gram, state.units
        self.offsets[:n], self.weights[:n], self.idle[:n] = state.offsets, state.weights, state.idle
        self.tags[:n], self.mass[:n] = state.tags, self._reach(state.units)

    def _reach(self, units):
        """How large a weight can get: one on a data cut, the radius on a phi cut."""
        g = self.n_parts
        return np.where(units[:g].any(axis=0), 1.0, np.maximum(self.capacity[g:] @ units[g:], 1e-12))

    def _restart(self):
        """Feasible point and basis of two cuts: for another radius, or where rounding spoiled the basis."""
        m = len(self.total)
        self.weights[:] = 0.0
        self.weights[:m] = np.linalg.solve(self.units[:, :m], self.total)
        self.basis = Basis.of(np.arange(m), self.gram, self.units)

    def add(self, slope: np.ndarray, unit: np.ndarray, offset: float, tag: np.ndarray | float = 0.0) -> None:
        """Append the cut  unit . levels >= <slope, M> + offset."""
        if self.n == len(self.offsets):
            self._make_room()
        n = self.n
        self.slopes[n] = slope.ravel()
        self.gram[n, : n + 1] = self.gram[: n + 1, n] = self.slopes[: n + 1] @ self.slopes[n]
        self.units[:, n], self.offsets[n] = unit, offset
        self.weights[n], self.idle[n], self.tags[n], self.mass[n] = 0.0, 0, tag, self._reach(unit)
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
            Each part and each multiplier may leave this much of the model's value to be gained.
        """
        n, A = self.n, centre.ravel()
        slopes, units = self.slopes[:n], self.units[:, :n]
        reward = self.offsets[:n] + slopes @ A
        program = (self.gram[:n, :n], units, rho * reward, self.total)
        multipliers = self._solve(program, rho * tol)
        self.idle[:n] += 1
        self.idle[:n][self.weights[:n] > 0] = 0
        weights = self.repaired(self.weights[:n], units)
        W = weights @ slopes
        bound = float(weights @ reward - W @ W / (2 * rho))
        return ModelMinimum(
            (A - W / rho).reshape(centre.shape),
            bound,
            W.reshape(centre.shape),
            float(weights @ self.offsets[:n]),
            multipliers / rho,
            weights @ self.tags[:n],
        )

    def repaired(self, weights: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Exactly feasible multipliers next to rounded ones."""
        raise NotImplementedError

    def _solve(self, program, tol):
        """Solve the quadratic program in place; should it fail, the weights still give a valid bound."""
        for _ in range(2):
            try:
                weights, mass = self.weights[: self.n], self.mass[: self.n]
                return solve_quadratic(*program, weights, self.basis, mass, tol)[0]
            except np.linalg.LinAlgError:
                self._restart()
        return np.zeros(len(self.total))

    def to_state(self) -> BundleState:
        """Copy of the cuts that have had weight lately, with the basis."""
        n = self.n
        wanted = self.idle[:n] < _IDLE
        wanted[: len(self.total)] = wanted[self.basis.support] = True
        keep = np.flatnonzero(wanted)
        position = np.cumsum(wanted) - 1
        return BundleState(
            self.slopes[keep],
            self.units[:, keep],
            self.offsets[keep],
            self.gram[keep[:, None], keep],
            self.weights[keep],
            self.idle[keep],
            position[self.basis.support],
            self.basis.inverse,
            self.tags[keep],
        )


def start_state(
    slopes: np.ndarray, units: np.ndarray, offsets: np.ndarray, weights: np.ndarray, tags: np.ndarray
) -> BundleState:
    """State of as many cuts as there are variables to bound.

    Parameters
    ----------
    slopes : ndarray of shape (n_levels, n_classes * n_columns)
    units : ndarray of shape (n_levels, n_levels)
    offsets, weights : ndarray of shape (n_levels,)
    tags : ndarray of shape (n_levels, n_tags)
    """
    gram, support = slopes @ slopes.T, np.arange(len(offsets))
    inverse = Basis.of(support, gram, units).inverse
    idle = np.zeros(len(offsets), dtype=int)
    return BundleState(slopes, units, offsets, gram, weights, idle, support, inverse, tags)


class Cuts(CutTable):
    """The cuts of one robust risk: the variables are the parts' values and lam.

    Parameters
    ----------
    state : BundleState
    radius : float
    """

    def __init__(self, state: BundleState, radius: float):
        n_parts = len(state.units) - 1
        total = np.append(np.ones(n_parts), radius)
        super().__init__(state, total, total, n_parts)
        self.radius = radius

    @classmethod
    def start(cls, slopes: np.ndarray, offsets: np.ndarray, radius: float) -> "Cuts":
        """The start cut of each part, made without flips, and the zero cut.

        Parameters
        ----------
        slopes : ndarray of shape (n_parts, n_classes, n_columns)
        offsets : ndarray of shape (n_parts,)
        radius : float
        """
        n_parts = len(offsets)
        slopes = np.vstack([slopes.reshape(n_parts, -1), np.zeros(slopes[0].size)])
        weights, no_tags = np.append(np.ones(n_parts), radius), np.zeros((n_parts + 1, 0))
        return cls(start_state(slopes, np.eye(n_parts + 1), np.append(offsets, 0.0), weights, no_tags), radius)

    def add_data(self, part: int, G: np.ndarray, h: float, c: float) -> None:
        """Append the cut  t_part >= <G, M> + h lam + c."""
        unit = np.zeros(self.n_parts + 1)
        unit[part], unit[-1] = 1.0, -h
        self.add(G, unit, c)

    def add_phi(self, C: np.ndarray) -> None:
        """Append the cut  lam >= <C, M>."""
        unit = np.zeros(self.n_parts + 1)
        unit[-1] = 1.0
        self.add(C, unit, 0.0)

    def repaired(self, weights: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Exactly feasible multipliers."""
        return feasible_weights(weights, units, self.radius)


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
    scale = (1.0 / totals) @ units[:-1]
    a, b = weights * scale, weights * (scale == 0)
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
