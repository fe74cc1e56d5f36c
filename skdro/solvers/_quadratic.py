"""The small quadratic program of a bundle, by a warm-started active set.

    minimise  x'Q x / 2 - p'x   subject to   E x = e (a few rows),  x >= 0;     Q a Gram matrix, any rank.

A *basis* is the set S of positive variables together with the inverse of its optimality system

    [ 0     E_S  ] [ m   ]   [ e   ]
    [ E_S'  Q_SS ] [ x_S ] = [ p_S ].

It depends neither on p nor on e, so it survives a change of either and a solve that starts at the right basis
is one product. If each variable keeps its *slot* (row and column), the inverse changes by s v v' both when a
variable enters, v = (u, -1) with u the old basis's solution for its column, and when one leaves, v the column
of the inverse. A few such changes are kept as they are and applied together: for hundreds of variables
it is the memory traffic that costs. A variable whose column depends on the basis is exchanged for the first
one that it drives to zero, which keeps the system regular. Rounding is watched through the reduced costs of
the basis, which pricing computes anyway; where they are not small the inverse is computed afresh.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["Basis", "solve_quadratic"]

_DEPENDENT = 1e-14
"""Schur complements below this fraction of the terms that cancel in them count as zero."""

_DELAYED = 16
"""Changes of the inverse that are applied together."""

_CANDIDATES = 32
"""Variables looked at again before all are, where there are many times as many."""


@dataclass
class Basis:
    """Positive variables and the inverse of their optimality system; the equalities come first.

    Parameters
    ----------
    support : ndarray of int, shape (n_support,)
    inverse : ndarray of shape (n_equalities + n_support, n_equalities + n_support)
    """

    support: np.ndarray
    inverse: np.ndarray

    @classmethod
    def of(cls, support: np.ndarray, Q: np.ndarray, E: np.ndarray) -> "Basis":
        """Basis of the given variables; raises `numpy.linalg.LinAlgError` if their system is singular."""
        m = len(E)
        system = np.zeros((m + len(support), m + len(support)))
        system[:m, m:] = E[:, support]
        system[m:, :m] = system[:m, m:].T
        system[m:, m:] = Q[support[:, None], support]
        return cls(support, np.linalg.inv(system))


class _ActiveSet:
    """The program with a basis at work: inverse = base + sum_k scale_k change_k change_k', by slots.

    `S` are the variables of the basis and `slots` their places; `z` = (m, x_S) solves the optimality system.
    Places of variables that left stay empty until the changes are applied.
    """

    def __init__(self, Q, E, p, e, x, basis):
        self.Q, self.E, self.p, self.e, self.x = Q, E, p, e, x
        self._load(basis)
        self.fresh = False  # whether the inverse has just been computed anew

    def _load(self, basis):
        m, self.size = len(self.E), len(basis.inverse)
        self.S, self.slots = basis.support, np.arange(m, self.size)
        self.base, self.n_changes = basis.inverse, 0
        self.changes, self.scale = None, None
        self.z = self.base @ np.concatenate((self.e, self.p[self.S]))

    def basis(self) -> Basis:
        """The basis with all changes applied."""
        if self.n_changes == 0:
            return Basis(self.S, self.base)
        k, n = self.n_changes, len(self.base)
        V = self.changes[:k, : self.size]
        inverse = V.T @ (self.scale[:k, None] * V)
        inverse[:n, :n] += self.base
        if len(self.E) + len(self.S) < self.size:
            filled = np.concatenate((np.arange(len(self.E)), self.slots))
            inverse = inverse[filled[:, None], filled]
        return Basis(self.S, inverse)

    def refresh(self):
        """Compute the inverse anew, free of the rounding of its updates."""
        self._load(Basis.of(self.S, self.Q, self.E))
        S, t, E = self.S, self.target, self.E[:, self.S]
        stationarity = t @ self.Q[S[:, None], S] + self.multipliers @ E - self.p[S]
        self.z -= self.base @ np.concatenate((E @ t - self.e, stationarity))
        self.fresh = True

    @property
    def infeasible(self):
        """Whether E x = e is violated by more than rounding should."""
        return bool(np.abs(self.E[:, self.S] @ self.x[self.S] - self.e).max() > 1e-9)

    @property
    def multipliers(self):
        """m, shape (n_equalities,)."""
        return self.z[: len(self.E)]

    @property
    def target(self):
        """x_S that solves the optimality system."""
        return self.z[self.slots]

    def _solve(self, right):
        """Inverse times a vector."""
        if self.n_changes == 0:
            return self.base @ right
        n, V = len(self.base), self.changes[: self.n_changes, : self.size]
        solution = (self.scale[: self.n_changes] * (V @ right)) @ V
        solution[:n] += self.base @ right[:n]
        return solution

    def _change(self, v, scale, residual):
        """Add scale v v' to the inverse, where v times the right-hand side is `residual`."""
        if self.n_changes == 0:
            self.changes, self.scale = np.zeros((_DELAYED, self.size + _DELAYED)), np.empty(_DELAYED)
        self.changes[self.n_changes, : self.size] = v
        self.scale[self.n_changes] = scale
        self.z += scale * residual * v
        self.n_changes += 1
        self.fresh = False
        if self.n_changes == _DELAYED:
            self._load(self.basis())

    def pivot_column(self, position):
        """Column of the inverse that belongs to the variable at `position` of S."""
        slot = self.slots[position]
        if self.n_changes == 0:
            return self.base[slot]
        V = self.changes[: self.n_changes, : self.size]
        column = (self.scale[: self.n_changes] * V[:, slot]) @ V
        if slot < len(self.base):
            column[: len(self.base)] += self.base[slot]
        return column

    def drop(self, position, column):
        """Remove the variable at `position` of S, whose column in the inverse is `column`."""
        slot = self.slots[position]
        stay = self.slots != slot
        self.S, self.slots = self.S[stay], self.slots[stay]
        self._change(column, -1.0 / column[slot], self.z[slot])

    def enter(self, j):
        """Bring variable `j` into the basis; False if it depends on the basis and drives nothing to zero."""
        column, size = np.zeros(self.size), self.size
        column[: len(self.E)], column[self.slots] = self.E[:, j], self.Q[j, self.S]
        u = self._solve(column)
        schur = self.Q[j, j] - column @ u
        if schur > _DEPENDENT * (self.Q[j, j] + np.abs(column) @ np.abs(u)):
            residual = column @ self.z - self.p[j]
            self.S = np.concatenate((self.S, [j]))
            self.slots, self.size = np.concatenate((self.slots, [size])), size + 1
            self.z = np.concatenate((self.z, [0.0]))
            self._change(np.concatenate((u, [-1.0])), 1.0 / schur, residual)
            return True
        move = -u[self.slots]
        move[np.abs(move) < 1e-12] = 0.0
        step, position = _first_to_vanish(self.x[self.S], move)
        if position is None:
            return False
        self.x[self.S] += step * move
        self.x[self.S[position]] = 0.0
        self.x[j] = step
        self.S = np.where(np.arange(len(self.S)) == position, j, self.S)
        self.refresh()
        return True

    def pinned(self, position, column):
        """Whether the equalities alone fix the variable at `position`: then it moves by rounding only.

        That is so if the other columns of E do not span. The pivot would be zero; the test on it is cheap
        and lets few pass.
        """
        variable = self.S[position]
        if column[self.slots[position]] * self.Q[variable, variable] > 1e-6:
            return False
        others = self.E[:, np.delete(self.S, position)]
        return bool(np.linalg.matrix_rank(others, tol=1e-12 * np.abs(others).max()) < len(self.E))

    def leave(self, slack):
        """Step towards the target until a variable vanishes, and drop it; False if none should.

        A variable that the equalities fix at zero may have a target a little below: no reason to drop it.
        """
        start, target = self.x[self.S], self.target
        move = np.where(target < -slack, target - start, 0.0)
        while True:
            step, leaving = _first_to_vanish(start, move)
            if leaving is None:
                return False
            column = self.pivot_column(leaving)
            if not self.pinned(leaving, column):
                break
            move[leaving] = 0.0
        dependent = column[self.slots[leaving]] <= 0
        if dependent and not self.fresh:
            self.refresh()
            return True
        self.x[self.S] = np.maximum(start + min(step, 1.0) * (target - start), 0.0)
        self.x[self.S[leaving]] = 0.0
        if dependent:  # so nearly that rounding decides the sign of its pivot: the others alone are the better basis
            self.S = np.delete(self.S, leaving)
            self.refresh()
        else:
            self.drop(leaving, column)
        return True

    def reduced_costs(self):
        """Q x - p + E'm of all variables."""
        # x is zero outside S, but picking rows of Q pays only where there are many more
        product = self.Q @ self.x if len(self.x) < 4 * len(self.S) else self.x[self.S] @ self.Q[self.S]
        return product - self.p + self.multipliers @ self.E

    def reduced_costs_of(self, some):
        """Those of some variables."""
        product = self.x[self.S] @ self.Q[self.S[:, None], some]
        return product - self.p[some] + self.multipliers @ self.E[:, some]


