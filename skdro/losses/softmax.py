"""Softmax loss (multinomial logistic regression): what one record costs a linear model.

With scores s = M x (+ b) the loss of label y is  log sum_k exp(s_k) - s_y,  and its gradient in the scores is
p - e_y with the probabilities p_k = exp(s_k) / sum_l exp(s_l).
"""

import numpy as np
from scipy.special import logsumexp, softmax

__all__ = ["SMOOTHNESS", "losses", "score_gradient"]

SMOOTHNESS = 0.5
"""Largest eigenvalue of the Hessian in the scores, diag(p) - p p^T."""


def losses(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Loss of each record.

    Parameters
    ----------
    scores : ndarray of shape (..., n_classes)
    y : ndarray of int, shape (...)

    Returns
    -------
    ndarray of shape (...)

    Examples
    --------
    >>> losses(np.array([[0.0, 0.0]]), np.array([1])).round(4)
    array([0.6931])
    """
    own = np.take_along_axis(scores, y[..., None], axis=-1)[..., 0]
    return logsumexp(scores, axis=-1) - own


def score_gradient(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Gradient of each record's loss in its scores; the one in the model is its outer product with x.

    Parameters
    ----------
    scores : ndarray of shape (..., n_classes)
    y : ndarray of int, shape (...)

    Returns
    -------
    ndarray of shape (..., n_classes)

    Examples
    --------
    >>> score_gradient(np.array([[0.0, 0.0]]), np.array([1]))
    array([[ 0.5, -0.5]])
    """
    gradient = softmax(scores, axis=-1)
    own = np.take_along_axis(gradient, y[..., None], axis=-1)
    np.put_along_axis(gradient, y[..., None], own - 1.0, axis=-1)
    return gradient
