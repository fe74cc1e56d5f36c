"""Label noise: what a careless annotator does to the training labels."""

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d

from ._random import RandomStateLike, as_generator

__all__ = ["flip_labels"]


def flip_labels(y: ArrayLike, rate: float, *, random_state: RandomStateLike = None) -> np.ndarray:
    """Replace a share of the labels by uniformly chosen other classes.

    Exactly ``round(rate * n_samples)`` rows, drawn without replacement, get a wrong label: each of the
    other classes that occur in `y` is equally likely, and no chosen row keeps its own.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of any type that sorts: numbers, strings, booleans.
    rate : float
        Share of the rows to flip, in [0, 1].
    random_state : int, RandomState instance, Generator or None, default=None
        Determines the rows and their new labels.

    Returns
    -------
    y_noisy : ndarray of shape (n_samples,)
        A copy of `y`, of the same type, with the chosen labels replaced.

    Raises
    ------
    ValueError
        If `rate` lies outside [0, 1], or if a row has to be flipped and `y` holds one class only.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.datasets import flip_labels
    >>> y = np.array(["leak", "healthy"] * 10)
    >>> y_noisy = flip_labels(y, 0.1, random_state=0)
    >>> int((y != y_noisy).sum())
    2
    """
    if not isinstance(rate, Real) or not 0 <= rate <= 1:
        raise ValueError(f"rate must be a number in [0, 1], got {rate!r}.")
    classes, codes = np.unique(column_or_1d(y), return_inverse=True)
    n_flips = round(rate * len(codes))
    if n_flips > 0 and len(classes) < 2:
        raise ValueError("flip_labels needs at least two classes in y to replace a label by another.")
    if n_flips > 0:
        rng = as_generator(random_state)
        rows = rng.choice(len(codes), size=n_flips, replace=False)
        # a step of 1 .. n_classes - 1 around the circle of classes never comes back to the start
        codes[rows] = (codes[rows] + rng.integers(1, len(classes), size=n_flips)) % len(classes)
    return classes[codes]
