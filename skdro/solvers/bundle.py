"""Proximal bundle method for the Wasserstein-robust Crammer-Singer risk, with cuts that outlive the solve.

One client's problem with prox centre A:  min over M, lam >= phi(M) of  lam r + f(M, lam) + rho/2 ||M - A||^2,
f(M, lam) = sum_n w_n max(a_n, b_n - kappa lam).  f and phi are maxima of too many affine functions to list;
the bundle holds the *cuts* met so far,

    data cuts  f(M, lam) >= <G_j, M> + h_j lam + c_j,     phi cuts  lam >= <C_i, M>     (C = 0 among them).

Each iteration (1) minimises the model made of the cuts, through its dual, a quadratic program with one
variable a cut and two equalities, by a warm-started active set (`_quadratic.py`):

    max over a, b >= 0 of  -||W||^2 / (2 rho) + sum_j a_j (c_j + <G_j, A>) + sum_i b_i <C_i, A>,
    W = sum a_j G_j + sum b_i C_i,    sum a_j = 1,    sum b_i - sum a_j h_j = r,    M = A - W / rho;

(2) makes (a, b) exactly feasible, so that the dual value is a lower bound whatever the rounding; (3)
evaluates the risk at M, one pass over the data: an upper bound and a new data cut; and adds the violated phi
cuts. It stops when the bounds meet. Neither the cuts nor the dual's feasible set contain A or rho, so the
next solve starts from the old (a, b) and basis: where an ADMM is close to convergence, it needs one
evaluation.

For many classes f is the sum of what the records of each class cost, and each term has cuts of its own: then
there is one equality  sum_j a_gj = 1  a term, and the model made of as many evaluations is much closer to f.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..ambiguity.transport import pair_distances
from ..ambiguity.wasserstein import RobustRisk
from ._centred import CentredRisk
from ._cuts import BundleState, Cuts

__all__ = ["BundleState", "ProxSolution", "solve_prox"]

Risk = TypeVar("Risk", RobustRisk, CentredRisk)
"""A robust risk in some coordinates."""

_PHI_CUTS_A_ROUND = 6
"""Most violated pairs of classes that get a cut each time: more burden the quadratic program for little."""

_MANY_CLASSES = 10
"""From more classes on, the records of each have their own cuts: a tenth of the evaluations, larger programs."""

_STALLED = 20
"""Evaluations without progress after which rounding is held to be in the way."""


@dataclass(frozen=True)
class ProxSolution:
    """Minimiser of a robust risk plus a proximal term, between two bounds.

    Parameters
    ----------
    M : ndarray of shape (n_classes, n_columns)
    lam : float
        The multiplier at which `upper` is attained, at least phi(M).
    upper : float
        Objective at `M`, proximal term included.
    lower : float
        Certified lower bound on the least objective.
    n_iter : int
        Evaluations of the risk.
    state : BundleState
        Cuts and multipliers for the next call on the same data.
    converged : bool
        Whether ``upper - lower <= tol * max(1, |upper|)``.
    """

    M: np.ndarray
    lam: float
    upper: float
    lower: float
    n_iter: int
    state: BundleState
    converged: bool


class Bounds:
    """Best point and best bounds so far, and in `trace` how these came about: (upper, lower) of each update.

    Parameters
    ----------
    tol : float
        Gap to reach, relative to max(1, |upper|).
    """

    M: Any  # an ndarray from the first update on
    lam: Any  # a number, or an ndarray with one of each client

    def __init__(self, tol: float):
        self.tol = tol
        self.M, self.lam, self.upper, self.lower = None, np.nan, np.inf, -np.inf
        self.trace: list[tuple[float, float]] = []
        self._idle = 0

    def update(self, M: np.ndarray, lam: float | np.ndarray, upper: float, lower: float) -> None:
        """Take note of a point with its value and of a lower bound."""
        hair = 1e-14 * max(1.0, abs(upper))
        moved = upper < self.upper - hair or lower > self.lower + hair
        self._idle = 0 if moved else self._idle + 1
        self.lower = max(self.lower, float(lower))
        if upper < self.upper:
            self.M, self.lam, self.upper = M, lam, upper
        self.trace.append((float(self.upper), self.lower))

    @property
    def allowed(self) -> float:
        """Gap to reach, in units of the objective."""
        return self.tol * (max(1.0, abs(self.upper)) if np.isfinite(self.upper) else 1.0)

    @property
    def met(self) -> bool:
        """Whether the gap is small enough."""
        return bool(self.upper - self.lower <= self.allowed)

    @property
    def stalled(self) -> bool:
        """Whether neither bound has moved for long: a new cut lifts the model, unless rounding hides it."""
        return self._idle >= _STALLED


def phi_slopes(problem: Risk, M: np.ndarray, lam: float, tol: float) -> tuple[float, list[np.ndarray]]:
    """phi(M), and the slopes C of the pairs of classes that are wider than `lam` by more than `tol`."""
    norm, features = problem.ball.norm, M[:, : problem.n_features]
    distances, first, second = pair_distances(features, norm, problem.labels_in_phi)
    wide = np.flatnonzero(distances > lam + tol)
    if len(wide) > _PHI_CUTS_A_ROUND:
        wide = wide[np.argpartition(-distances[wide], _PHI_CUTS_A_ROUND)[:_PHI_CUTS_A_ROUND]]
    slopes = []
    for i, j in zip(first[wide], second[wide], strict=True):
        C = np.zeros_like(M)
        C[i, : problem.n_features] = norm.direction(features[i] - features[j])
        C[j] = -C[i]
        slopes.append(C)
    return float(distances.max(initial=0.0)), slopes


def add_phi_cuts(cuts: Cuts, problem: Risk, M: np.ndarray, lam: float, tol: float) -> float:
    """Add the cuts of the pairs of classes that are wider than `lam` by more than `tol`; return phi(M)."""
    phi, slopes = phi_slopes(problem, M, lam, tol)
    for C in slopes:
        cuts.add_phi(C)
    return phi


def data_parts(problem: Risk) -> list[Risk]:
    """The terms of the data term that have cuts of their own."""
    return problem.by_class() if problem.n_classes > _MANY_CLASSES else [problem]


def add_data_cuts(
    cuts: Cuts, parts: Sequence[Risk], M: np.ndarray, lam: float, model: np.ndarray, tol: float
) -> float:
    """Add the cuts of the parts that exceed the model's values by more than `tol`; return the data term there."""
    total = 0.0
    for g, part in enumerate(parts):
        G, h, c = part.data_cut(M, lam)
        # with h = 0 no flip is active and lam, possibly infinite, plays no part
        value = float(G.ravel() @ M.ravel()) + c + (h * lam if h else 0.0)
        if value > model[g] + tol:
            cuts.add_data(g, G, h, c)
        total += value
    return total


