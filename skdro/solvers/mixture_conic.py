"""Least worst mixture of the clients' robust risks, as one conic programme (cvxpy, Clarabel): exact, no step sizes.

    minimise over the model   max over alpha in A of  sum_i alpha_i F_i(model)

For every set A of mixtures (see `ambiguity.mixture`) the inner maximum is the minimum over tau of
sum_i a0_i max(F_i, tau) + rad (max_i F_i - tau), which is linear over epigraphs.  The multipliers of the constraints
F_i(model) <= risk_i are the worst mixture at the optimum: together with the model, the saddle point.

Squared loss (`Squares` replaces the rows of a client by a small factor R_i first; w = (-theta, -b, 1)):
    radius form     ||R_i w|| + eps_i ||v|| <= t_i,   t_i^2 <= risk_i
    penalised form  ||R_i w||^2 / u_i <= risk_i,      u_i + ||v||^2 / rho_i <= 1
Crammer-Singer loss: the epigraph of `solvers.conic` for each client.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..ambiguity.mixture import MixtureBall
from ..ambiguity.robust_squares import Squares
from ..ambiguity.transport import pairs_in_spread
from ..ambiguity.wasserstein import RobustRisk
from .conic import risk_epigraph, run_clarabel

__all__ = ["SaddlePoint", "solve_margins", "solve_penalised_squares", "solve_radius_squares"]

TIE_BREAK = 1e-9
"""Weight of ||M||^2 in the margin problem: without a radius its minimisers form a cone, of which the smallest model
is wanted.  For rows of unit mean square it moves the optimal value by about as much as the solver's tolerance."""


TOLERANCES = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
ACCURATE = dict.fromkeys(TOLERANCES, 1e-11) | dict.fromkeys((f"reduced_{name}" for name in TOLERANCES), 1e-8)
"""Where the value is flat, the model is known to the root of the value's accuracy only: ask for more than Clarabel's
1e-8, take what rounding leaves of it, and fall back to the default where that is too little."""


@dataclass(frozen=True)
class SaddlePoint:
    """Model and mixture.

    Parameters
    ----------
    model : ndarray of shape (n_columns,) or (n_classes, n_columns)
    alpha : ndarray of shape (n_clients,)
        Worst mixture at the optimum.
    """

    model: np.ndarray
    alpha: np.ndarray


def solve_radius_squares(squares: Squares, radius: np.ndarray, mixture: MixtureBall) -> SaddlePoint:
    """Least worst mixture of  ( RMSE_i + eps_i ||v|| )^2.

    Parameters
    ----------
    squares : Squares
    radius : ndarray of shape (n_clients,)
        eps_i >= 0.
    mixture : MixtureBall

    Returns
    -------
    SaddlePoint

    Raises
    ------
    ArithmeticError
        If Clarabel does not return a solution.

    Examples
    --------
    Two clients of opposite slope: the best model for the worst of them is zero.

    >>> x = np.array([[-1.0], [1.0]])
    >>> squares = Squares.of([(x, x[:, 0]), (x, -x[:, 0])], n_features=1, label=1.0)
    >>> solution = solve_radius_squares(squares, np.zeros(2), MixtureBall(np.array([0.9, 0.1]), 1.0))
    >>> bool(abs(solution.model[0]) < 1e-6), solution.alpha.round(4)
    (True, array([0.5, 0.5]))
    """
    import cvxpy as cp

    model = cp.Variable(squares.factors.shape[2] - 1)
    v = cp.hstack([model[: squares.n_features], np.array([squares.label])])
    length, t = cp.Variable(), cp.Variable(len(radius))
    constraints = [cp.norm(v) <= length]
    risks = cp.Variable(len(radius))
    caps = []
    for i in _reachable(mixture):
        constraints.append(cp.norm(_residual(squares, i, model)) + radius[i] * length <= t[i])
        caps.append((i, cp.square(t[i]) <= risks[i]))
    return _solve(model, risks, caps, constraints, mixture)


