"""Squared loss of a linear regression: what one record costs.

With the score s = x . theta + b of the model's single output the loss of a response y is (s - y)^2.
"""

import numpy as np

__all__ = ["losses", "score_gradient"]


def losses(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Loss of each record.

    Parameters
    ----------
    scores : ndarray of shape (..., 1)
    y : ndarray of shape (...)

    Returns
    -------
    ndarray of shape (...)

    Examples
    --------
    >>> losses(np.array([[1.0], [3.0]]), np.array([1.0, 1.0]))
    array([0., 4.])
    """
    return (scores[..., 0] - y) ** 2


def score_gradient(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Gradient of each record's loss in its score; the one in the model is its outer product with x.

    Parameters
    ----------
    scores : ndarray of shape (..., 1)
    y : ndarray of shape (...)

    Returns
    -------
    ndarray of shape (..., 1)

    Examples
    --------
    >>> score_gradient(np.array([[1.0], [3.0]]), np.array([1.0, 1.0]))
    array([[0.],
           [4.]])
    """
    return 2.0 * (scores - y[..., None])