def _first_to_vanish(x, move):
    """Largest step in [0, inf) with x + step * move >= 0, and the position that stops it (None: nothing)."""
    falling = (move < 0).nonzero()[0]
    if len(falling) == 0:
        return np.inf, None
    steps = x[falling] / -move[falling]
    first = steps.argmin()
    return max(float(steps[first]), 0.0), int(falling[first])


def solve_quadratic(
    Q: np.ndarray,
    E: np.ndarray,
    p: np.ndarray,
    e: np.ndarray,
    x: np.ndarray,
    basis: Basis,
    mass: np.ndarray,
    tol: float,
    max_steps: int = 1000,
) -> tuple[np.ndarray, bool]:
    """Solve the program from the feasible point `x` with the given basis; both are changed in place.

    Parameters
    ----------
    Q : ndarray of shape (n, n)
    E : ndarray of shape (n_equalities, n)
        Of full rank on the basis.
    p : ndarray of shape (n,)
    e : ndarray of shape (n_equalities,)
    x : ndarray of shape (n,)
        Feasible and zero outside the basis; the solution on return.
    basis : Basis
    mass : ndarray of shape (n,)
        Size that each variable can reach. A reduced cost matters by its product with it.
    tol : float
        Optimal when no (reduced cost x mass) is below -tol.
    max_steps : int
        Changes of the basis allowed.

    Returns
    -------
    multipliers : ndarray of shape (n_equalities,)
        m in the optimality system.
    converged : bool
        False if steps ran out; `x` is feasible all the same, and the basis fits it.

    Raises
    ------
    numpy.linalg.LinAlgError
        If rounding has made the basis singular; `x` is feasible all the same.
    """
    active = _ActiveSet(Q, E, p, e, x, basis)
    try:
        converged = _run(active, mass, tol, max_steps)
    finally:
        done = active.basis()
        basis.support, basis.inverse = done.support, done.inverse
    return active.multipliers, converged