def solve_penalised_squares(squares: Squares, penalty: np.ndarray, mixture: MixtureBall) -> SaddlePoint:
    """Least worst mixture of  rho_i / (rho_i - ||v||^2) MSE_i.

    Parameters
    ----------
    squares : Squares
    penalty : ndarray of shape (n_clients,)
        rho_i, above `squares.label` squared: no model has a smaller ||v||^2.
    mixture : MixtureBall

    Returns
    -------
    SaddlePoint

    Raises
    ------
    ArithmeticError
        If Clarabel does not return a solution.

    Examples
    --------
    >>> x = np.array([[-1.0], [1.0]])
    >>> squares = Squares.of([(x, x[:, 0])], n_features=1, label=0.0)
    >>> solution = solve_penalised_squares(squares, np.array([2.0]), MixtureBall(np.ones(1), 1.0))
    >>> solution.model.round(3)
    array([1.])
    """
    import cvxpy as cp

    model = cp.Variable(squares.factors.shape[2] - 1)
    stretch, risks = cp.Variable(), cp.Variable(len(penalty))
    constraints = [cp.sum_squares(model[: squares.n_features]) + squares.label**2 <= stretch]
    caps = [
        (i, cp.quad_over_lin(_residual(squares, i, model), 1 - stretch / penalty[i]) <= risks[i])
        for i in _reachable(mixture)
    ]
    return _solve(model, risks, caps, constraints, mixture)


def solve_margins(problems: Sequence[RobustRisk], mixture: MixtureBall) -> SaddlePoint:
    """Least worst mixture of the clients' robust Crammer-Singer risks.

    Parameters
    ----------
    problems : sequence of RobustRisk
        One a client, in one coordinate frame.
    mixture : MixtureBall

    Returns
    -------
    SaddlePoint

    Raises
    ------
    ArithmeticError
        If Clarabel does not return a solution.

    Examples
    --------
    >>> from skdro.ambiguity.transport import TRANSPORT_NORMS
    >>> from skdro.ambiguity.wasserstein import WassersteinBall
    >>> ball = WassersteinBall(radius=0.1, kappa=np.inf, norm=TRANSPORT_NORMS["l2"])
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> solution = solve_margins([RobustRisk(X, y, np.full(2, 0.5), 2, 1, ball)], MixtureBall(np.ones(1), 1.0))
    >>> solution.model.round(3)
    array([[-0.5], [ 0.5]])
    """
    import cvxpy as cp

    first = problems[0]
    model = cp.Variable((first.n_classes, first.X.shape[1]))
    risks, constraints, caps = cp.Variable(len(problems)), [], []
    for i in _reachable(mixture):
        problem = problems[i]
        kappa = problem.ball.kappa if np.isfinite(problem.ball.kappa) else None
        labels = np.eye(problem.n_classes)[problem.y]
        pairs = zip(*pairs_in_spread(problem.n_classes, problem.labels_in_phi), strict=True)
        risk, ties = risk_epigraph(
            model,
            problem.X,
            labels,
            problem.weight,
            problem.ball.radius,
            kappa,
            problem.n_features,
            problem.ball.norm,
            list(pairs),
        )
        constraints += ties
        caps.append((i, risk <= risks[i]))
    return _solve(model, risks, caps, constraints, mixture, TIE_BREAK)


def _residual(squares, i, model):
    factor = squares.factors[i]
    return factor[:, -1] - factor[:, :-1] @ model


def _reachable(mixture):
    """Clients that some mixture of the set gives weight; the others' risks do not matter, even if infinite."""
    return np.flatnonzero((mixture.nominal > 0) | (mixture.radius > 0))


def _largest_mixture(risks, mixture):
    """Max over A of alpha . risks as a cvxpy expression, and its constraints."""
    import cvxpy as cp

    nominal, radius = mixture.nominal, mixture.radius
    if radius == 0:
        return nominal @ risks, []
    top = cp.Variable()
    if radius >= 1:
        return top, [risks <= top]
    tau, raised = cp.Variable(), cp.Variable(len(nominal))
    return nominal @ raised + radius * (top - tau), [risks <= top, tau <= top, raised >= risks, raised >= tau]


def _solve(model, risks, caps, constraints, mixture, tie_break=0.0):
    import cvxpy as cp

    value, epigraph = _largest_mixture(risks, mixture)
    if len(caps) < len(mixture.nominal):
        epigraph.append(risks >= 0)  # of clients that no cap ties down
    objective = value + tie_break * cp.sum_squares(model) if tie_break else value
    problem = cp.Problem(cp.Minimize(objective), [cap for _, cap in caps] + epigraph + constraints)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")  # it is as accurate as the default
            run_clarabel(problem, **ACCURATE)
    except ArithmeticError:
        run_clarabel(problem)
    alpha = np.zeros(len(mixture.nominal))
    for i, cap in caps:
        alpha[i] = float(np.squeeze(cap.dual_value))
    # multipliers of an interior-point method are in the set up to its tolerance
    return SaddlePoint(model.value, mixture.project(alpha))
