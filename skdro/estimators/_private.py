"""What private federated estimators share: the plan before the data, the fit that keeps to it, the report after."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.callback import with_callbacks
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..federation.agreement import Federation, Records
from ..federation.client_data import stacked
from ..federation.clients import client_weights, encode_groups, per_client
from ..federation.diagnostics import Diagnosed
from ..federation.frames import ClippedFrame
from ..preprocessing import check_feature_bounds
from ..privacy.accounting import ACCOUNTANTS
from ..privacy.leaks import warn_classes_from_labels, warn_large_delta, warn_seeded_noise
from ..privacy.ledger import check_ledger
from ..privacy.noise import NOISES, noise_source
from ..privacy.plan import AGGREGATIONS, BUDGETS
from ..privacy.report import PrivacyReport, privacy_report
from ..privacy.sensitivity import ADJACENCIES
from ._base import FederatedMixin, Interval, LinearClassifier, StrOptions, binary_row
from ._between_sites import Rounds
from ._public import PublicFacts, class_codes, hiding_records, public_classes

__all__ = ["PrivateFederated", "PrivateFederatedClassifier"]


class PrivateFederated(FederatedMixin):
    """Base of the private estimators: the public frame and facts, the warnings before a fit, the report after it.

    A subclass supplies `_fit_private(X, y, groups, null)`, `_plan(facts)` and `_claim(plan, clients, noise)`.
    """

    _per_client: ClassVar[tuple[str, ...]] = ()
    noise: ClassVar[str] = "os"  # a parameter of those that offer a choice
    privacy_: PrivacyReport
    _fit_private: Callable[..., Any]

    @with_callbacks
    def fit_with_null_records(self, X: Any, y: Any, null: Any, groups: Any = None) -> Self:
        """Fit in which some records are the null record of ``adjacency="zero_out"``, for audits.

        A null record is counted, while its term in every released sum is zero.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        null : array-like of bool, shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        self._validate_params()
        return self._fit_private(X, y, groups, null=np.asarray(null, dtype=bool))

    def privacy_plan(self, X: Any, groups: Any = None) -> PrivacyReport:
        """What `fit` will release and what it will cost, from public facts alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its shape is looked at.
        groups : array-like of shape (n_samples,), default=None
            Client label of each row, public.

        Returns
        -------
        report : PrivacyReport
            Equal to the `privacy_` of a fit with the same rows per client.

        Raises
        ------
        ValueError
            A parameter or `groups` is invalid, or `classes` is None: labels are private and no plan may depend
            on them.

        Examples
        --------
        >>> import numpy as np
        >>> from skdro import DPFedDROClassifier
        >>> plan = DPFedDROClassifier(epsilon=1.0, classes=[0, 1]).privacy_plan(np.empty((100, 3)))
        >>> round(plan.epsilon, 6), len(plan.events), plan.events[0].count
        (1.0, 1, 30)
        """
        planner = clone(self)  # a random_state that is a Generator is copied too, not drawn from
        planner._validate_params()
        shape = np.shape(X)
        if len(shape) != 2:
            raise ValueError(f"X must have two dimensions, rows and features; got shape {shape}.")
        n_rows, planner.n_features_in_ = shape
        planner._take_public_outputs()
        clients, index = encode_groups(groups, n_rows)
        noise = noise_source(planner.random_state, planner.noise)
        return planner._claim(planner._plan(planner._public_facts(clients, index, noise)), clients, noise)

    def _take_public_outputs(self):
        """Set what a plan needs to know of the outputs from parameters alone."""

    def _assumes(self):
        """Names of the public inputs that are read off the data for want of a parameter."""
        return []

    def _n_outputs(self):
        """Rows of the model."""
        return 1

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
            n_classes=self._n_outputs(),
            n_features=self.n_features_in_,
            n_columns=self.n_features_in_ + bool(self.fit_intercept),
            noise=noise,
        )

    def _warn(self, noise, facts, above_fit=4):
        """Warn of leaks; `above_fit` counts this method, fit, and scikit-learn's callback wrapper."""
        if noise.seeded:
            warn_seeded_noise(above_fit)
        if self._assumes():
            warn_classes_from_labels(above_fit)
        warn_large_delta(self.delta, int(facts.n_records.min()), above_fit)

    def _report(self, plan, clients, noise, public, why_not_private=()):
        """Report of a fit that kept to `plan`; `public` names what it took as public beside the common inputs."""
        common = ["rows per client", "groups", "number of features", "data_norm", "client_weights"]
        bounds = ["feature_bounds"] if self.feature_bounds is not None else []
        return privacy_report(
            plan,
            clients=clients.tolist(),
            noise=noise,
            public=[*common, *public, *bounds],
            assumes=self._assumes(),
            why_not_private=why_not_private,
        )


