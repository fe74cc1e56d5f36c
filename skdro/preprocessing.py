"""Preprocessing that reads nothing off the data: rows clipped to a norm, features scaled by public bounds.

Scaling by the minimum, maximum, mean or variance of private data leaks them.  These two transformers learn
nothing in `fit`: all they use is what the user declares public.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import validate_data

__all__ = [
    "PublicBoundsScaler",
    "RowNormClipper",
    "check_feature_bounds",
    "clip_rows",
    "clip_rows_into",
    "scale_to_box",
]


def clip_rows(X: np.ndarray, max_norm: float) -> np.ndarray:
    """Copy of `X` with each row scaled by min(1, max_norm / ||row||_2).

    It neither overflows at 1e200 nor vanishes at 1e-200.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Finite.
    max_norm : float
        > 0, in the units of the features.

    Returns
    -------
    clipped : ndarray of shape (n_samples, n_features)

    Examples
    --------
    >>> clip_rows(np.array([[3e200, 4e200], [0.3, 0.4]]), 1.0)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    X = np.asarray(X, dtype=float)
    return clip_rows_into(X, max_norm, np.empty_like(X))


def clip_rows_into(X: np.ndarray, max_norm: float, out: np.ndarray) -> np.ndarray:
    """`clip_rows` that writes into `out`, which may be `X`; ones follow each row, and are clipped with it, where
    `out` has more columns.

    Parameters
    ----------
    X : ndarray of float, shape (n_samples, n_features)
    max_norm : float
        As in `clip_rows`.
    out : ndarray of float, shape (n_samples, n_features [+ n_ones])

    Returns
    -------
    out : ndarray

    Examples
    --------
    >>> clip_rows_into(np.array([[3.0, 4.0], [0.0, 0.0]]), 1.0, np.empty((2, 2)))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    n_features = X.shape[1]
    n_ones = out.shape[1] - n_features
    # a row whose squares underflow is shorter than max_norm; one whose squares overflow is measured again below
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        squares = np.vecdot(X, X) + n_ones
        factor = np.minimum(max_norm / np.sqrt(squares), 1.0)
    # row by row: what one row holds must not change the rounding of another
    extreme = ~(squares < 1e200) | (max_norm < 1e-100)
    factor[extreme] = 1.0
    np.multiply(X, factor[:, None], out=out[:, :n_features])
    out[:, n_features:] = factor[:, None]
    if extreme.any():
        out[extreme] = _clip_extreme_rows(out[extreme], max_norm)
    return out


def _clip_extreme_rows(X, max_norm):
    """The same where squares would overflow: norms are taken relative to the row's largest entry."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    shape = X / np.where(largest > 0, largest, 1.0)
    # between 1 and sqrt(n_features); a zero row never exceeds the norm, whatever stands here
    length = np.sqrt(np.maximum((shape * shape).sum(axis=1, keepdims=True), 1.0))
    return np.where(largest > max_norm / length, shape * (max_norm / length), X)


def check_feature_bounds(
    feature_bounds: tuple[float | np.ndarray, float | np.ndarray], n_features: int
) -> tuple[np.ndarray, np.ndarray]:
    """The public box as two arrays.

    Parameters
    ----------
    feature_bounds : pair (lo, hi) of float or array-like of shape (n_features,)
        Finite, lo < hi in every feature, in the units of the features.
    n_features : int

    Returns
    -------
    lo, hi : ndarray of shape (n_features,)

    Raises
    ------
    ValueError
        If `feature_bounds` is anything else.

    Examples
    --------
    >>> check_feature_bounds((0.0, [1.0, 2.0]), 2)
    (array([0., 0.]), array([1., 2.]))
    """
    try:
        lo, hi = (np.broadcast_to(np.asarray(bound, dtype=float), (n_features,)) for bound in feature_bounds)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "feature_bounds must be a pair (lo, hi) of numbers or arrays with one entry for each of the "
            f"{n_features} features; got {feature_bounds!r}."
        ) from error
    with np.errstate(over="ignore", invalid="ignore"):
        width = hi - lo
    if not (np.isfinite(width) & (width / 2 > 0)).all():  # half the smallest number is zero, and no unit
        raise ValueError(f"feature_bounds must be finite with lo < hi in every feature; got {feature_bounds!r}.")
    return lo, hi


