"""A search for parameters that is itself private: a secret number of trials, noisy scores, one winner shown."""

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..estimators._base import FederatedMixin, Interval
from ..estimators._public import class_codes, hiding_records, public_classes
from ..privacy.accounting import check_budget
from ..privacy.leaks import warn_classes_from_labels, warn_large_delta, warn_seeded_noise
from ..privacy.noise import noise_source
from ..privacy.random_stopping import TruncatedNegativeBinomial, search_mu
from ..privacy.search_report import SearchReport, search_report
from ._trials import at_cost, candidate_list, check_trial_plan, held_out, secret_uniform, trial

__all__ = ["PrivateSearchCV"]


class PrivateSearchCV(FederatedMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Choose parameters of a private classifier inside one total budget.

    K trials are made.  Each draws a candidate at random, fits it, and scores it with noise; the best is returned and
    nothing else: neither K, nor another trial.  K itself is random (truncated negative binomial) and secret, which is
    why the search costs little more than a trial [1]_.

    Parameters
    ----------
    estimator : private classifier
        With `privacy_plan`, `epsilon` and `delta`, which the search sets; releases full-batch Gaussians only.
    candidates : dict of lists, or list of dicts
        Public.  A grid, or the candidates one by one: ``list(ParameterSampler(...))``.
    epsilon : float, default=1.0
        Total budget of the whole search, > 0.
    delta : float, default=1e-5
        In (0, 1).
    n_trials : float, default=10.0
        Mean number of trials, > 1.
    eta : float, default=0.0
        Shape of the law of the number of trials, > -1: 1 geometric, 0 logarithmic.  Smaller values cost less and
        make a single trial more likely.
    holdout : float, default=0.0
        Share of each client's rows, fixed by position, that is used for the scores only, so that a record costs a
        model or a score; in [0, 1).  0 fits and scores on all rows, and both add up.
    score_share : float, default=0.1
        Share of a trial's mu^2 that the score gets if `holdout` is 0; in (0, 1).
    random_state : None, int or numpy.random.Generator, default=None
        None draws noise, candidates and K from operating-system entropy.  Anything else is **not private**.

    Attributes
    ----------
    privacy_ : SearchReport
        The guarantee of the whole search; `best_estimator_.privacy_` is the same object.
    best_estimator_ : estimator
        The fitted winner; it has not seen rows held out, since a refit would be one more release.
    best_params_ : dict
    best_score_ : float
        The winner's noisy accuracy, the largest of all: biased upwards.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Warns
    -----
    PrivacyLeakWarning
        `random_state` is set here or on `estimator`, `classes` is read from `y`, or `delta` is large.
    SingleClientWarning
        `groups` was not given.

    See Also
    --------
    composed_cost : What the fits of a `GridSearchCV` cost; its scores are not private at any epsilon.

    Notes
    -----
    **What GridSearchCV costs.**  It computes scores exactly from private labels, and shows all of them: not private
    at any epsilon.  Its fits alone compose to sqrt(N (k - 1) + 1) times the mu of one.

    **Who is trusted.**  The bound counts on the losing trials staying hidden.  Whoever runs the search sees them, and
    with local aggregation the server does: against these only the fits' own guarantees hold, composed over a number
    of trials that is not bounded.  The time that a search takes tells an observer about K.

    **Whether to search at all.**  At (3.73, 1e-6) on five small data sets the search lost .08 macro-F1 against one
    fit with the default parameters (``examples/benchmarks/private_search.py``).  It can pay only where the defaults
    are far off or the budget is generous.  `holdout` and `score_share` were chosen on simulated data.

    There is no `cv_results_`: results that are not released do not exist.

    References
    ----------
    .. [1] Papernot, Steinke. Hyperparameter Tuning with Renyi Differential Privacy. ICLR 2022, Theorem 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro import DPFedDROClassifier
    >>> from skdro.model_selection import PrivateSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DPFedDROClassifier(
    ...     classes=[0, 1, 2], feature_bounds=([4, 2, 1, 0], [8, 4.5, 7, 2.5]), aggregation="trusted")
    >>> search = PrivateSearchCV(model, {"c_model": [0.3, 3.0, 30.0]}, epsilon=5.0, delta=1e-4)
    >>> search = search.fit(X, y, groups=np.arange(150) % 3)
    >>> search.privacy_
    SearchReport: (epsilon, delta) = (5, 0.0001) for one record, replace-one...
    >>> sorted(search.best_params_)
    ['c_model']
    """

    _parameter_constraints: ClassVar[dict] = {
        "estimator": "no_validation",
        "candidates": "no_validation",
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "n_trials": [Interval(Real, 1, None, closed="neither")],
        "eta": [Interval(Real, -1, None, closed="neither")],
        "holdout": [Interval(Real, 0, 1, closed="left")],
        "score_share": [Interval(Real, 0, 1, closed="neither")],
        "random_state": "no_validation",
    }

    def __init__(
        self,
        estimator,
        candidates,
        *,
        epsilon=1.0,
        delta=1e-5,
        n_trials=10.0,
        eta=0.0,
        holdout=0.0,
        score_share=0.1,
        random_state=None,
    ):
        self.estimator = estimator
        self.candidates = candidates
        self.epsilon = epsilon
        self.delta = delta
        self.n_trials = n_trials
        self.eta = eta
        self.holdout = holdout
        self.score_share = score_share
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Search under the stated total budget.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None
            Client label of each row, public.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            A parameter, a candidate or an input is invalid.  Raised before anything is released; the message shows
            no record.
        """
        self._validate_params()
        self._check_estimator()
        noise = noise_source(self.random_state)
        X, y = self._records(X, y)
        index, labels = self._rows_of_clients(groups, len(X))
        models, report = self._planned(X.shape, index, labels, self.classes_, noise)
        self._warn(noise, int(np.bincount(index).min()))
        held = held_out(index, self.holdout)
        fitted, scored = ~held, held if self.holdout else ~held
        data = X[fitted], y[fitted], labels[fitted], X[scored], y[scored]
        best: Any = None  # K is at least one
        # K is drawn and forgotten here, and a loser is dropped as soon as it has lost
        for number in range(report.law.quantile(secret_uniform(noise, "number of trials"))):
            new = trial(models, data, report.mu_score, number, noise)
            best = new if best is None or new.score > best.score else best
        self.best_estimator_, self.best_params_, self.best_score_ = best.estimator, best.parameters, best.score
        self.privacy_ = self.best_estimator_.privacy_ = report
        if hasattr(self, "feature_names_in_"):
            self.best_estimator_.feature_names_in_ = self.feature_names_in_
        return self

    def privacy_plan(self, X: Any, groups: Any = None) -> SearchReport:
        """What `fit` will release and cost, from public facts alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its shape is looked at.
        groups : array-like of shape (n_samples,), default=None

        Returns
        -------
        report : SearchReport

        Raises
        ------
        ValueError
            A parameter, a candidate or `groups` is invalid, or the estimator has no public classes.
        """
        self._validate_params()
        if self.estimator.classes is None:
            raise ValueError("estimator needs public classes: pass classes=[...], the list of possible labels.")
        index, labels = self._rows_of_clients(groups if groups is not None else np.zeros(np.shape(X)[0]), len(X))
        noise = noise_source(clone(self).random_state)  # a Generator is copied, not drawn from
        return self._planned(np.shape(X), index, labels, public_classes(self.estimator.classes), noise)[1]

    def predict(self, X: Any) -> np.ndarray:
        """Most likely class of each row, by the winner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes, by the winner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) if binary, else (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def _check_estimator(self):
        if not (hasattr(self.estimator, "privacy_plan") and hasattr(self.estimator, "classes")):
            raise ValueError(
                "estimator must be a private classifier of skdro, such as DPFedDROClassifier; got "
                f"{type(self.estimator).__name__}. Of a pipeline pass the last step; scale X by public bounds first."
            )

    def _records(self, X, y):
        X, y = hiding_records(validate_data, self, X, y, dtype=np.float64, order="C")
        if self.estimator.classes is None:
            hiding_records(check_classification_targets, y)
            classes = np.unique(y)
            if len(classes) < 2:
                raise ValueError("y holds one class only. Pass classes=[...], the public list of possible labels.")
        else:
            classes = public_classes(self.estimator.classes)
        self.classes_ = classes
        return X, classes[class_codes(classes, y)]

    def _rows_of_clients(self, groups, n_rows):
        """Client index and label of each row."""
        clients, index = self._clients(groups, n_rows)
        return index, clients[index]

    def _costs(self, law):
        """Gaussian-DP parameters of the model and of the score of a trial."""
        mu = search_mu(self.epsilon, self.delta, law)
        if self.holdout:
            return mu, mu
        return mu * np.sqrt(1 - self.score_share), mu * np.sqrt(self.score_share)

    def _planned(self, shape, index, labels, classes, noise):
        """The candidates at their cost, and the report; nothing here depends on a record."""
        check_budget(self.epsilon, self.delta)
        law = TruncatedNegativeBinomial.with_mean(self.n_trials, self.eta)
        mu_model, mu_score = (float(mu) for mu in self._costs(law))
        fitted = ~held_out(index, self.holdout)
        if self.holdout and fitted.all():
            raise ValueError("holdout keeps no row for the scores: raise it, or set it to 0.")
        rows = np.broadcast_to(0.0, (int(fitted.sum()), shape[1]))  # a shape and nothing else
        models = []
        for parameters in candidate_list(self.candidates):
            model = at_cost(self.estimator, mu_model, **parameters, classes=classes)
            check_trial_plan(model.privacy_plan(rows, labels[fitted]), mu_model)
            models.append((parameters, model))
        return models, self._report(law, mu_model, mu_score, len(models), noise)

    def _report(self, law, mu_model, mu_score, n_candidates, noise):
        public = ["rows per client", "groups", "number of features", "candidates", "parameters of the estimator"]
        public += ["rows held out"] if self.holdout else []
        public += ["classes"] if self.estimator.classes is not None else []
        known = noise.seeded or self.estimator.random_state is not None
        return search_report(
            law,
            mu_model,
            mu_score,
            disjoint=bool(self.holdout),
            delta=self.delta,
            adjacency=self.estimator.adjacency,
            n_candidates=n_candidates,
            noise=noise.description,
            public=public,
            assumes=["classes"] if self.estimator.classes is None else [],
            why_not_private=["random_state is set, the noise is known"] if known else [],
        )

    def _warn(self, noise, smallest_client):
        above_fit = 3  # this method and fit
        if noise.seeded or self.estimator.random_state is not None:
            warn_seeded_noise(above_fit)
        if self.estimator.classes is None:
            warn_classes_from_labels(above_fit)
        warn_large_delta(self.delta, smallest_client, above_fit)
