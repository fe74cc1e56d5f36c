"""The best constant model and its robust risk: what a radius that is too large ends in.

A model without coefficients that prefers class c by a margin m in [0, 1] has robust risk
1 + m (1 - 2 p_c + 2 min(r / kappa, p_c)),  p_c the share of class c: linear in m, so the best one is the
undecided model (m = 0, risk 1) or a full margin for one class (m = 1).  In a federation these average over the
clients with their weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .wasserstein import RobustRisk

__all__ = [
    "UNDECIDED_MARGIN",
    "WORTH_A_MODEL",
    "ConstantModel",
    "Settled",
    "best_constant_model",
    "settle",
    "weighted_risk",
]

WORTH_A_MODEL = 1e-3  # relative gain over the best constant model below which the constant one is taken
UNDECIDED_MARGIN = 1e-3  # decides the prediction at a robust risk of at most 1 + 1e-3


@dataclass(frozen=True)
class ConstantModel:
    """A model that predicts one label for every record.

    Parameters
    ----------
    label : int
        Class index.
    margin : float
        By how much its score exceeds the others.
    risk : float
        Least robust risk of a constant model.
    """

    label: int
    margin: float
    risk: float


def best_constant_model(
    shares: np.ndarray, alpha: np.ndarray, radius: np.ndarray, kappa: np.ndarray
) -> ConstantModel:
    """Best constant model of a federation; its label is the most frequent class.

    Parameters
    ----------
    shares : ndarray of shape (n_clients, n_classes)
        Share of each class in each client.
    alpha, radius, kappa : ndarray of shape (n_clients,)
        Client weights (sum one), radii and flip costs (`inf` allowed).

    Returns
    -------
    ConstantModel
        `margin` is 1 if deciding pays and `UNDECIDED_MARGIN` if not (ties go to the lowest label).

    Examples
    --------
    >>> best_constant_model(np.array([[0.25, 0.75]]), np.ones(1), np.array([0.125]), np.ones(1))
    ConstantModel(label=1, margin=1.0, risk=0.75)
    """
    label = int((alpha @ shares).argmax())
    p = shares[:, label]
    decided = 2.0 * float(alpha @ (1.0 - p + np.minimum(radius / kappa, p)))
    return ConstantModel(label, 1.0 if decided < 1.0 else UNDECIDED_MARGIN, min(1.0, decided))


@dataclass(frozen=True)
class Settled:
    """A model that is worth having.

    Parameters
    ----------
    model : ndarray of shape (n_classes, n_columns)
    risk : float
        Its robust risk.
    constant : bool
        Whether all training records get one label from it.
    """

    model: np.ndarray
    risk: float
    constant: bool


def weighted_risk(problems: Sequence[RobustRisk], alpha: np.ndarray, model: np.ndarray) -> float:
    """sum_g alpha_g F_g(model).

    Parameters
    ----------
    problems : sequence of RobustRisk
    alpha : ndarray of shape (n_clients,)
    model : ndarray of shape (n_classes, n_columns)
    """
    return float(alpha @ [problem.value(model)[0] for problem in problems])


def settle(problems: Sequence[RobustRisk], alpha: np.ndarray, model: np.ndarray) -> Settled:
    """The model itself, or the best constant one where the model gains nothing over it.

    Near the constant optimum the scores of all classes are equal and rounding would decide on the prediction;
    with an intercept (a column beyond the features) the constant model predicts the most frequent class instead.

    Parameters
    ----------
    problems : sequence of RobustRisk
        One a client.
    alpha : ndarray of shape (n_clients,)
        Client weights, sum one.
    model : ndarray of shape (n_classes, n_columns)
    """
    risk = weighted_risk(problems, alpha, model)
    n_classes = problems[0].n_classes
    constant = best_constant_model(
        np.array([np.bincount(p.y, weights=p.weight, minlength=n_classes) for p in problems]),
        alpha,
        np.array([p.ball.radius for p in problems]),
        np.array([p.ball.kappa for p in problems]),
    )
    if risk >= (1 - WORTH_A_MODEL) * constant.risk and model.shape[1] > problems[0].n_features:
        model = np.zeros_like(model)
        model[constant.label, -1] = constant.margin
        return Settled(model, weighted_risk(problems, alpha, model), True)
    labels = np.concatenate([np.asarray(p.X @ model.T).argmax(axis=1) for p in problems])
    return Settled(model, risk, bool(np.all(labels == labels[0])))
