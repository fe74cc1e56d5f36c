"""What the two divergence classifiers share: the models, the exact fit, and the way into the private one."""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import softmax
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from ..exceptions import NoiseFeedbackWarning
from ..federation.clients import encode_groups
from ..federation.divergence_batches import FullBatches, PoissonBatches
from ..federation.divergence_settings import Budget, Descent, Facts
from ..federation.frames import AffineFrame
from ..losses.models import LinearModel, Records, TanhNetwork
from ..privacy.plan import AGGREGATIONS
from ..privacy.sensitivity import ADJACENCIES
from ..solvers.reweighted import lower_bound, minimise
from ._base import HasMethods, Interval, StrOptions
from ._private import PrivateFederatedClassifier
from ._private_designs import FULL_BATCH, HOLDING, check_accountant

__all__ = ["DivergenceClassifier", "Way"]

# attributes that only one of the two kinds of fit sets: an earlier fit's must not survive
EXACT_ONLY = ("sample_weights_", "worst_case_risk_", "dual_gap_", "gradient_norm_", "shift_", "temperature_")
PRIVATE_ONLY = ("privacy_", "history_")
N_ALONE = 16
"""Features that are put at an end of their domain alone where a network is tried; each row costs a pass."""

# solvers that sum all gradients afresh in each iteration
PLAIN = ("auto", "exact", "scdro", "dpgd", "dpsgda", "erm")
# solvers whose iterations are of two kinds, each with all of its releases on one batch
TWO_RATES = ("storm", "double_spider", "recursive_spider")


class Way(NamedTuple):
    """Iterations times step times clip norm where the noise is small, and the noise that shortens it by sqrt(2).

    Chosen on simulated data (examples/benchmarks/choose_divergence_rule.py).
    """

    length: float
    knee: float