def start_cuts(parts: Sequence[Risk], centre: np.ndarray, state: BundleState | None) -> Cuts:
    """Cuts of an earlier solve, or those that make the dual feasible: of each part without flips, and lam >= 0."""
    radius = parts[0].ball.radius
    if state is not None:
        return Cuts(state, radius)
    slopes, _, offsets = zip(*(part.data_cut(centre, np.inf) for part in parts), strict=True)
    return Cuts.start(np.array(slopes), np.array(offsets), radius)


def solve_prox(
    problem: RobustRisk,
    centre: np.ndarray,
    rho: float,
    state: BundleState | None = None,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> ProxSolution:
    """Minimise  J(M) + rho/2 ||M - centre||_F^2  for the robust risk J of one client.

    Parameters
    ----------
    problem : RobustRisk
        The intercept, if any, is the last column: in the data term and the proximal term, outside phi.
    centre : ndarray of shape (n_classes, n_columns)
    rho : float
        Weight of the proximal term, > 0.
    state : BundleState, optional
        State returned by an earlier call with the same data, kappa and norm; centre, rho and radius may
        differ.
    tol : float
        Gap between the bounds, relative to max(1, |upper|), at which to stop.
    max_iter : int
        Evaluations of the risk allowed.

    Returns
    -------
    ProxSolution

    Raises
    ------
    ValueError
        If `rho` is not positive.

    References
    ----------
    Kiwiel, K. C. (1990). Proximity control in bundle methods for convex nondifferentiable minimization.
    Mathematical Programming 46, 105-122.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.ambiguity.transport import TRANSPORT_NORMS
    >>> from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.9]]), np.array([0, 1, 1])
    >>> ball = WassersteinBall(radius=0.1, kappa=1.0, norm=TRANSPORT_NORMS["linf"])
    >>> problem = RobustRisk(X, y, np.full(3, 1 / 3), n_classes=2, n_features=2, ball=ball)
    >>> solution = solve_prox(problem, np.zeros((2, 2)), rho=0.5)
    >>> solution.converged, round(solution.upper, 4)
    (True, ...)
    """
    if not rho > 0:
        raise ValueError(f"rho must be positive, got {rho}.")
    radius = problem.ball.radius
    parts = data_parts(problem)
    cuts = start_cuts(parts, centre, state)
    bounds = Bounds(tol)
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        accuracy = bounds.allowed * min(0.1, 0.5 / len(parts))  # what parts are off by adds up
        least = cuts.minimise_model(centre, rho, accuracy)
        M, lam = least.M, least.lam
        if radius > 0:
            lam = max(lam, add_phi_cuts(cuts, problem, M, lam, accuracy / radius))
            cost = lam * radius
        else:
            lam, cost = np.inf, 0.0  # free of charge, and it makes every flip worthless
        data = add_data_cuts(cuts, parts, M, lam, least.parts, 0.1 * accuracy / len(parts))
        upper = cost + data + 0.5 * rho * float(((M - centre) ** 2).sum())
        bounds.update(M, lam, upper, least.bound)
        if bounds.met or bounds.stalled:
            break
    M, lam = bounds.M, bounds.lam
    lam = lam if np.isfinite(lam) else problem.value(M)[1]
    return ProxSolution(M, lam, bounds.upper, bounds.lower, n_iter, cuts.to_state(), bounds.met)
