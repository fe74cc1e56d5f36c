"""The small quadratic program of a bundle, by a warm-started active set.

    minimise  x'Q x / 2 - p'x   subject to   E x = e (two rows),  x >= 0;     Q a Gram matrix, any rank.

A *basis* is the set S of positive variables together with the inverse of its optimality system

    [ 0     E_S  ] [ m   ]   [ e   ]
    [ E_S'  Q_SS ] [ x_S ] = [ p_S ].

The inverse grows by bordering when a variable enters and shrinks by elimination when one leaves: O(|S|^2)
each, in a few numpy calls. It depends neither on p nor on e, so it survives a change of either and a solve
that starts at the right basis is one product. A variable whose column depends on the basis is exchanged for
the first one that it drives to zero, which keeps the system regular. Rounding is watched through the reduced
costs of the basis, which pricing computes anyway; where they are not small the inverse is computed afresh.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["Basis", "solve_quadratic"]

_DEPENDENT = 1e-14
"""Schur complements below this fraction of the terms that cancel in them count as zero."""


@dataclass
class Basis:
    """Positive variables and the inverse of their optimality system; the two equalities come first.

    Parameters
    ----------
    support : ndarray of int, shape (n_support,)
    inverse : ndarray of shape (n_support + 2, n_support + 2)
    """

    support: np.ndarray
    inverse: np.ndarray

    @classmethod
    def of(cls, support: np.ndarray, Q: np.ndarray, E: np.ndarray) -> "Basis":
        """Basis of the given variables; raises `numpy.linalg.LinAlgError` if their system is singular."""
        system = np.zeros((len(support) + 2, len(support) + 2))
        system[:2, 2:] = E[:, support]
        system[2:, :2] = system[:2, 2:].T
        system[2:, 2:] = Q[np.ix_(support, support)]
        return cls(support, np.linalg.inv(system))

    def refresh(self, Q: np.ndarray, E: np.ndarray) -> None:
        """Compute the inverse anew, free of the rounding of its updates."""
        self.inverse = Basis.of(self.support, Q, E).inverse

    def border(self, j: int, u: np.ndarray, schur: float) -> None:
        """Add variable `j`, whose column is the basis times `u`, with Schur complement `schur`."""
        m = len(u)
        grown = np.empty((m + 1, m + 1))
        tail = u / -schur
        np.multiply(u[:, None], tail, out=grown[:m, :m])
        np.subtract(self.inverse, grown[:m, :m], out=grown[:m, :m])
        grown[m, :m] = grown[:m, m] = tail
        grown[m, m] = 1.0 / schur
        support = np.empty(m - 1, dtype=int)
        support[:-1], support[-1] = self.support, j
        self.support, self.inverse = support, grown

    def pinned(self, position: int, Q: np.ndarray, E: np.ndarray) -> bool:
        """Whether the equalities alone fix the variable at `position`: then it moves by rounding only.

        That is so if the other columns of E are parallel. The pivot would be zero; the test on it is cheap
        and lets few pass.
        """
        variable = self.support[position]
        if self.inverse[position + 2, position + 2] * Q[variable, variable] > 1e-6:
            return False
        others = E[:, np.delete(self.support, position)]
        size = np.abs(others).sum(axis=0)
        cross = others[0] * others[1, 0] - others[1] * others[0, 0]
        return bool((np.abs(cross) <= 1e-12 * size * size[0]).all())

    def drop(self, position: int) -> None:
        """Remove the variable at `position` of the support; the last one takes its place."""
        at = position + 2
        column = self.inverse[:, at]
        inverse = self.inverse - column[:, None] * (column / column[at])
        inverse[at] = inverse[-1]
        inverse[:, at] = inverse[:, -1]
        support = self.support[:-1].copy()
        if position < len(support):
            support[position] = self.support[-1]
        self.support, self.inverse = support, inverse[:-1, :-1]


def _first_to_vanish(x, move):
    """Largest step in [0, inf) with x + step * move >= 0, and the position that stops it (None: nothing)."""
    falling = (move < 0).nonzero()[0]
    if len(falling) == 0:
        return np.inf, None
    steps = x[falling] / -move[falling]
    first = steps.argmin()
    return max(float(steps[first]), 0.0), int(falling[first])


def _enter(j, Q, E, x, basis):
    """Bring variable `j` into the basis; False if it depends on the basis and drives nothing to zero."""
    S = basis.support
    column = np.concatenate((E[:, j], Q[j, S]))
    u = basis.inverse @ column
    schur = Q[j, j] - column @ u
    if schur > _DEPENDENT * (Q[j, j] + np.abs(column) @ np.abs(u)):
        basis.border(j, u, schur)
        return True
    move = -u[2:]
    move[np.abs(move) < 1e-12] = 0.0
    step, position = _first_to_vanish(x[S], move)
    if position is None:
        return False
    x[S] += step * move
    x[S[position]] = 0.0
    x[j] = step
    basis.support = np.where(np.arange(len(S)) == position, j, S)
    basis.refresh(Q, E)
    return True


def _leave(target, slack, Q, E, x, basis):
    """Step from `x` towards `target` until a variable vanishes, and drop it; False if none should.

    A variable that the equalities fix at zero may have a target a little below: no reason to drop it.
    """
    S = basis.support
    start = x[S]
    move = np.where(target < -slack, target - start, 0.0)
    step, leaving = _first_to_vanish(start, move)
    while leaving is not None and basis.pinned(leaving, Q, E):
        move[leaving] = 0.0
        step, leaving = _first_to_vanish(start, move)
    if leaving is None:
        return False
    if basis.inverse[leaving + 2, leaving + 2] <= 0:
        raise np.linalg.LinAlgError("a pivot of the basis has the wrong sign")
    x[S] = np.maximum(start + min(step, 1.0) * (target - start), 0.0)
    x[S[leaving]] = 0.0
    basis.drop(leaving)
    return True


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
    E : ndarray of shape (2, n)
    p : ndarray of shape (n,)
    e : ndarray of shape (2,)
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
    multipliers : ndarray of shape (2,)
        m in the optimality system.
    converged : bool
        False if steps ran out or rounding stopped the method; `x` is feasible all the same.

    Raises
    ------
    numpy.linalg.LinAlgError
        If rounding has made the basis singular; `x` is feasible all the same.
    """
    fresh = False
    for _ in range(max_steps):
        S = basis.support
        z = basis.inverse @ np.concatenate((e, p[S]))
        target, slack = z[2:], 1e-11 * mass[S]
        if (target + slack).min() < 0 and _leave(target, slack, Q, E, x, basis):
            fresh = False
            continue
        x[S] = np.maximum(target, 0.0)
        cost = (Q @ x - p + z[:2] @ E) * mass
        if not fresh and np.abs(cost[S]).max() > 0.1 * tol:
            basis.refresh(Q, E)
            fresh = True
            continue
        cost[S] = 0.0
        j = int(cost.argmin())
        if cost[j] >= -tol:
            return z[:2], True
        if not _enter(j, Q, E, x, basis):
            return z[:2], False
        fresh = False
    return z[:2], False
