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
    "appraise",
    "best_constant_model",
    "common_label",
    "constant_risks",
    "settle",
    "settle_appraised",
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
    risk_at_margin : float
        Robust risk at this margin: `risk`, or a little more where deciding does not pay.
    """

    label: int
    margin: float
    risk: float
    risk_at_margin: float


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
    ConstantModel(label=1, margin=1.0, risk=0.75, risk_at_margin=0.75)
    """
    label = int((alpha @ shares).argmax())
    decided = float(alpha @ constant_risks(shares[:, label], 1.0, radius, kappa))
    margin = 1.0 if decided < 1.0 else UNDECIDED_MARGIN
    return ConstantModel(label, margin, min(1.0, decided), 1.0 + margin * (decided - 1.0))


def constant_risks(share: np.ndarray, margin: float, radius: np.ndarray, kappa: np.ndarray) -> np.ndarray:
    """Robust risk of each client under a constant model, shape (n_clients,).

    Parameters
    ----------
    share : ndarray of shape (n_clients,)
        Share of the class that the model prefers.
    margin : float
        In [0, 1].
    radius, kappa : ndarray of shape (n_clients,)
    """
    return 1.0 + margin * (1.0 - 2.0 * share + 2.0 * np.minimum(radius / kappa, share))


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


def appraise(problem: RobustRisk, model: np.ndarray) -> dict[str, np.ndarray]:
    """What one client says about a model: all that `settle_appraised` needs of its records.

    Parameters
    ----------
    problem : RobustRisk
    model : ndarray of shape (n_classes, n_columns)

    Returns
    -------
    appraisal : dict
        "risk", its robust risk; "label", the class that the model gives to all its records, -1 if they differ;
        "shares" of shape (n_classes,), the share of each class in its records.
    """
    return {
        "risk": np.asarray(problem.value(model)[0]),
        "label": common_label(problem.X, model),
        "shares": np.bincount(problem.y, weights=problem.weight, minlength=problem.n_classes),
    }


def common_label(X: np.ndarray, model: np.ndarray) -> np.ndarray:
    """The class that a model gives to all rows, -1 if they differ; shape ().

    Parameters
    ----------
    X : ndarray or sparse of shape (n_rows, n_columns)
    model : ndarray of shape (n_classes, n_columns)
    """
    labels = np.asarray(X @ model.T).argmax(axis=1)
    return np.asarray(labels[0] if np.all(labels == labels[0]) else -1)


def settle_appraised(
    model: np.ndarray,
    appraisals: Sequence[dict[str, np.ndarray]],
    alpha: np.ndarray,
    radius: np.ndarray,
    kappa: np.ndarray,
    n_features: int,
) -> Settled:
    """The model itself, or the best constant one where the model gains nothing over it.

    Near the constant optimum the scores of all classes are equal and rounding would decide on the prediction;
    with an intercept (a column beyond the features) the constant model predicts the most frequent class instead.

    Parameters
    ----------
    model : ndarray of shape (n_classes, n_columns)
    appraisals : sequence of dict
        What each client says of it, see `appraise`.
    alpha, radius, kappa : ndarray of shape (n_clients,)
        Weights (sum one), radii and flip costs of these clients.
    n_features : int
        Number of transported columns.
    """
    risk = float(alpha @ [float(said["risk"]) for said in appraisals])
    constant = best_constant_model(np.array([said["shares"] for said in appraisals]), alpha, radius, kappa)
    if risk >= (1 - WORTH_A_MODEL) * constant.risk and model.shape[1] > n_features:
        model = np.zeros_like(model)
        model[constant.label, -1] = constant.margin
        return Settled(model, constant.risk_at_margin, True)
    labels = {int(said["label"]) for said in appraisals}
    return Settled(model, risk, len(labels) == 1 and labels != {-1})


def settle(problems: Sequence[RobustRisk], alpha: np.ndarray, model: np.ndarray) -> Settled:
    """`settle_appraised` where all clients' problems are at hand.

    Parameters
    ----------
    problems : sequence of RobustRisk
        One a client.
    alpha : ndarray of shape (n_clients,)
        Client weights, sum one.
    model : ndarray of shape (n_classes, n_columns)
    """
    return settle_appraised(
        model,
        [appraise(problem, model) for problem in problems],
        alpha,
        np.array([p.ball.radius for p in problems]),
        np.array([p.ball.kappa for p in problems]),
        problems[0].n_features,
    )
