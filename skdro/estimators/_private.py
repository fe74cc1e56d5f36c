"""What private federated classifiers share: public inputs, the plan before the data, the report after them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..federation.agreement import Federation, Records
from ..federation.client_data import stacked
from ..federation.clients import client_weights, per_client
from ..federation.diagnostics import Diagnosed
from ..federation.frames import ClippedFrame
from ..preprocessing import check_feature_bounds
from ..privacy.accounting import ACCOUNTANTS
from ..privacy.leaks import warn_classes_from_labels, warn_large_delta, warn_seeded_noise
from ..privacy.ledger import check_ledger
from ..privacy.noise import NoiseSource, noise_source
from ..privacy.plan import AGGREGATIONS, BUDGETS, PrivacyPlan
from ..privacy.report import privacy_report
from ..privacy.sensitivity import ADJACENCIES
from ._base import FederatedMixin, Interval, LinearClassifier, StrOptions, binary_row
from ._between_sites import Rounds

__all__ = ["Design", "PrivateFederatedClassifier", "PublicFacts"]


@dataclass(frozen=True)
class PublicFacts:
    """All that a plan may depend on: nothing here comes from a record.

    Parameters
    ----------
    n_records : ndarray of int, shape (n_clients,)
    alpha : ndarray of shape (n_clients,)
    settings : dict of str to ndarray of shape (n_clients,)
        Per-client parameters, such as radius and kappa.
    n_classes, n_features, n_columns : int
    noise : NoiseSource
    """

    n_records: np.ndarray
    alpha: np.ndarray
    settings: dict[str, np.ndarray]
    n_classes: int
    n_features: int
    n_columns: int
    noise: NoiseSource


@dataclass(frozen=True)
class Design:
    """A plan and the algorithm that keeps to it."""

    plan: PrivacyPlan
    algorithm: Any


def hiding_records(check: Callable, *args, **kwargs):
    """Result of a check of the input; its errors keep their type, but show no value of a record.

    scikit-learn puts values into quotes (a string that is no number) or on later lines (an array of a wrong
    shape or type).
    """
    try:
        return check(*args, **kwargs)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        text = re.sub(r"'.*'|\".*\"", "...", str(error).partition("\n")[0])
    # raised here, so that the original does not come along as the context
    raise kind(text)


def public_classes(classes) -> np.ndarray:
    """Sorted labels of the parameter `classes`."""
    labels = np.asarray(classes)
    if labels.ndim != 1 or len(np.unique(labels)) < 2:
        raise ValueError("classes must be a list of at least two different labels.")
    return np.unique(labels)


def class_codes(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Position in `classes` of each label; a ValueError shows none of them."""
    try:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        known = np.array_equal(classes[codes], y)
    except TypeError:  # labels that cannot be compared
        known = False
    if not known:
        raise ValueError("y holds a label outside classes.")
    return codes