def _run(active, mass, tol, max_steps):
    candidates, entered, exact = np.empty(0, dtype=int), None, False
    many = len(mass) > 8 * _CANDIDATES
    barred = []  # sent back at once although the inverse was exact: rounding hides what they are worth
    for _ in range(max_steps):
        target, slack = active.target, 1e-11 * mass[active.S]
        if (target + slack).min() < 0 and active.leave(slack):
            if entered is not None and entered not in active.S:
                if exact:
                    barred.append(entered)
                active.refresh()
            entered = None
            continue
        S, entered = active.S, None
        active.x[S] = np.maximum(target, 0.0)
        if len(candidates):
            cost = active.reduced_costs_of(candidates) * mass[candidates]
            best = int(cost.argmin())
        if not len(candidates) or cost[best] >= -tol:
            cost = active.reduced_costs() * mass
            wrong = np.abs(cost[S]).max() > 0.1 * tol or (many and active.infeasible)
            if wrong and not active.fresh:
                active.refresh()
                candidates = candidates[:0]
                continue
            cost[S] = 0.0
            if barred:
                cost[barred] = 0.0
            best = int(cost.argmin())
            if cost[best] >= -tol:
                return True
            candidates = np.argpartition(cost, _CANDIDATES)[:_CANDIDATES] if many else candidates
            entered = best
        else:
            entered = int(candidates[best])
        exact = active.fresh
        candidates = candidates[candidates != entered]
        if not active.enter(entered):
            barred.append(entered)  # it depends on the basis and drives nothing to zero
    return False
