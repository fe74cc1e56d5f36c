"""Least Wasserstein-robust risk on one machine: a proximal bundle whose centre moves, with a certified gap.

The bundle of `bundle.py` looks for the minimiser of J(M) + rho/2 ||M - A||^2, one evaluation at a time. The
centre A moves to M where J falls by a fair part of what the model promised (J(A) minus the model's least
value), and stays, with one more cut, where it does not.

*Certificate.* The multipliers prove J(M) >= sum_j a_j c_j + <W, M> for all M, and a minimiser cannot be
large: r phi(M*) <= J* <= J_ub. As the rows of W sum to zero,

    J* >= sum_j a_j c_j - (J_ub / r) (sum_k ||w_k|| - max_k ||w_k||) - 1/2 ||w_b||_1 B,

with the transport norm of the feature columns, w_b the intercept column and B a bound on the spread of the
best intercepts. It needs r > 0. What is subtracted, the *doubt*, goes with W = rho (A - M): the way to remove
it is a smaller rho, whereas many steps without success ask for a larger one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..ambiguity.wasserstein import RobustRisk
from ._centred import CentredRisk
from ._cuts import BundleState, CutTable, ModelMinimum
from .bundle import Bounds, add_data_cuts, add_phi_cuts, data_parts, start_cuts

__all__ = ["FIRST_RHO", "CentralSolution", "Centre", "proximal_point", "solve_central"]

_FAIR, _GOOD = 0.1, 0.5
"""Part of the promised decrease that moves the centre, and that at which rho was larger than need be."""

_PATIENCE = 10
"""Steps without success before rho is doubled."""

FIRST_RHO = 1e-3
"""In units of the mean square of the rows."""


@dataclass(frozen=True)
class CentralSolution:
    """Model of least robust risk, between two bounds.

    Parameters
    ----------
    M : ndarray of shape (n_classes, n_columns)
        Rows sum to zero.
    lam : float
        Optimal multiplier of the transport budget at `M`.
    upper : float
        Robust risk of `M`.
    lower : float
        Certified lower bound on the least robust risk; 0 for radius 0.
    n_iter : int
        Evaluations of the risk.
    bounds : ndarray of shape (n_iter, 2)
        Least risk and greatest lower bound after each of them.
    state : BundleState
        Cuts for a start nearby: the same data, kappa and norm, another radius.
    converged : bool
        Whether ``upper - lower <= tol * max(1, |upper|)``; for radius 0 see `solve_central`.
    """

    M: np.ndarray
    lam: float
    upper: float
    lower: float
    n_iter: int
    bounds: np.ndarray
    state: BundleState
    converged: bool


class Centre:
    """Proximal centre with the risk there, and the weight that keeps the next model close to it.

    Parameters
    ----------
    M : ndarray of shape (n_classes, n_columns)
    risk : float
        Robust risk of `M`.
    rho : float
    """

    def __init__(self, M: np.ndarray, risk: float, rho: float):
        self.M, self.risk, self.rho = M, risk, rho
        self._failures = 0

    def consider(self, M: np.ndarray, risk: float, promised: float, doubt: float, allowed: float) -> None:
        """Move to `M` if its risk is low enough, and adapt rho.

        Parameters
        ----------
        M : ndarray of shape (n_classes, n_columns)
        risk : float
            Robust risk of `M`.
        promised : float
            Decrease of the risk that the model promised.
        doubt : float
            What the certificate loses by W not being zero.
        allowed : float
            Gap to reach.
        """
        # a certificate is worth a smaller rho only once the model itself is nearly good enough
        certify = doubt > (1.0 if promised < 0.5 * allowed else 100.0) * promised
        if risk <= self.risk - _FAIR * promised:
            if certify or risk <= self.risk - _GOOD * promised:
                self.rho *= 0.5
            self.M, self.risk, self._failures = M, risk, 0
            return
        self._failures += 1
        if certify:
            self.rho *= 0.5
            self._failures = 0
        elif self._failures == _PATIENCE:
            self.rho *= 2.0
            self._failures = 0


def solve_central(
    problem: RobustRisk, *, tol: float = 1e-6, max_iter: int = 2000, state: BundleState | None = None
) -> CentralSolution:
    """Minimise the robust risk over all linear models.

    Parameters
    ----------
    problem : RobustRisk
        `X` may be a sparse matrix in CSR format, with the constant column, if any, as its last.
    tol : float
        Certified gap, relative to max(1, |upper|), at which to stop.
    max_iter : int
        Evaluations of the risk allowed.
    state : BundleState, optional
        State returned by an earlier call with the same data, kappa and norm; the radius may differ.

    Returns
    -------
    CentralSolution

    Notes
    -----
    For radius 0 nothing bounds the size of a minimiser, there may be none, and no finite number of cuts
    certifies a gap. `lower` is then 0, and `converged` means that no model of Frobenius norm up to 100 / s is
    better by more than the tolerance, where s is the root mean square length of the rows (centred if there is
    an intercept).

    References
    ----------
    Kiwiel, K. C. (1990). Proximity control in bundle methods for convex nondifferentiable minimization.
    Mathematical Programming 46, 105-122.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.ambiguity.transport import TRANSPORT_NORMS
    >>> from skdro.ambiguity.wasserstein import WassersteinBall
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.9]]), np.array([0, 1, 1])
    >>> ball = WassersteinBall(radius=0.1, kappa=1.0, norm=TRANSPORT_NORMS["linf"])
    >>> solution = solve_central(RobustRisk(X, y, np.full(3, 1 / 3), n_classes=2, n_features=2, ball=ball))
    >>> solution.converged, round(solution.upper, 4)
    (True, 0.2667)
    """
    inner, radius = CentredRisk.of(problem), problem.ball.radius
    origin = np.zeros((problem.n_classes, problem.X.shape[1]))
    parts = data_parts(inner)
    cuts = start_cuts(parts, origin, state)

    def evaluate(least, accuracy):
        lam, cost = np.inf, 0.0
        if radius > 0:
            lam = max(least.lam, add_phi_cuts(cuts, inner, least.M, least.lam, accuracy / radius))
            cost = lam * radius
        return lam, cost + add_data_cuts(cuts, parts, least.M, lam, least.parts, 0.1 * accuracy / len(parts))

    risk, lam = problem.value(origin)
    bounds = Bounds(tol)
    bounds.update(origin, lam, risk, 0.0)
    centre = Centre(origin, risk, FIRST_RHO * inner.size**2)
    n_iter = proximal_point(cuts, evaluate, inner.lower_bound, centre, bounds, max_iter)
    M = inner.to_user(bounds.M)
    upper, lam = problem.value(M)
    lower = bounds.lower if radius > 0 else 0.0
    return CentralSolution(M, lam, upper, lower, n_iter, np.array(bounds.trace), cuts.to_state(), bounds.met)


def proximal_point(
    cuts: CutTable,
    evaluate: Callable[[ModelMinimum, float], tuple[float | np.ndarray, float]],
    lower_bound: Callable[[ModelMinimum, float], float],
    centre: Centre,
    bounds: Bounds,
    max_iter: int,
) -> int:
    """Move the centre until the bounds meet; return the number of evaluations, that of the first centre included.

    Parameters
    ----------
    cuts : CutTable
    evaluate : callable
        ``evaluate(least, accuracy) -> (multipliers, risk)`` at the model's minimiser; adds the cuts there.
    lower_bound : callable
        ``lower_bound(least, upper)``: what the multipliers prove if the least risk is at most `upper`.
    centre : Centre
    bounds : Bounds
        Both are changed in place.
    max_iter : int
    """
    promised, n_iter = np.inf, 1
    while not bounds.met and n_iter < max_iter:
        n_iter += 1
        accuracy = max(min(0.1 * bounds.allowed, 0.05 * promised), 1e-13)
        least = cuts.minimise_model(centre.M, centre.rho, accuracy)
        lam, risk = evaluate(least, accuracy)
        lower = lower_bound(least, min(bounds.upper, risk))
        bounds.update(least.M, lam, risk, lower)
        promised = centre.risk - least.bound
        centre.consider(least.M, risk, promised, least.offset - lower, bounds.allowed)
    return n_iter
