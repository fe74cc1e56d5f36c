"""Risks under reweighting without privacy: minimise the worst-case mean loss of a model to first-order accuracy.

    f(theta) = max_w [ mean(w * loss(theta)) - price(w) ] + 1/2 sum_j ridge_j theta_j^2

Nature's weights are unique for a smooth divergence, so f is differentiable with the gradient at fixed weights
(Danskin), and L-BFGS applies: the shift eta and the temperature are solved for exactly inside each evaluation
instead of being descended on together with theta.  For a linear model f is convex and `lower_bound` certifies how
far from the optimum the search has ended.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax, xlogy

from ..ambiguity.reweighting import Reweighted
from ..losses.models import LinearModel, Model, Records, n_outputs
from ..losses.softmax import losses

__all__ = ["Risk", "Solution", "lower_bound", "minimise", "solution_at"]


class Risk(Protocol):
    """What nature does with given losses: `Penalised` or `KLBall`."""

    def worst_case(self, losses: np.ndarray) -> Reweighted:
        """Value, weights, shift and temperature."""


@dataclass(frozen=True)
class Solution:
    """Where the minimisation ended.

    Parameters
    ----------
    parameters : ndarray of shape (n_parameters,)
    worst : Reweighted
        Nature's answer at the solution; its value leaves the ridge out.
    objective : float
        f, ridge included.
    gradient : ndarray of shape (n_parameters,)
        Of f.
    n_iter : int
    """

    parameters: np.ndarray
    worst: Reweighted
    objective: float
    gradient: np.ndarray
    n_iter: int

    @property
    def gradient_norm(self) -> float:
        """Largest entry of f's gradient, in absolute value."""
        return float(np.abs(self.gradient).max())


def _objective(model, records, risk, ridge, parameters):
    """Value and gradient of f, and nature's answer."""
    evaluation = model.evaluate(parameters, records)
    worst = risk.worst_case(evaluation.losses)
    value = worst.value + 0.5 * float(ridge @ parameters**2)
    return value, evaluation.gradient_sum(worst.weight / len(records.y)) + ridge * parameters, worst


def solution_at(
    model: Model, records: Records, risk: Risk, ridge: np.ndarray, parameters: np.ndarray, n_iter: int
) -> Solution:
    """What these parameters are worth, whoever found them.

    Parameters
    ----------
    model, records, risk, ridge
        As in `minimise`.
    parameters : ndarray of shape (n_parameters,)
    n_iter : int
    """
    value, gradient, worst = _objective(model, records, risk, ridge, parameters)
    return Solution(parameters, worst, value, gradient, n_iter)


def minimise(
    model: Model,
    records: Records,
    risk: Risk,
    ridge: np.ndarray,
    start: np.ndarray,
    *,
    tol: float,
    max_iter: int,
) -> Solution:
    """Minimise the worst-case mean loss by L-BFGS.

    Parameters
    ----------
    model : Model
    records : Records
    risk : Risk
        Of a smooth divergence.
    ridge : ndarray of shape (n_parameters,)
        Penalty of each parameter, >= 0.
    start : ndarray of shape (n_parameters,)
    tol : float
        Largest entry of the gradient at which to stop.
    max_iter : int

    Returns
    -------
    Solution
        Its `gradient_norm` exceeds `tol` if `max_iter` or the accuracy of floating point ended the search.

    Examples
    --------
    >>> from skdro.ambiguity.divergence import KL, Capped
    >>> from skdro.ambiguity.reweighting import Penalised
    >>> from skdro.losses.models import LinearModel
    >>> records = Records.of(np.array([[-1.0, 1.0], [0.5, 1.0], [1.0, 1.0]]), np.array([0, 0, 1]))
    >>> model, risk = LinearModel(2, 2, True), Penalised(Capped(KL(), 10.0), 1.0)
    >>> solution = minimise(model, records, risk, np.array([0.1, 0.0]), np.zeros(2), tol=1e-9, max_iter=500)
    >>> solution.gradient_norm <= 1e-9
    True
    """
    result = minimize(
        lambda parameters: _objective(model, records, risk, ridge, parameters)[:2],
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "maxfun": 2 * max_iter + 20, "gtol": tol, "ftol": 0.0, "maxcor": 30},
    )
    return solution_at(model, records, risk, ridge, result.x, int(result.nit))


def lower_bound(model: LinearModel, parameters: np.ndarray, records: Records, worst: Reweighted, ridge: np.ndarray):
    """Certified lower bound on the optimum of a linear model's problem, by duality.

    With nature's weights p fixed, and for any class probabilities q_i with  sum p_i q_i = sum p_i e_{y_i}  (which
    the intercepts demand),

        optimum >= sum p_i entropy(q_i) - 1/2 sum_j G_j^2 / ridge_j - price(p),    G = sum p_i (q_i - e_{y_i}) x_i^T.

    The model's own probabilities are used; the little by which they miss the condition is moved between classes.

    Parameters
    ----------
    model : LinearModel
    parameters : ndarray of shape (n_parameters,)
    records : Records
    worst : Reweighted
        Nature's answer there.
    ridge : ndarray of shape (n_parameters,)

    Returns
    -------
    float
        Minus infinity if a parameter that is no intercept has no ridge.
    """
    penalised = model.penalised()
    if not (ridge[penalised] > 0).all():
        return -np.inf
    p = worst.weight / len(records.y)
    scores = model.scores(parameters, records.X)
    q = softmax(scores, axis=1)
    if model.intercept:
        q = _matching_shares(q, p, np.bincount(records.y, weights=p, minlength=model.n_classes))
    price = p @ losses(scores, records.y) - worst.value
    residual = q.copy()
    residual[np.arange(len(p)), records.y] -= 1.0
    G = ((p[:, None] * residual[:, -n_outputs(model.n_classes) :]).T @ records.X).ravel()
    entropy = -(p @ xlogy(q, q).sum(axis=1))
    return float(entropy - 0.5 * (G[penalised] ** 2 / ridge[penalised]).sum() - price)


def _matching_shares(q, p, share):
    """Probabilities next to q with  p @ q = share  exactly: surplus is taken proportionally and given to the rest."""
    surplus = p @ q - share
    gives, takes = np.maximum(surplus, 0.0), np.maximum(-surplus, 0.0)
    if not takes.any():
        return q
    moved = q * (gives / np.maximum(p @ q, np.finfo(float).tiny))
    return q - moved + moved.sum(axis=1, keepdims=True) * (takes / takes.sum())
