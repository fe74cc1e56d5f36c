"""Making one class rare, as the studies of imbalanced training data do."""

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from ._random import RandomStateLike, as_generator

__all__ = ["make_imbalanced"]


def make_imbalanced(
    X: ArrayLike,
    y: ArrayLike,
    ratio: float,
    *,
    positive: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Make a binary task and drop positive rows at random until they are a given share of all rows.

    With `positive` the ten digits become the task "is it 5 or more": ``positive=[5, 6, 7, 8, 9]``; dropping
    positive rows to a share of .1 gives the imbalanced training set of the study (its test set is balanced,
    ``ratio=0.5``).

    Parameters
    ----------
    X : array-like of shape (n_samples, ...)
        Rows of any further shape.
    y : array-like of shape (n_samples,)
        Class labels.
    ratio : float
        Share of positive rows in the result, in (0, 0.5].  If positives are already rarer, negative rows are
        dropped instead.
    positive : array-like or None, default=None
        Labels that make the positive class; None takes the larger of the two labels of a binary `y`.
    random_state : int, RandomState instance, Generator or None, default=None
        Determines the rows that are dropped.

    Returns
    -------
    X : ndarray of shape (n_kept, ...)
        Kept rows, in their order.
    y : ndarray of int, shape (n_kept,)
        1 for positive rows, 0 for the others.

    Raises
    ------
    ValueError
        If `ratio` lies outside (0, 0.5], if `positive` is None and `y` is not binary, or if a class is empty.

    References
    ----------
    Xu et al., "Differentially private non-convex distributionally robust optimization", arXiv 2602.16155,
    appendix on data sets (MNIST-ST).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdro.datasets import make_imbalanced
    >>> X, y = load_digits(return_X_y=True)
    >>> X, y = make_imbalanced(X, y, 0.1, positive=[5, 6, 7, 8, 9], random_state=0)
    >>> round(float(y.mean()), 3)
    0.1
    """
    if not isinstance(ratio, Real) or not 0 < ratio <= 0.5:
        raise ValueError(f"ratio must be a number in (0, 0.5], got {ratio!r}.")
    X = check_array(X, dtype=None, allow_nd=True, ensure_all_finite=False)
    y = column_or_1d(y)
    check_consistent_length(X, y)
    classes = np.unique(y)
    if positive is None:
        if len(classes) != 2:
            raise ValueError(f"positive must name the positive labels when y has {len(classes)} classes, not 2.")
        positive = classes[1:]
    is_positive = np.isin(y, positive)
    n_positive, n_negative = is_positive.sum(), (~is_positive).sum()
    if n_positive == 0 or n_negative == 0:
        raise ValueError("positive must name some labels of y, but not all of them.")
    # whichever class is too frequent gives way
    keep_positive = min(n_positive, max(1, round(n_negative * ratio / (1 - ratio))))
    keep_negative = min(n_negative, max(1, round(n_positive * (1 - ratio) / ratio)))
    rng = as_generator(random_state)
    kept = np.concatenate(
        [
            rng.choice(np.flatnonzero(is_positive), keep_positive, replace=False),
            rng.choice(np.flatnonzero(~is_positive), keep_negative, replace=False),
        ]
    )
    kept.sort()
    return X[kept], is_positive[kept].astype(int)
