"""Softmax loss (multinomial logistic regression): what one record costs a linear model.

With scores s = M x (+ b) the loss of label y is  log sum_k exp(s_k) - s_y,  and its gradient in the scores is
p - e_y with the probabilities p_k = exp(s_k) / sum_l exp(s_l).
"""

import numpy as np
from scipy.special import logsumexp, softmax

__all__ = ["SMOOTHNESS", "binary_losses_and_gradient", "losses", "losses_and_gradient", "score_gradient"]

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


def losses_and_gradient(scores: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both at once, for the price of one exponential a score.

    Parameters
    ----------
    scores : ndarray of shape (n_records, n_classes)
    y : ndarray of int, shape (n_records,)

    Returns
    -------
    losses : ndarray of shape (n_records,)
    gradient : ndarray of shape (n_records, n_classes)

    Examples
    --------
    >>> loss, gradient = losses_and_gradient(np.array([[0.0, 0.0]]), np.array([1]))
    >>> loss.round(4), gradient
    (array([0.6931]), array([[ 0.5, -0.5]]))
    """
    records = np.arange(len(y))
    below = scores.T.copy()  # classes first: sums over them are then over whole rows
    below -= below.max(axis=0)
    own = below[y, records]
    gradient = np.exp(below, out=below)
    total = gradient.sum(axis=0)
    gradient /= total
    gradient[y, records] -= 1.0
    return np.log(total) - own, gradient.T


def binary_losses_and_gradient(logit: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Losses, and gradients in the logit, of two classes with the scores (0, logit).

    Parameters
    ----------
    logit : ndarray of shape (n_records,)
    y : ndarray of int, shape (n_records,)
        0 or 1.

    Returns
    -------
    losses, gradient : ndarray of shape (n_records,)

    Examples
    --------
    >>> loss, gradient = binary_losses_and_gradient(np.array([0.0, 800.0]), np.array([1, 0]))
    >>> loss.round(4), gradient
    (array([6.931e-01, 8.000e+02]), array([-0.5,  1. ]))
    """
    rival = np.exp(-np.abs(logit))
    wrong = np.where(y == 1, -logit, logit)
    one = np.where(logit >= 0, 1.0, rival) / (1.0 + rival)
    return np.maximum(wrong, 0.0) + np.log1p(rival), one - y