class DivergenceClassifier(PrivateFederatedClassifier):
    """Base; a subclass supplies `_risk()`, `_ambiguity()`, `_designs`, and `_minimise` where risks are not smooth."""

    _parameter_constraints: ClassVar[dict] = {
        **{
            name: constraint
            for name, constraint in PrivateFederatedClassifier._parameter_constraints.items()
            if name not in ("c_model", "client_weights", "noise")
        },
        "epsilon": [Interval(Real, 0, None, closed="neither"), None],
        "accountant": [StrOptions({name for names in HOLDING.values() for name in names})],
        "sampling_rate": [Interval(Real, 0, 1, closed="right"), tuple, list],
        "max_weight": [Interval(Real, 1, None, closed="neither")],
        "hidden_layer_sizes": [tuple, list],
        "network": [HasMethods(["build"]), None],
        "init_seed": [Interval(Integral, 0, None, closed="left")],
        "reg": [Interval(Real, 0, None, closed="left")],
        "step_size": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "clip_norm": [Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "refresh_every": [Interval(Integral, 1, None, closed="left")],
        "eta_noise_ratio": [Interval(Real, 0, None, closed="neither")],
        "difference_noise_ratio": [Interval(Real, 0, None, closed="neither")],
        "difference_slope": [Interval(Real, 0, None, closed="neither")],
        "weight_slope": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    _between_sites: ClassVar[bool] = False  # not yet

    # solver -> way and knee of step_size="auto": those of linear models, and those of networks
    _ways: ClassVar[dict[str, tuple[Way, Way]]] = {}

    # solvers for epsilon=None
    _not_private: ClassVar[tuple[str, ...]] = ("exact",)

    # the objective is the mean over all records, wherever they are
    client_weights: ClassVar[str] = "size"

    @with_callbacks
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit the model: exactly if `epsilon` is None, otherwise under the stated total budget.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels, all of them in `classes` if given.
        groups : array-like of shape (n_samples,), default=None
            Client label of each row, public.  None: all rows are one client.  Under trusted aggregation, and without
            privacy, the model does not depend on it.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            A parameter or an input is invalid; in a private fit raised before anything is released, and the message
            shows no record.
        """
        self._validate_params()
        self._check_solver()
        if self.epsilon is None:
            return self._fit_exact(X, y, groups)
        return self._fit_private(X, y, groups)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # at a small epsilon the noise of the changes leaves little: no score may be expected
        tags.classifier_tags.poor_score = self.epsilon is not None and self.solver not in PLAIN
        return tags

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes: logits of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) if binary, else (n_samples, n_classes)
            A binary score is positive where `classes_[1]` is predicted.
        """
        scores = self._all_scores(X)
        return scores[:, 1] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes under the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return softmax(self._all_scores(X), axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
        """
        scores = self._all_scores(X)
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)

    def _all_scores(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._fitted_model.scores(self._fitted_parameters, self._fitted_frame.enter(X))

    def _clients(self, groups, n_rows, above_fit=4):
        """As the base, without its warning: pooled records are a proper use of these classes."""
        return encode_groups(groups, n_rows)

    def _check_solver(self):
        if self.epsilon is None and self.solver not in ("auto", *self._not_private):
            raise ValueError(
                f'solver="{self.solver}" is private and needs epsilon; got epsilon=None. Set epsilon, or use '
                'solver="exact".'
            )
        if self.epsilon is not None and self.solver in self._not_private:
            raise ValueError(f'solver="{self.solver}" is not private; use epsilon=None, or solver="auto".')

    def _sampling_rates(self):
        """Rates of the batches that are summed afresh and of those of changes."""
        if isinstance(self.sampling_rate, Real):
            return float(self.sampling_rate), float(self.sampling_rate)
        rates = tuple(self.sampling_rate)
        if len(rates) != 2 or not all(isinstance(rate, Real) and 0 < rate <= 1 for rate in rates):
            raise ValueError(
                "sampling_rate must be a number in (0, 1], or a pair of them, for sums afresh and for sums of "
                f"changes; got {self.sampling_rate!r}."
            )
        if self.solver not in TWO_RATES:
            raise ValueError(
                f'solver="{self.solver}" takes a single sampling_rate; a pair is for {TWO_RATES}; got '
                f"{self.sampling_rate!r}."
            )
        return float(rates[0]), float(rates[1])

    def _batches(self):
        rates = self._sampling_rates()
        sampled = min(rates) < 1
        check_accountant(self, sampled)
        return PoissonBatches(*rates) if sampled else FullBatches()

    def _hidden_units(self):
        """Units of the hidden layer, None for a linear model."""
        sizes = tuple(self.hidden_layer_sizes)
        if any(not isinstance(size, Integral) or size < 1 for size in sizes) or len(sizes) > 1:
            raise ValueError("hidden_layer_sizes must be () or hold one positive int: the units of one hidden layer.")
        return sizes[0] if sizes else None

    def _model(self, n_classes, n_features):
        n_columns, hidden = n_features + bool(self.fit_intercept), self._hidden_units()
        if self.network is not None:
            if hidden is not None:
                raise ValueError("hidden_layer_sizes and network are two models: leave one of them out.")
            extremes = None if self.epsilon is None else self._frame().extremes(N_ALONE)[:, :n_features]
            return self.network.build(n_classes, n_features, extremes)
        if hidden is None:
            return LinearModel(n_classes, n_columns, self.fit_intercept)
        return TanhNetwork(n_classes, n_columns, int(hidden), self.fit_intercept)

    def _start(self, model):
        """Public start: it depends on the shape of the model and on `init_seed` alone."""
        return model.start(np.random.default_rng(self.init_seed))

    # the exact fit

    def _fit_exact(self, X, y, groups):
        X, codes = self._validated(X, y)
        self.clients_, _ = encode_groups(groups, len(X))
        model = self._model(len(self.classes_), X.shape[1])
        frame = self._exact_frame(X, model)
        records = Records.of(frame.enter(X), codes)
        ridge = self.reg * model.penalised() / self._squared_scale(frame, model)
        task = self._init_callback_context()
        task.call_on_fit_task_begin(estimator=self, X=X, y=y)
        solution = self._minimise(model, records, self._risk(), ridge)
        for name in PRIVATE_ONLY:
            self.__dict__.pop(name, None)
        for name, value in self._linear(frame, solution.parameters).items():
            setattr(self, name, value)
        self._keep_solution(model, records, solution, ridge)
        task.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _minimise(self, model, records, risk, ridge):
        start = self._start(model)
        return minimise(model, records, risk, ridge, start, tol=self.tol, max_iter=self.max_iter)

    def _keep_solution(self, model, records, solution, ridge):
        self.worst_case_risk_ = solution.worst.value
        self.sample_weights_ = solution.worst.weight
        self.shift_, self.temperature_ = solution.worst.shift, solution.worst.temperature
        self.gradient_norm_ = solution.gradient_norm
        self.n_iter_ = solution.n_iter
        self.dual_gap_ = np.inf
        if isinstance(model, LinearModel):
            bound = lower_bound(model, solution.parameters, records, solution.worst, ridge)
            self.dual_gap_ = max(solution.objective - bound, 0.0)
        if min(self.dual_gap_ / max(abs(solution.objective), 1e-12), self.gradient_norm_) > self.tol:
            warnings.warn(
                f"{type(self).__name__} stopped with a gradient of {self.gradient_norm_:.2g} and a certified gap of "
                f"{self.dual_gap_:.2g} after {self.n_iter_} iterations; tol is {self.tol:g}. {self._remedy()}",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _remedy(self):
        """What to do where a search has ended too soon."""
        return "Raise max_iter, scale the features, or raise reg."

    def _exact_frame(self, X, model):
        """Coordinates in which the search is well conditioned; they change no solution of a linear model."""
        p = X.shape[1]
        if not isinstance(model, LinearModel):
            return AffineFrame(np.zeros(p), np.ones(p), self.fit_intercept)
        scale = X.std(axis=0) if self.fit_intercept else np.sqrt((X**2).mean(axis=0))
        # equal values differ from their mean by rounding, which is no scale to divide by
        scale = np.where(scale > 1e-13 * np.abs(X).max(axis=0), scale, 1.0)
        return AffineFrame(X.mean(axis=0) if self.fit_intercept else np.zeros(p), scale, self.fit_intercept)

    def _squared_scale(self, frame, model):
        """What the ridge of each parameter is divided by, so that it stays one on the user's coefficients."""
        if not isinstance(model, LinearModel):
            return 1.0
        columns = np.append(frame.scale, 1.0) if self.fit_intercept else frame.scale
        return np.tile(columns**2, model.n_parameters // model.n_columns)

    # the private fit

    def _store(self, *released):
        for name in EXACT_ONLY:  # an earlier exact fit's figures must not stand beside a claim of privacy
            self.__dict__.pop(name, None)
        super()._store(*released)

    def _design(self, facts):
        self._check_solver()
        batches = self._batches()
        budget = Budget(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=ADJACENCIES[self.adjacency],
            aggregation=AGGREGATIONS[self.aggregation],
            accountant=FULL_BATCH.get(self.accountant),
            budget=self.budget,
            batches=batches,
        )
        solver = "dpgd" if self.solver == "auto" else self.solver
        model = self._model(facts.n_classes, facts.n_features)
        descent = Descent(
            n_rounds=self.n_rounds,
            **self._step(solver, model),
            clip_norm=self.clip_norm,
            momentum=self.momentum,
            ridge=self.reg,
            refresh_every=self.refresh_every,
            difference_noise_ratio=self.difference_noise_ratio,
            difference_slope=self.difference_slope,
            **self._descent_settings(),
        )
        public = Facts(model, facts.n_classes, self._start(model), facts.n_records, facts.alpha, facts.noise)
        design = self._designs[solver](budget, descent, self._ambiguity(), public)
        if design.caution is not None:
            warnings.warn(design.caution, NoiseFeedbackWarning, stacklevel=5)
        return design

    def _step(self, solver, model):
        """Step where the noise is small, and the noise that shortens it."""
        if self.step_size != "auto":
            return {"step": self.step_size}
        linear, network = self._ways[solver]
        way = linear if isinstance(model, LinearModel) else network
        return {"step": way.length / (self.clip_norm * self.n_rounds), "knee": way.knee}

    def _declared(self):
        """Weights that a network was given beforehand must be public, and the report says so."""
        return super()._declared() if self.network is None else [*super()._declared(), "network and its start"]

    def _descent_settings(self):
        """Settings of the descent that only some classes have."""
        return {}

    def _shape(self, facts):
        return (self._model(facts.n_classes, facts.n_features).n_parameters,)

    def _linear(self, frame, model):
        """Fitted attributes from a parameter vector in the coordinates of `frame`."""
        settings = self._model(len(self.classes_), self.n_features_in_)
        fitted = {"_fitted_model": settings, "_fitted_parameters": model, "_fitted_frame": frame}
        self.__dict__.pop("coef_", None)
        self.__dict__.pop("intercept_", None)
        if isinstance(settings, LinearModel):
            fitted["coef_"], fitted["intercept_"] = frame.leave(settings.matrix(model))
        return fitted
