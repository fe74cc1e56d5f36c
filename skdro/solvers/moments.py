"""Robust linear models from released moments: no data are touched here, everything is post-processing.

    ridge        min_W  Q(W)                                      Q: worst case over the noise, `RobustQuadratic`
    Wasserstein  min_W  ( sqrt(Q(W)) + radius ||W'||_F )^2        features move as well; W' without the intercept
    mixture      min_W  max_{alpha in A} sum_g alpha_g ( sqrt(Q_g(W)) + radius ||W'||_F )^2

The Wasserstein-2 term bounds the sum over outputs of the classes' own worst cases  (RMSE_k + radius ||w_k||)^2
(Minkowski); for one output it is exact (Blanchet, Kang & Murthy 2019).  Stationarity makes it a ridge regression
with  lambda = radius n RMSE / ||W'||,  one root in one dimension.  A is { ||alpha - a0||_1 <= 2 rad } on the
simplex: rad = 0 fixes the weights, rad = 1 is the worst client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from ..ambiguity.moment import Moments, RobustQuadratic, noise_edge, noise_quantile, pooled, robust_quadratic

__all__ = ["MomentProblem", "Robustness", "solve_mixture", "solve_wasserstein", "worst_mixture"]


@dataclass(frozen=True)
class Robustness:
    """Against what a model is made robust: three numbers that may be chosen after the release.

    Parameters
    ----------
    noise_radius : float
        Radius of the moments' ball over the spectral edge of their noise, >= 0.
    radius : float
        Wasserstein-2 radius of the features in the coordinates of the rows, >= 0.
    mixture_radius : float
        In [0, 1], see the module.
    """

    noise_radius: float
    radius: float
    mixture_radius: float


def solve_wasserstein(risk: RobustQuadratic, radius: float, n_features: int) -> np.ndarray:
    """Minimiser of  sqrt(Q(W)) + radius ||W'||_F.

    Parameters
    ----------
    risk : RobustQuadratic
    radius : float
        >= 0; 0 is ridge regression (of least norm, where it is not unique).
    n_features : int
        Leading columns that belong to W'; the others are never penalised.

    Returns
    -------
    W : ndarray of shape (n_outputs, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> risk = RobustQuadratic(np.eye(2), np.array([[3.0], [1.0]]), slack=0.0, n_records=1)
    >>> solve_wasserstein(risk, 0.0, 2)
    array([[3., 1.]])
    """
    free = risk.root[:, n_features:]
    basis, corner = np.linalg.qr(free)
    features = risk.root[:, :n_features] - basis @ (basis.T @ risk.root[:, :n_features])
    target = risk.target - basis @ (basis.T @ risk.target)
    left, scale, right = np.linalg.svd(features, full_matrices=False)
    scale = np.where(scale > 1e-9 * max(scale.max(initial=0.0), np.finfo(float).tiny), scale, 0.0)
    aligned = left.T @ target
    unexplained = max((target**2).sum() - (aligned**2).sum(), 0.0) + risk.slack

    def shrunk(penalty):
        """Singular coordinates of W' and the RMSE at a ridge penalty."""
        total = scale**2 + penalty
        share = np.divide(scale, total, out=np.zeros_like(scale), where=total > 0)[:, None]
        residual = (((1 - scale[:, None] * share) * aligned) ** 2).sum() + unexplained
        return share * aligned, np.sqrt(residual / risk.n_records)

    coordinates = _at_the_root(shrunk, scale, aligned, unexplained, radius * risk.n_records, risk.n_records)
    W = np.empty((risk.target.shape[1], risk.root.shape[1]))
    W[:, :n_features] = (right.T @ coordinates).T
    rest = basis.T @ (risk.target - risk.root[:, :n_features] @ W[:, :n_features].T)
    W[:, n_features:] = np.linalg.lstsq(corner, rest, rcond=None)[0].T
    return W


def _at_the_root(shrunk, scale, aligned, unexplained, wanted, n_records):
    """Coordinates at the penalty with  penalty ||W'|| / RMSE = wanted; the left side grows with the penalty."""
    if wanted == 0:
        return shrunk(0.0)[0]
    # the limit for an infinite penalty; from there on W' = 0
    limit = np.linalg.norm(scale[:, None] * aligned)
    if limit == 0 or wanted * np.sqrt(((aligned**2).sum() + unexplained) / n_records) >= limit:
        return np.zeros_like(aligned)

    def excess(log_penalty):
        coordinates, rmse = shrunk(np.exp(log_penalty))
        return np.exp(log_penalty) * np.linalg.norm(coordinates) - wanted * rmse

    low = high = 2 * np.log(scale.max())
    while excess(high) < 0:
        high += 2.0
    floor = low - 80.0  # the penalty is nothing beside the smallest eigenvalue
    while excess(low) > 0 and low > floor:
        low -= 4.0
    if low <= floor:
        return shrunk(0.0)[0]
    return shrunk(np.exp(brentq(excess, low, high, xtol=1e-13)))[0]


def solve_mixture(
    risks: Sequence[RobustQuadratic],
    radius: float,
    n_features: int,
    client_weights: np.ndarray,
    mixture_radius: float,
) -> np.ndarray:
    """Minimiser of the worst mixture of the clients' robust risks: a conic programme (cvxpy, Clarabel).

    Parameters
    ----------
    risks : sequence of RobustQuadratic
    radius : float
    n_features : int
    client_weights : ndarray of shape (n_clients,)
        Nominal weights a0, sum one.
    mixture_radius : float
        rad in (0, 1].

    Returns
    -------
    W : ndarray of shape (n_outputs, n_columns)

    Raises
    ------
    ArithmeticError
        If the conic solver does not return a solution.
    """
    import cvxpy as cp

    n_columns, n_outputs = risks[0].target.shape
    W = cp.Variable((n_columns, n_outputs))
    rmse = cp.Variable(len(risks))
    floor, top = cp.Variable(), cp.Variable()
    excess = cp.Variable(len(risks))  # max(F_g, floor)
    length = radius * cp.norm(W[:n_features], "fro") if radius else 0.0
    constraints = [cp.square(rmse) <= excess, floor <= excess, cp.square(rmse) <= top, floor <= top]
    for g, risk in enumerate(risks):
        residual = cp.hstack([cp.vec(risk.root @ W - risk.target, order="C"), [np.sqrt(risk.slack)]])
        constraints.append(cp.norm(residual) / np.sqrt(risk.n_records) + length <= rmse[g])
    problem = cp.Problem(cp.Minimize(client_weights @ excess + mixture_radius * (top - floor)), constraints)
    try:
        problem.solve(solver=cp.CLARABEL)
    except cp.error.SolverError as error:
        raise ArithmeticError(f"The conic solver failed on the mixture of clients: {error}") from error
    if W.value is None:
        raise ArithmeticError(f"The conic solver found no solution for the mixture of clients ({problem.status}).")
    return np.array(W.value).T


def worst_mixture(risks: np.ndarray, client_weights: np.ndarray, mixture_radius: float) -> float:
    """Largest  sum_g alpha_g risk_g  over  ||alpha - client_weights||_1 <= 2 mixture_radius  on the simplex.

    Parameters
    ----------
    risks, client_weights : ndarray of shape (n_clients,)
    mixture_radius : float

    Examples
    --------
    >>> import numpy as np
    >>> round(worst_mixture(np.array([1.0, 3.0]), np.array([0.5, 0.5]), 0.25), 12)
    2.5
    """
    # the dual is piecewise linear in its multiplier, with kinks at the risks
    duals = [client_weights @ np.maximum(risks, floor) + mixture_radius * (risks.max() - floor) for floor in risks]
    return float(min(duals))


@dataclass(frozen=True, eq=False)
class MomentProblem:
    """What was released, and the questions that can be put to it for free.

    Parameters
    ----------
    parts : tuple of Moments
        One for each client, or a single one for their weighted sum.
    client_weights : ndarray of shape (n_parts,)
        alpha_g of the parts, sum one.
    n_features : int
        Leading columns of a row; the rest is the constant.
    """

    parts: tuple[Moments, ...]
    client_weights: np.ndarray
    n_features: int

    @cached_property
    def together(self) -> Moments:
        """Moments of the mixture with the nominal weights, on the scale of all records."""
        sizes = np.array([part.n_records for part in self.parts])
        return pooled(self.parts, self.client_weights * sizes.sum() / sizes)

    def solve(self, robustness: Robustness) -> np.ndarray:
        """The robust model, shape (n_outputs, n_columns)."""
        if robustness.mixture_radius == 0:
            whole = self.together
            risk = robust_quadratic(whole, robustness.noise_radius * noise_edge(whole))
            return solve_wasserstein(risk, robustness.radius, self.n_features)
        risks = [robust_quadratic(part, robustness.noise_radius * noise_edge(part)) for part in self.parts]
        return solve_mixture(
            risks, robustness.radius, self.n_features, self.client_weights, robustness.mixture_radius
        )

    def certificate(self, W: np.ndarray, robustness: Robustness, confidence: float) -> float:
        """Bound on the worst-case mean squared loss of W on the records, noise undone.

        With probability `confidence` over the noise it holds for all W at once: also for one that was chosen by
        looking at the moments.
        """
        parts = self.parts if robustness.mixture_radius else (self.together,)
        weights = self.client_weights if robustness.mixture_radius else np.ones(1)
        each = 1 - (1 - confidence) / len(parts)
        movement = robustness.radius * np.linalg.norm(W[:, : self.n_features])
        bounds = [(np.sqrt(part.loss_bound(W, noise_quantile(part, each))) + movement) ** 2 for part in parts]
        return worst_mixture(np.array(bounds), weights, robustness.mixture_radius)

    def loss(self, W: np.ndarray, mixture_radius: float) -> float:
        """Noisy mean squared loss of W under the worst mixture; may be negative."""
        return worst_mixture(np.array([part.loss(W) for part in self.parts]), self.client_weights, mixture_radius)

    def difference_noise(self, W: np.ndarray, V: np.ndarray, mixture_radius: float) -> float:
        """Standard deviation of the noise on ``loss(W) - loss(V)``; for the simplex, the noisiest client's."""
        noise = np.array([part.difference_noise(W, V) for part in self.parts])
        fixed = float(np.sqrt(((self.client_weights * noise) ** 2).sum()))
        return (1 - mixture_radius) * fixed + mixture_radius * float(noise.max())