def scale_to_box(X: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """Copy of `X` clipped to [lo, hi] and mapped affinely to [-1, 1].

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    lo, hi : float or ndarray of shape (n_features,)
        As returned by `check_feature_bounds`.

    Returns
    -------
    scaled : ndarray of shape (n_samples, n_features)

    Examples
    --------
    >>> scale_to_box(np.array([[0.0, 15.0], [99.0, 10.0]]), np.array([0.0, 10.0]), np.array([1.0, 20.0]))
    array([[-1.,  0.],
           [ 1., -1.]])
    """
    return (np.clip(X, lo, hi) - lo) / (hi - lo) * 2.0 - 1.0


def _check_max_norm(max_norm):
    """`isinstance` with numbers.Real would let True and nan through."""
    number = isinstance(max_norm, (int, float, np.integer, np.floating)) and not isinstance(max_norm, bool)
    if not (number and 0 < max_norm < np.inf):
        raise ValueError(f"max_norm must be a finite number > 0; got {max_norm!r}.")


class _PublicTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """A transformer whose `fit` only validates: `transform` depends on its parameters alone."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Validate the parameters and the shape of `X`; nothing is learnt.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Not used.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, or `X` holds missing or infinite values.
        """
        self._apply(validate_data(self, X, dtype=np.float64))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Transform `X`, which is left as it is; may be called without `fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features)

        Raises
        ------
        ValueError
            If a parameter is out of range, or `X` holds missing or infinite values.
        """
        return self._apply(validate_data(self, X, dtype=np.float64, reset=False))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class RowNormClipper(_PublicTransformer):
    """Scale down the rows whose l2 norm exceeds a public bound.

    One record then moves a sum over records by a bounded amount, whatever it contains.

    Parameters
    ----------
    max_norm : float, default=1.0
        Bound on the norm of a row, > 0, in the units of the features.  Public: choose it without looking at
        the data.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If the columns of `X` have names.

    See Also
    --------
    PublicBoundsScaler : Scale features by declared bounds.

    Examples
    --------
    >>> from skdro.preprocessing import RowNormClipper
    >>> RowNormClipper(max_norm=1.0).fit_transform([[3.0, 4.0], [0.3, 0.4]])
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """

    def __init__(self, max_norm=1.0):
        self.max_norm = max_norm

    def _apply(self, X):
        _check_max_norm(self.max_norm)
        return clip_rows(X, self.max_norm)


class PublicBoundsScaler(_PublicTransformer):
    """Clip features to a public box and map it to [-1, 1].

    Parameters
    ----------
    feature_bounds : pair (lo, hi) of float or array-like of shape (n_features,), default=(-1.0, 1.0)
        lo < hi, in the units of the features.  Public: from the meaning of the features (ages lie in
        [0, 120]), never from the data.  Ranges that are somewhat too wide do little harm.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If the columns of `X` have names.

    See Also
    --------
    RowNormClipper : Bound the norm of rows.

    Examples
    --------
    >>> from skdro.preprocessing import PublicBoundsScaler
    >>> PublicBoundsScaler(feature_bounds=(0, [120, 10])).fit_transform([[60.0, 10.0], [150.0, 5.0]])
    array([[0., 1.],
           [1., 0.]])
    """

    def __init__(self, feature_bounds=(-1.0, 1.0)):
        self.feature_bounds = feature_bounds

    def _apply(self, X):
        return scale_to_box(X, *check_feature_bounds(self.feature_bounds, X.shape[1]))
