"""Canaries: public records made to be found again, and the private fits that contain them.

A canary lies far out in a direction of its own, so that the clip at the public bounds is at work, and its trace in a
linear model is the score of its own label.  Under replace_one a coin decides which of two labels it has; under
zero_out, whether it takes part or is the null record, which is counted while its terms in all sums are zero.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ..exceptions import PrivacyLeakWarning, SingleClientWarning
from ..preprocessing import check_feature_bounds

__all__ = ["ADJACENT_WORLDS", "Canaries", "draw_canaries", "fresh", "noiseless", "quiet_fit", "signed_scores"]

FAR = 10.0  # times the bound on a row
NOISELESS_EPSILON = 1e4


@dataclass(frozen=True)
class Canaries:
    """Rows that are replaced by canaries, and what the canaries are.

    Parameters
    ----------
    rows : ndarray of int, shape (n_canaries,)
    X : ndarray of shape (n_canaries, n_features)
    labels : ndarray of shape (2, n_canaries)
        Two different labels of each.
    """

    rows: np.ndarray
    X: np.ndarray
    labels: np.ndarray


def draw_canaries(estimator: Any, shape: tuple[int, int], n_canaries: int, rng: np.random.Generator) -> Canaries:
    """Canaries for data of this shape: orthogonal directions, as far as there are enough features.

    Parameters
    ----------
    estimator : private classifier
        Of which the public `classes`, `data_norm` and `feature_bounds` are read.
    shape : (n_rows, n_features)
    n_canaries : int
    rng : numpy.random.Generator
    """
    n_rows, n_features = shape
    blocks = -(-n_canaries // n_features)
    directions = np.vstack([np.linalg.qr(rng.normal(size=(n_features, n_features)))[0] for _ in range(blocks)])
    X = FAR * getattr(estimator, "data_norm", 1.0) * directions[:n_canaries]
    if getattr(estimator, "feature_bounds", None) is not None:
        lo, hi = check_feature_bounds(estimator.feature_bounds, n_features)
        X = (lo / 2 + hi / 2) + (hi / 2 - lo / 2) * X
    classes = np.unique(np.asarray(estimator.classes))
    first = rng.integers(len(classes), size=n_canaries)
    second = (first + rng.integers(1, len(classes), size=n_canaries)) % len(classes)
    return Canaries(rng.choice(n_rows, n_canaries, replace=False), X, classes[np.stack([first, second])])


def fresh(estimator: Any, rng: np.random.Generator) -> Any:
    """Unfitted copy whose noise is its own: seeded from `rng` if the estimator is seeded.

    Parameters
    ----------
    estimator : private classifier
    rng : numpy.random.Generator
    """
    copy = clone(estimator)
    return copy if copy.random_state is None else copy.set_params(random_state=int(rng.integers(2**32)))


def noiseless(estimator: Any) -> Any:
    """Unfitted copy with next to no noise, by which an auditor learns what the other records do."""
    return clone(estimator).set_params(epsilon=NOISELESS_EPSILON)


def quiet_fit(fit: Any, *args: Any, groups: Any) -> Any:
    """``fit(*args, groups=groups)`` without the warnings that an audit makes by the hundred."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        warnings.simplefilter("ignore", SingleClientWarning)
        return fit(*args, groups=groups)


def _replaced(model, X, y, groups, canaries, coins):
    """Fit in which a coin chooses the label of each canary."""
    X, y = X.copy(), y.copy()
    X[canaries.rows] = canaries.X
    y[canaries.rows] = np.where(coins, *canaries.labels)
    return quiet_fit(model.fit, X, y, groups=groups)


def _zeroed(model, X, y, groups, canaries, coins):
    """Fit in which a coin chooses whether each canary takes part."""
    X, y, null = X.copy(), y.copy(), np.zeros(len(y), dtype=bool)
    X[canaries.rows], y[canaries.rows] = canaries.X, canaries.labels[0]
    null[canaries.rows] = ~coins
    return quiet_fit(model.fit_with_null_records, X, y, null, groups=groups)


ADJACENT_WORLDS = {"replace_one": _replaced, "zero_out": _zeroed}
"""By adjacency: the fit of a model among canaries with these coins."""


def signed_scores(model: Any, canaries: Canaries) -> np.ndarray:
    """Score of each canary's first label minus that of its second: larger if the first was learnt.

    Parameters
    ----------
    model : fitted classifier
    canaries : Canaries

    Returns
    -------
    scores : ndarray of shape (n_canaries,)
    """
    scores = model.decision_function(canaries.X)
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1) / 2
    first, second = np.searchsorted(model.classes_, canaries.labels)
    each = np.arange(len(scores))
    return scores[each, first] - scores[each, second]