class PrivateFederatedClassifier(FederatedMixin, LinearClassifier):
    """Base of the private classifiers; a subclass supplies `_design(facts)` and `_per_client`."""

    # with the common names here, each class lists only what it adds
    _parameter_constraints: ClassVar[dict] = {
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "aggregation": [StrOptions(set(AGGREGATIONS))],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "data_norm": [Interval(Real, 0, None, closed="neither")],
        "feature_bounds": ["array-like", None],
        "classes": ["array-like", None],
        "client_weights": [StrOptions({"uniform", "size"}), "array-like", dict],
        "budget": [StrOptions(set(BUDGETS))],
        "accountant": [StrOptions(set(ACCOUNTANTS))],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "c_model": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "diagnostics": [StrOptions({"not-private"}), None],
        # not a RandomState: the streams need a seed of their own for each client, round and release
        "random_state": [None, Interval(Integral, 0, None, closed="left"), np.random.Generator],
        "n_jobs": [None, Integral],
    }

    _per_client: ClassVar[tuple[str, ...]] = ()

    @with_callbacks
    def fit(self, X, y, groups=None):
        """Fit the model under the stated total budget.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels, all of them in `classes` if given.
        groups : array-like of shape (n_samples,), default=None
            Client label of each row, public.  None: all rows are one client.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            A parameter or an input is invalid.  Raised before anything is released; the message names the
            parameter and shows no record.
        """
        self._validate_params()
        X, codes = self._private_input(X, y)
        clients, index = self._clients(groups, len(X))
        records = Records(X, codes, index)
        federation = self._federation(self._terms(clients, self._facts(records, len(clients))))
        self._warn(federation.facts.noise, federation.facts)
        algorithm = Diagnosed(federation.algorithm) if self.diagnostics else federation.algorithm
        # underflow depends on the records: where the user makes numpy raise on it, it would tell on them
        with np.errstate(all="ignore"):
            result = self._run(
                algorithm,
                stacked(federation.block(records)),
                federation.shape,
                lambda server: self._linear(federation.frame, server.model),
            )
        n_iter = len(next(iter(result.history.values())))
        released = result.server.inner if self.diagnostics else result.server
        ledger = federation.algorithm.ledger(released, result.states)
        check_ledger(federation.plan, ledger, stopped=n_iter < self.n_rounds)
        self._conclude(federation, Rounds(released, result.history))
        return self

    def _is_private(self):
        return True

    def _records_of_site(self, X, y):
        """Rows of one client, labels in the public classes."""
        X, codes = self._private_input(X, y)
        return Records(X, codes, np.zeros(len(X), dtype=int))

    def _facts(self, records, n_clients=1):
        """Rows of each client: public, and all that a plan needs."""
        return {"n_records": np.bincount(records.index, minlength=n_clients)}

    def _terms(self, clients, facts):
        """The same, for all to know."""
        return {"clients": clients, "n_records": facts["n_records"]}

    def _federation(self, terms):
        """Plan, algorithm and frame from public facts."""
        clients = terms["clients"]
        index = np.repeat(np.arange(len(clients)), terms["n_records"])
        facts = self._public_facts(clients, index, noise_source(self.random_state))
        design = self._design(facts)
        return Federation(
            clients=clients,
            frame=self._frame(),
            algorithm=design.algorithm,
            shape=(facts.n_classes, facts.n_columns),
            settings=facts.settings,
            plan=design.plan,
            facts=facts,
        )

    def _site_block(self, federation, records, g):
        """As for all; the noise must be scaled to the number of records that the site itself counts."""
        if federation.facts.n_records[g] != len(records.X):
            raise ValueError("The terms of the federation give this site another number of records than it has.")
        return super()._site_block(federation, records, g)

    def _conclude(self, federation, rounds):
        """Store the released model, and what its releases cost."""
        n_iter = len(next(iter(rounds.history.values())))
        self._store(
            federation.frame,
            federation.clients,
            federation.plan,
            federation.facts.noise,
            rounds.server,
            rounds.history,
            n_iter,
        )

    def decision_function(self, X):
        """Scores of the classes, after the public box and norm clip that the model was trained with.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) if binary, else (n_samples, n_classes)
            A binary score is positive where `classes_[1]` is predicted.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        frame = self._fitted_frame  # parameters set after fit change no prediction
        scores = frame.enter(X) @ frame.affine.inverse(self.coef_, self.intercept_).T
        return scores.ravel() if len(self.classes_) == 2 else scores

    def _private_input(self, X, y):
        """X as float64 rows and y as indices of public classes; sets `classes_`."""
        X, y = hiding_records(validate_data, self, X, y, dtype=np.float64, order="C")
        if self.classes is None:
            hiding_records(check_classification_targets, y)
            self.classes_ = np.unique(y)
            if len(self.classes_) < 2:
                raise ValueError("y holds one class only. Pass classes=[...], the public list of possible labels.")
        else:
            self.classes_ = public_classes(self.classes)
        return X, class_codes(self.classes_, y)

    def _frame(self):
        if self.feature_bounds is None:
            return ClippedFrame.as_given(self.n_features_in_, self.fit_intercept, self.data_norm)
        lo, hi = check_feature_bounds(self.feature_bounds, self.n_features_in_)
        return ClippedFrame.of_box(lo, hi, self.fit_intercept, self.data_norm)

    def _public_facts(self, clients, index, noise):
        sizes = np.bincount(index, minlength=len(clients))
        return PublicFacts(
            n_records=sizes,
            alpha=client_weights(self.client_weights, clients, sizes),
            settings={name: per_client(getattr(self, name), clients, name) for name in self._per_client},
            n_classes=len(self.classes_),
            n_features=self.n_features_in_,
            n_columns=self.n_features_in_ + bool(self.fit_intercept),
            noise=noise,
        )

    def _warn(self, noise, facts):
        above_fit = 4  # this method, fit, scikit-learn's callback wrapper
        if noise.seeded:
            warn_seeded_noise(above_fit)
        if self.classes is None:
            warn_classes_from_labels(above_fit)
        warn_large_delta(self.delta, int(facts.n_records.min()), above_fit)

    def _linear(self, frame, model):
        coef, intercept = binary_row(*frame.leave(model))
        return {"coef_": coef, "intercept_": intercept, "_fitted_frame": frame}

    def _store(self, frame, clients, plan, noise, server, history, n_iter):
        for name, value in self._linear(frame, server.model).items():
            setattr(self, name, value)
        self.clients_ = clients
        self.history_ = history
        self.n_iter_ = n_iter
        public = ["rows per client", "groups", "number of features", "data_norm", "client_weights", "step sizes"]
        public += ["feature_bounds"] if self.feature_bounds is not None else []
        public += ["classes"] if self.classes is not None else []
        self.privacy_ = privacy_report(
            plan,
            clients=clients.tolist(),
            noise=noise,
            public=public,
            assumes=["classes"] if self.classes is None else [],
            why_not_private=["diagnostics look at the exact objective"] if self.diagnostics else [],
        )