class PrivateFederatedClassifier(PrivateFederated, LinearClassifier):
    """Base of the private classifiers; a subclass supplies `_design(facts)` and `_per_client`."""

    # with the common names here, each class lists only what it adds
    _parameter_constraints: ClassVar[dict] = {
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "aggregation": [StrOptions(set(AGGREGATIONS))],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "data_norm": [Interval(Real, 1e-100, 1e100, closed="both")],  # its square is a normal number
        "feature_bounds": ["array-like", None],
        "classes": ["array-like", None],
        "client_weights": [StrOptions({"uniform", "size"}), "array-like", dict],
        "budget": [StrOptions(set(BUDGETS))],
        "accountant": [StrOptions(set(ACCOUNTANTS))],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "c_model": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "fit_intercept": ["boolean"],
        "noise": [StrOptions(set(NOISES))],
        "diagnostics": [StrOptions({"not-private"}), None],
        # not a RandomState: the streams need a seed of their own for each client, round and release
        "random_state": [None, Interval(Integral, 0, None, closed="left"), np.random.Generator],
        "n_jobs": [None, Integral],
    }

    @with_callbacks
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
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
        return self._fit_private(X, y, groups)

    def _fit_private(self, X, y, groups, null=None):
        X, codes = self._private_input(X, y)
        clients, index = self._clients(groups, len(X), above_fit=5)
        records = Records(X, codes, index)
        federation = self._federation(self._terms(clients, self._facts(records, len(clients))))
        self._warn(federation.facts.noise, federation.facts, above_fit=5)
        algorithm = Diagnosed(federation.algorithm) if self.diagnostics else federation.algorithm
        # underflow depends on the records: where the user makes numpy raise on it, it would tell on them
        with np.errstate(all="ignore"):
            block = federation.block(records)
            if null is not None:
                block = block.without(null[np.argsort(index, kind="stable")])
            result = self._run(
                algorithm,
                stacked(block),
                federation.shape,
                lambda server: self._models(federation.frame, server.inner if self.diagnostics else server),
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
        facts = self._public_facts(clients, index, noise_source(self.random_state, self.noise))
        design = self._design(facts)
        return Federation(
            clients=clients,
            frame=self._frame(),
            algorithm=design.algorithm,
            shape=self._shape(facts),
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

    def decision_function(self, X: Any) -> np.ndarray:
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

    def _plan(self, facts):
        return self._design(facts).plan

    def _take_public_outputs(self):
        if self.classes is None:
            raise ValueError(
                f"{type(self).__name__} can state its plan only with public classes: pass classes=[...], the list of "
                "possible labels."
            )
        self.classes_ = public_classes(self.classes)

    def _assumes(self):
        return ["classes"] if self.classes is None else []

    def _n_outputs(self):
        return len(self.classes_)

    def _declared(self):
        """Names of the public inputs that only this kind of estimator is told."""
        return [] if self.classes is None else ["classes"]

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

    def _shape(self, facts):
        """Shape of the model."""
        return facts.n_classes, facts.n_columns

    def _linear(self, frame, model):
        coef, intercept = binary_row(*frame.leave(model))
        return {"coef_": coef, "intercept_": intercept, "_fitted_frame": frame}

    def _store(self, frame, clients, plan, noise, server, history, n_iter):
        # only the published algorithms have models of the clients; an earlier fit's must not survive
        self.__dict__.pop("client_coef_", None)
        for name, value in self._models(frame, server).items():
            setattr(self, name, value)
        self.clients_ = clients
        self.history_ = history
        self.n_iter_ = n_iter
        self.privacy_ = self._claim(plan, clients, noise)

    def _models(self, frame, server):
        """Fitted models in the user's units: the consensus and, where they are released, those of the clients."""
        models = self._linear(frame, server.model)
        if hasattr(server, "local"):
            models["client_coef_"] = binary_row(*frame.leave(server.local))[0]
        return models

    def _claim(self, plan, clients, noise):
        """What a fit that keeps to `plan` may claim."""
        return self._report(
            plan,
            clients,
            noise,
            ["step sizes", *self._declared(), *(["sampling rate"] if plan.rate < 1 else [])],
            ["diagnostics look at the exact objective"] if self.diagnostics else [],
        )
