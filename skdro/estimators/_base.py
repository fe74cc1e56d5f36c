"""What the estimators share: parameter validation, `groups`, linear predictions, callbacks by round."""

import warnings
from typing import Any, ClassVar

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_array
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions  # the one private import we accept
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..exceptions import SingleClientWarning
from ..federation import in_process
from ..federation.clients import encode_groups
from ._between_sites import BetweenSites

__all__ = ["FederatedMixin", "HasMethods", "Interval", "LinearClassifier", "LinearRegressor", "StrOptions"]


CONSTANT_MODEL = (
    "The robust model gives every training record the same label: radius is too large for what the features tell."
)
REMEDY = "Lower radius, or raise kappa if labels are trusted."


class LinearClassifier(ClassifierMixin, CallbackSupportMixin, BaseEstimator):
    """A classifier with `coef_`, `intercept_` and `classes_`; a binary one keeps a single row of both."""

    _accept_sparse: ClassVar[str | bool] = False
    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._accept_sparse)
        return tags

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) if binary, else (n_samples, n_classes)
            A binary score is positive where `classes_[1]` is predicted.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, accept_sparse=self._accept_sparse)
        scores = X @ self.coef_.T + self.intercept_
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Most likely class of each row; ties go to the class that sorts first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def _validated(self, X, y):
        """X as float64 rows and y as class indices; sets `classes_`."""
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", accept_sparse=self._accept_sparse)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs records of at least two classes in y; got one class "
                f"({self.classes_.tolist()[0]!r}). Pass the records of every class; a split may have parted them."
            )
        return X, codes

    def _validated_at_site(self, X, y):
        """X as float64 rows and y as indices of the classes agreed on, or of those that occur before that."""
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        if not hasattr(self, "classes_"):
            self.classes_ = np.unique(y)
        if not np.isin(y, self.classes_).all():
            raise ValueError("y has labels outside the classes that were agreed on.")
        return X, np.searchsorted(self.classes_, y)


class LinearRegressor(RegressorMixin, CallbackSupportMixin, BaseEstimator):
    """A regressor with `coef_` and `intercept_`."""

    coef_: np.ndarray
    intercept_: float

    def predict(self, X: Any) -> np.ndarray:
        """Predicted response of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return X @ self.coef_ + self.intercept_

    def _validated(self, X, y):
        """X and y as float64."""
        check_numbers(y)
        return validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=True)

    _validated_at_site = _validated


def check_numbers(y):
    """ValueError if `y` holds text; scikit-learn lets it through, or shows a value and does not name y."""
    kinds = np.asarray(y).dtype.kind
    if kinds in "SUT" or (kinds == "O" and any(isinstance(value, str | bytes) for value in np.ravel(y))):
        raise ValueError(
            "y must hold numbers; got text. Take a classifier for labels; numbers that were read as text are turned "
            "into numbers by y.astype(float)."
        )


def binary_row(coef, intercept):
    """Score differences (class 1 minus class 0) of two-class models as a single row; others unchanged.

    Parameters
    ----------
    coef : ndarray of shape (..., n_classes, n_features)
    intercept : ndarray of shape (..., n_classes)
    """
    if coef.shape[-2] != 2:
        return coef, intercept
    return coef[..., 1:, :] - coef[..., :1, :], intercept[..., 1:] - intercept[..., :1]


def checked_sample_weight(sample_weight, n_rows):
    """Sample weights as a float array, all ones if None; ValueError names them if they are no weights."""
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weight = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold one finite number a row: {error}") from None
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},); got {weight.shape}.")
    if np.any(weight < 0):
        raise ValueError("sample_weight must be non-negative.")
    return weight


def check_ball(radius, kappa):
    """ValueError naming the parameter unless all radii are finite and >= 0 and all flip costs > 0."""
    if not np.all(np.isfinite(radius) & (radius >= 0)):
        raise ValueError("radius must be finite and >= 0 for each client.")
    if not np.all(kappa > 0):
        raise ValueError("kappa must be > 0 for each client (inf: labels are trusted).")


def checked_radii(radii):
    """The radii of a path as a float array; ValueError names them unless they are finite numbers >= 0."""
    try:
        radii = np.asarray(radii, dtype=float)
    except (TypeError, ValueError):
        radii = np.asarray(np.nan)
    if radii.ndim != 1 or not np.all(np.isfinite(radii) & (radii >= 0)):
        raise ValueError("radii must be a sequence of finite numbers >= 0.")
    return radii


class FederatedMixin(BetweenSites):
    """Estimators whose `fit` takes the client label of each row as `groups`."""

    # with metadata routing on, meta-estimators pass groups down to the clients without further calls
    __metadata_request__fit = {"groups": True}  # noqa: RUF012 (scikit-learn's own idiom)

    def _clients(self, groups, n_rows, above_fit=4):
        """Sorted client labels and the client index of each row; warns if all rows count as one client.

        `above_fit` counts this method, fit, and scikit-learn's callback wrapper.
        """
        if groups is None:
            where = (
                "metadata routing is on, so pass groups to the outermost fit and it arrives here"
                if sklearn.get_config()["enable_metadata_routing"]
                else "in a Pipeline or a search pass <step>__groups=..., or switch on metadata routing: "
                "GridSearchCV's own groups reach only the splitter"
            )
            warnings.warn(
                f"{type(self).__name__} was fitted without groups, so all rows count as one client. Pass "
                f"fit(X, y, groups=client_labels); {where}. A constant groups array silences this warning.",
                SingleClientWarning,
                stacklevel=above_fit,
            )
        return encode_groups(groups, n_rows)

    def _run(self, algorithm, block, shape, reconstruct, **data):
        """Run the rounds under scikit-learn's callbacks, one task a round.

        Parameters
        ----------
        algorithm : Algorithm
        block : ClientBlock
        shape : tuple of int
        reconstruct : callable
            From a server state to the fitted attributes that a callback's `fitted_estimator` needs.
        **data : X, y, metadata
            What callbacks may see; nothing in a private fit.

        Returns
        -------
        Run
        """
        monitor = RoundMonitor(self, self.n_rounds, reconstruct, data)
        result = in_process.run(
            algorithm,
            block,
            shape,
            self.n_rounds,
            self.n_jobs,
            exchanges=algorithm.exchanges,
            clients_per_task=algorithm.clients_per_task,
            monitor=monitor,
        )
        monitor.close(result.server)
        return result


class RoundMonitor:
    """Tells scikit-learn's callbacks about the rounds of one fit; a callback may ask to stop."""

    def __init__(self, estimator, n_rounds, reconstruct, data):
        self._estimator, self._reconstruct, self._data = estimator, reconstruct, data
        self._fit = estimator._init_callback_context(max_subtasks=n_rounds)
        self._fit.call_on_fit_task_begin(estimator=estimator, **data)

    def begin(self):
        """A round begins."""
        self._round = self._fit.subcontext(task_name="round")
        self._round.call_on_fit_task_begin(estimator=self._estimator, **self._data)

    def end(self, server):
        """A round has ended with this server state; returns whether to stop."""
        return self._end(self._round, server)

    def close(self, server):
        """The fit has ended."""
        self._end(self._fit, server)

    def _end(self, task, server):
        return task.call_on_fit_task_end(
            estimator=self._estimator,
            reconstruction_attributes=lambda: self._reconstruct(server),
            **self._data,
        )
