"""The best constant model and its robust risk: what a radius that is too large ends in.

A model without coefficients that prefers class c by a margin m in [0, 1] has robust risk
1 + m (1 - 2 p_c + 2 min(r / kappa, p_c)),  p_c the share of class c: linear in m, so the best one is the
undecided model (m = 0, risk 1) or a full margin for one class (m = 1).  In a federation these average over the
clients with their weights.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["ConstantModel", "best_constant_model"]

UNDECIDED_MARGIN = 1e-3  # decides the prediction at a robust risk of at most 1 + 1e-3


@dataclass(frozen=True)
class ConstantModel:
    """A model that predicts `label` for every record; `risk` is the best constant model's robust risk."""

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
