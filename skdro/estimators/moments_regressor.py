"""Private robust regression from one release of noisy moments."""

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from ..federation.targets import BoundedNumber
from ..privacy.moment_sensitivity import regression_moments
from ._base import check_numbers
from ._moments import MomentEstimator
from ._public import hiding_records

__all__ = ["DPMomentDRORegressor"]


class DPMomentDRORegressor(MomentEstimator, RegressorMixin, CallbackSupportMixin, BaseEstimator):
    """Differentially private robust linear regression from one noisy release of second moments.

    Each client sends the noisy sums of x x^T, t x^T and t^2 (t: the target, mapped from `target_bounds` to
    [-1, 1]) once; everything else is as in `DPMomentDROClassifier`.  Predictions stay within the bounds.

    Parameters
    ----------
    epsilon : float, default=1.0
        Total budget, > 0.
    delta : float, default=1e-5
        In (0, 1); below one over the number of rows of the smallest client.
    noise_radius : float, default=0.7
        Radius of the ball of moments, as a multiple of the spectral edge of the noise, >= 0.  0 believes the noisy
        moments.
    radius : float, default=0.0
        Wasserstein-2 radius by which features may move, >= 0, in the coordinates of the rows (divided by
        `data_norm`, so of length one at most).
    mixture : {"fixed", "simplex"}, default="fixed"
        Whether clients count with `client_weights`, or the model is made for the worst client.
    mixture_radius : float, default=None
        In [0, 1]: the model is made for the worst weights whose l1 distance from `client_weights` is at most twice
        that.  Overrides `mixture`; 0 is "fixed", 1 is "simplex".
    aggregation : {"local", "trusted"}, default="local"
        Noise at each client, so that only the record's own client is trusted, or once on the sum: much less noise,
        but whoever sees the sum is trusted.  A mixture needs "local", where each client's moments are released.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What one record more or less means.
    data_norm : float, default=1.0
        Rows, constant column included, are clipped to this l2 norm, > 0.  Public.
    feature_bounds : pair (lo, hi) of float or array-like of shape (n_features,), default=None
        Public box of the features, in their units; features are clipped to it and mapped to [-1, 1].
        Recommended.  None takes the features as given, and `data_norm` cuts every row that is longer.
    target_bounds : pair (lo, hi) of float, default=None
        Public bounds of the target, in its units, from its meaning and never from the data; targets are clipped to
        them.  **Give them**: None takes targets as given and clips them to [-1, 1], with a warning.
    client_weights : {"uniform", "size"}, array-like of shape (n_clients,) or dict, default="size"
        Public weights of the clients, normalised to sum one.
    statistics_weight : float, default=1.0
        omega > 0, the share of the noise budget that goes to sums with targets: B is released as omega B.
    feature_map : transformer, default=None
        Applied to the features in their box, before rows are clipped: a non-linear model in one round.  A copy is
        fitted to public random rows, never to records, so use a map whose parameters are fixed
        (``RBFSampler(random_state=0)``, ``PolynomialFeatures()``); it must map each row on its own, and
        fail on no row of the box (on no row at all without `feature_bounds`).  Public rows at the ends of the box are
        tried.  Should it fail on a record all the same, the error is one fixed text; **that the fit fails is then one
        bit about the records**.
    tune : bool, default=False
        Choose `noise_radius`, `radius` and the mixture inside the fit, at no further budget: each client deals its
        rows to two disjoint halves, whose moments are released together, and one half judges models of the other.
        The noise of both halves adds up in the final model, sqrt(2) times that without tuning.
    fit_intercept : bool, default=True
    random_state : None, int or numpy.random.Generator, default=None
        None draws the noise from operating-system entropy.  Anything else is reproducible, hence **not private**.
    n_jobs : int, default=None
        Workers over clients.

    Attributes
    ----------
    privacy_ : PrivacyReport
        The guarantee, its single event, and what it assumes.
    moments_ : tuple of Moments
        What was released, hence public: one for each client ("local"), or one ("trusted").  With `tune`, both
        halves together.
    coef_ : ndarray of shape (n_features,)
        In the user's units; acts on the mapped features if there is a `feature_map`.  Agrees with `predict` up
        to the norm clip of each row.
    intercept_ : float
    clients_ : ndarray of shape (n_clients,)
    noise_radius_ : float
        eta, the radius of the ball of moments in the units of the released sums (of all clients together).
    chosen_ : dict
        "noise_radius", "radius" and "mixture_radius" of the model: as asked, or as chosen by `tune`.
    certificate_ : float
        With probability at least 0.95 over the noise, the model's worst-case mean squared error on the clipped
        training records is at most this (in the target's units, squared).
    n_iter_ : int
        1.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Warns
    -----
    DataConversionWarning
        `target_bounds` was not given.
    PrivacyLeakWarning
        `random_state` is set, or `delta` is large for the smallest client.
    SingleClientWarning
        `groups` was not given.

    See Also
    --------
    DPMomentDROClassifier : The same for classes, with notes and references.

    Notes
    -----
    Without an intercept the model predicts the middle of `target_bounds` at the middle of `feature_bounds`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro import DPMomentDRORegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(2000, 3))
    >>> y = 20 + X @ [5.0, -3.0, 0.0] + rng.normal(size=2000)
    >>> model = DPMomentDRORegressor(
    ...     epsilon=2.0, delta=1e-6, aggregation="trusted", feature_bounds=(-1, 1), target_bounds=(0, 40))
    >>> model = model.fit(X, y, groups=np.arange(2000) % 4)
    >>> bool(model.score(X, y) > 0.7)
    True
    >>> model.privacy_
    PrivacyReport: (epsilon, delta) = (2, 1e-06) for one record, replace-one...
    """

    _parameter_constraints: ClassVar[dict] = {
        **MomentEstimator._parameter_constraints,
        "target_bounds": ["array-like", None],
    }

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        noise_radius=0.7,
        radius=0.0,
        *,
        mixture="fixed",
        mixture_radius=None,
        aggregation="local",
        adjacency="replace_one",
        data_norm=1.0,
        feature_bounds=None,
        target_bounds=None,
        client_weights="size",
        statistics_weight=1.0,
        feature_map=None,
        tune=False,
        fit_intercept=True,
        random_state=None,
        n_jobs=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.noise_radius = noise_radius
        self.radius = radius
        self.mixture = mixture
        self.mixture_radius = mixture_radius
        self.aggregation = aggregation
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.feature_bounds = feature_bounds
        self.target_bounds = target_bounds
        self.client_weights = client_weights
        self.statistics_weight = statistics_weight
        self.feature_map = feature_map
        self.tune = tune
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.n_jobs = n_jobs

    def predict(self, X: Any) -> np.ndarray:
        """Predicted targets, after the public box and norm clip that the model was trained with.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        targets : ndarray of shape (n_samples,)
            Within `target_bounds`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        frame, targets = self._fitted_frame, self._fitted_targets
        M = frame.affine.inverse(self.coef_, np.asarray(self.intercept_ - targets.centre))
        return np.clip(frame.enter(X) @ M + targets.centre, targets.lo, targets.hi)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # at the default budget the noise is larger than what a few hundred rows tell
        tags.regressor_tags.poor_score = True
        return tags

    def _private_input(self, X, y):
        check_numbers(y)
        return hiding_records(validate_data, self, X, y, dtype=np.float64, order="C", y_numeric=True)

    def _declared(self):
        return [] if self.target_bounds is None else ["target_bounds"]

    def _targets(self):
        bounds = (-1.0, 1.0) if self.target_bounds is None else self.target_bounds
        try:
            lo, hi = (float(bound) for bound in bounds)
        except (TypeError, ValueError):
            lo, hi = np.nan, np.nan
        if not np.isfinite(hi / 2 - lo / 2) or not lo < hi:
            raise ValueError(f"target_bounds must be a pair (lo, hi) of finite numbers with lo < hi; got {bounds!r}.")
        return BoundedNumber(lo, hi)

    def _warn(self, noise, facts, above_fit=4):
        super()._warn(noise, facts, above_fit + 1)
        if self.target_bounds is None:
            warnings.warn(
                "target_bounds was not given: targets are taken as given and clipped to [-1, 1]. Pass "
                "target_bounds=(lo, hi), public bounds from the meaning of the target.",
                DataConversionWarning,
                stacklevel=above_fit,
            )

    def _sensitivity(self, adjacency):
        return regression_moments(self.statistics_weight, adjacency)

    def _in_units(self, coef, intercept, targets):
        return {
            "coef_": targets.unit * coef[0],
            "intercept_": float(targets.centre + targets.unit * intercept[0]),
        }
