"""Crammer-Singer multiclass hinge loss: what one record costs a linear model.

With scores s = M x (+ b) the loss of label y is  max_k [s_k + 1 - 1{k = y}] - s_y  (Crammer & Singer 2001).
Its subgradient in M is (e_rival - e_y) x^T, of Frobenius norm sqrt(2) ||x|| or 0.
"""

import numpy as np

__all__ = ["GRADIENT_NORM", "gradient_sum", "label_weights", "losses", "margin_violations", "score_gradient"]

GRADIENT_NORM = np.sqrt(2.0)
"""Largest Frobenius norm of a record's subgradient, per unit of the record's l2 norm."""


def margin_violations(scores: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loss of each record and the class that attains it.

    Parameters
    ----------
    scores : ndarray of shape (n_records, n_classes)
    y : ndarray of int, shape (n_records,)

    Returns
    -------
    loss : ndarray of shape (n_records,)
    rival : ndarray of int, shape (n_records,)
        Most violating class; equal to `y` where the loss is zero.  Ties go to `y`, then to the lowest index.

    Examples
    --------
    >>> import numpy as np
    >>> margin_violations(np.array([[2.0, 0.0], [0.0, 0.5]]), np.array([0, 0]))
    (array([0. , 1.5]), array([0, 1]))
    """
    # flat positions: indexing by one array is several times faster than by (rows, y)
    start = np.arange(0, scores.size, scores.shape[1])
    others = scores.flatten()
    own = others[start + y]
    others[start + y] = -np.inf
    rival = others.reshape(scores.shape).argmax(axis=1)
    loss = 1.0 + others[start + rival] - own
    correct = loss <= 0.0
    return np.where(correct, 0.0, loss), np.where(correct, y, rival)


def label_weights(y: np.ndarray, rival: np.ndarray, weight: np.ndarray, n_classes: int) -> np.ndarray:
    """Rows  weight_n (e_rival - e_y)  of the loss's subgradient in the scores.

    Parameters
    ----------
    y, rival : ndarray of int, shape (n_records,)
    weight : ndarray of shape (n_records,)
    n_classes : int

    Returns
    -------
    V : ndarray of shape (n_records, n_classes)
        Zero rows where `rival == y`.
    """
    start = np.arange(0, len(y) * n_classes, n_classes)
    V = np.zeros(len(y) * n_classes)
    V[start + rival] = weight
    V[start + y] -= weight
    return V.reshape(len(y), n_classes)


def gradient_sum(X: np.ndarray, y: np.ndarray, rival: np.ndarray, weight: np.ndarray, n_classes: int):
    """Weighted sum over records of the subgradients (e_rival - e_y) x^T.

    Parameters
    ----------
    X : ndarray of shape (n_records, n_features)
    y, rival : ndarray of int, shape (n_records,)
    weight : ndarray of shape (n_records,)
    n_classes : int

    Returns
    -------
    G : ndarray of shape (n_classes, n_features)
    """
    return label_weights(y, rival, weight, n_classes).T @ X


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
    >>> losses(np.array([[2.0, 0.0], [0.0, 0.5]]), np.array([0, 0]))
    array([0. , 1.5])
    """
    return margin_violations(scores.reshape(-1, scores.shape[-1]), y.ravel())[0].reshape(y.shape)


def score_gradient(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A subgradient e_rival - e_y of each record's loss in its scores.

    Parameters
    ----------
    scores : ndarray of shape (..., n_classes)
    y : ndarray of int, shape (...)

    Returns
    -------
    ndarray of shape (..., n_classes)

    Examples
    --------
    >>> score_gradient(np.array([[2.0, 0.0], [0.0, 0.5]]), np.array([0, 0]))
    array([[ 0.,  0.],
           [-1.,  1.]])
    """
    rival = margin_violations(scores.reshape(-1, scores.shape[-1]), y.ravel())[1]
    return label_weights(y.ravel(), rival, np.ones(y.size), scores.shape[-1]).reshape(scores.shape)
