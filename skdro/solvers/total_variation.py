"""Total-variation DRO of a linear model as one conic problem: nature's weights jump, so descent does not apply.

With s_i = (l_i - eta) / lam the capped conjugate is the maximum of three lines,

    psi*(s) = max(-1/2,  s,  S0 s - (S0 - 1) / 2),

and the problem  min over W, eta of  eta + lam / n sum psi*(s_i) + ridge  is solved by cvxpy with exponential cones
for the softmax losses.  The dual variables of the losses are nature's weights.
"""

import warnings
from typing import cast

import numpy as np

from ..ambiguity.reweighting import Penalised, Reweighted
from ..losses.models import LinearModel, Records, n_outputs
from .reweighted import Solution

__all__ = ["minimise_total_variation"]


def minimise_total_variation(model: LinearModel, records: Records, risk: Penalised, ridge: np.ndarray) -> Solution:
    """Minimise the worst-case mean loss of a linear model under total variation.

    Parameters
    ----------
    model : LinearModel
    records : Records
        Up to some thousands: the problem has one exponential cone for each record and class.
    risk : Penalised
        Of a capped `TotalVariation`.
    ridge : ndarray of shape (n_parameters,)

    Returns
    -------
    Solution
        Its gradient is that at nature's dual weights, zero up to the accuracy of the conic solver.

    Raises
    ------
    RuntimeError
        If the conic solver finds no solution.
    """
    import cvxpy as cp

    n, S0, lam = len(records.y), risk.divergence.max_weight, risk.penalty
    W = cp.Variable((n_outputs(model.n_classes), model.n_columns))
    scores = records.X @ W.T
    if model.n_classes == 2:
        scores = cp.hstack([np.zeros((n, 1)), scores])
    own = cp.sum(cp.multiply(scores, np.eye(model.n_classes)[records.y]), axis=1)
    loss, eta, paid = cp.Variable(n), cp.Variable(), cp.Variable(n)
    epigraph = cp.log_sum_exp(scores, axis=1) - own <= loss
    gain = loss - eta  # lam s
    lines = [paid >= -lam / 2, paid >= gain, paid >= S0 * gain - lam * (S0 - 1) / 2]
    root = np.sqrt(ridge).reshape(W.shape)
    objective = eta + cp.sum(paid) / n + cp.sum_squares(cp.multiply(root, W)) / 2
    problem = cp.Problem(cp.Minimize(objective), [epigraph, *lines])
    with warnings.catch_warnings():
        # an inaccurate solution shows in the certificate of whoever asked
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        problem.solve(solver=cp.CLARABEL)
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise RuntimeError(f"The conic solver failed ({problem.status!r}): check the scale of X and penalty.")
    parameters, shift = cast(np.ndarray, W.value), cast(float, eta.value)  # which a solved problem has
    return _solution(model, records, risk, ridge, parameters.ravel(), n * epigraph.dual_value, float(shift))


def _solution(model, records, risk, ridge, parameters, weight, shift):
    evaluation = model.evaluate(parameters, records)
    # the dual weights meet their constraints up to the solver's accuracy; moved towards one until they do exactly
    cap = risk.divergence.max_weight
    weight = np.clip(weight, 0.0, cap)
    weight = np.minimum(weight / weight.mean(), cap)
    weight += (1.0 - weight.mean()) * (cap - weight) / (cap - weight.mean())
    paid = float(risk.divergence.psi(weight).mean())
    exact = risk.worst_case(evaluation.losses)
    worst = Reweighted(float((weight * evaluation.losses).mean()) - risk.penalty * paid, weight, shift, risk.penalty)
    gradient = evaluation.gradient_sum(weight / len(weight)) + ridge * parameters
    objective = exact.value + 0.5 * float(ridge @ parameters**2)
    return Solution(parameters, worst, objective, gradient, 1)
