"""The robust problem as a conic programme, solved by cvxpy and Clarabel: the oracle and the fallback.

    minimise   F(M) + rho/2 ||M - A||^2
    F(M) = min lam r + sum_n w_n s_n   over  u, s >= 0, lam  such that, with scores S = X M^T,
        u_n >= S_nc                              for all c                (u_n: highest score of record n)
        s_n >= 1 + S_nc - S_ny                   for all c != y           (own label)
        s_n + kappa lam >= 1 + u_n - S_nc        for all c != y           (label flipped to c)
        lam >= ||w_i - w_j||_*                   for all pairs in phi     (features transported)

The compact form (one u_n instead of all pairs c, c') is valid for every number of classes: where it differs
from the literal one the own-label hinge dominates.  A problem is compiled once per shape and process and
refilled through parameters afterwards; compiled problems are a cache, never state.
"""

import threading
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..ambiguity.transport import pairs_in_spread
from ..ambiguity.wasserstein import RobustRisk

__all__ = ["ConicSolution", "risk_epigraph", "run_clarabel", "solve_prox"]

_cache = threading.local()  # cvxpy problems hold their parameters' values: one set of them per thread


@dataclass(frozen=True)
class ConicSolution:
    """Minimiser of one prox problem.

    Parameters
    ----------
    M : ndarray of shape (n_classes, n_columns)
    lam : float
        Multiplier of the transport budget at `M`.
    value : float
        F(M) + rho/2 ||M - A||^2, evaluated at the returned point.
    """

    M: np.ndarray
    lam: float
    value: float


def solve_prox(problem: RobustRisk, centre: np.ndarray, rho: float) -> ConicSolution:
    """Minimise  F(M) + rho/2 ||M - centre||^2.

    Parameters
    ----------
    problem : RobustRisk
    centre : ndarray of shape (n_classes, n_columns)
        Prox centre A.
    rho : float
        Prox weight, > 0; 0 solves the central problem, whose minimiser need not be unique.

    Returns
    -------
    ConicSolution

    Raises
    ------
    ArithmeticError
        If Clarabel does not return a solution.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.ambiguity.transport import TRANSPORT_NORMS
    >>> from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
    >>> ball = WassersteinBall(radius=0.1, kappa=np.inf, norm=TRANSPORT_NORMS["l2"])
    >>> risk = RobustRisk(np.array([[-1.0], [1.0]]), np.array([0, 1]), np.full(2, 0.5), 2, 1, ball)
    >>> round(solve_prox(risk, np.zeros((2, 1)), 0.0).value, 4)
    0.1
    """
    compiled = _compiled(problem, rho > 0)
    compiled.fill(problem, centre, rho)
    M = compiled.solve()
    value, lam = problem.value(M)
    return ConicSolution(M, lam, value + 0.5 * rho * float(((M - centre) ** 2).sum()))


def _compiled(problem, with_prox):
    if not hasattr(_cache, "compile"):
        _cache.compile = lru_cache(maxsize=64)(_CompiledProblem)
    i, j = pairs_in_spread(problem.n_classes, problem.labels_in_phi)
    return _cache.compile(
        problem.X.shape,
        problem.n_classes,
        problem.n_features,
        problem.ball.norm,
        np.isfinite(problem.ball.kappa),
        tuple(zip(i.tolist(), j.tolist(), strict=True)),
        with_prox,
    )


def risk_epigraph(M, X, Y, weight, radius, kappa, n_features, norm, pairs):
    """The robust risk F(M) of one client as a cvxpy expression to be minimised, and what ties it to M.

    Labels enter as a 0/1 matrix Y, so that one compilation serves all labellings; the constraints that this
    adds for c = y follow from the others.

    Parameters
    ----------
    M : cvxpy.Variable of shape (n_classes, n_columns)
    X, Y, weight, radius : cvxpy.Parameter or array
        Rows (n_rows, n_columns), labels (n_rows, n_classes), weights (n_rows,), radius ().
    kappa : cvxpy.Parameter, float or None
        Cost of a flip; None if labels are trusted.
    n_features : int
    norm : TransportNorm
    pairs : sequence of pairs of int
        Of classes that count in phi.

    Returns
    -------
    risk : cvxpy.Expression
    constraints : list
    """
    import cvxpy as cp

    n, n_classes = Y.shape
    lam, s = cp.Variable(nonneg=True), cp.Variable(n)
    S = cp.Variable((n, n_classes))
    own = cp.sum(cp.multiply(Y, S), axis=1)
    column = np.ones((1, n_classes))
    constraints = [
        S == X @ M.T,
        s[:, None] @ column >= 1 - Y + S - own[:, None] @ column,
    ]
    if kappa is not None:
        u = cp.Variable(n)
        constraints += [
            u[:, None] @ column >= S,
            (s + kappa * lam)[:, None] @ column >= 1 - Y + u[:, None] @ column - S,
        ]
    W = M[:, :n_features]
    constraints += [lam >= cp.norm(W[i] - W[j], norm.dual_order) for i, j in pairs]
    return radius * lam + weight @ s, constraints


class _CompiledProblem:
    """One cvxpy problem of fixed shape whose data are parameters."""

    def __init__(self, shape, n_classes, n_features, norm, flips, pairs, with_prox):
        import cvxpy as cp

        n, p = shape
        self.M = cp.Variable((n_classes, p))
        self.X = cp.Parameter((n, p))
        self.Y = cp.Parameter((n, n_classes))
        self.weight = cp.Parameter(n, nonneg=True)
        self.radius = cp.Parameter(nonneg=True)
        self.kappa = cp.Parameter(nonneg=True) if flips else None
        objective, constraints = risk_epigraph(
            self.M, self.X, self.Y, self.weight, self.radius, self.kappa, n_features, norm, pairs
        )
        if with_prox:
            self.rho = cp.Parameter(nonneg=True)
            self.pull = cp.Parameter((n_classes, p))  # rho A: keeps the problem affine in its parameters
            objective += self.rho * cp.sum_squares(self.M) / 2 - cp.sum(cp.multiply(self.pull, self.M))
        self.problem = cp.Problem(cp.Minimize(objective), constraints)

    def fill(self, problem: RobustRisk, centre, rho):
        self.X.value = problem.X
        self.Y.value = np.eye(problem.n_classes)[problem.y]
        self.weight.value = problem.weight
        self.radius.value = problem.ball.radius
        if self.kappa is not None:
            self.kappa.value = problem.ball.kappa
        if rho > 0:
            self.rho.value = rho
            self.pull.value = rho * centre

    def solve(self):
        run_clarabel(self.problem)
        return self.M.value


def run_clarabel(problem, **settings) -> None:
    """Solve a cvxpy problem; ArithmeticError if there is no solution to read off its variables."""
    import cvxpy as cp

    # no warm start: the answer must not depend on which problem the process solved before
    try:
        problem.solve(solver=cp.CLARABEL, warm_start=False, **settings)
    except cp.SolverError as error:
        raise ArithmeticError(f"Clarabel did not solve the problem ({error}).") from None
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise ArithmeticError(f"Clarabel ended with status {problem.status!r}.")
