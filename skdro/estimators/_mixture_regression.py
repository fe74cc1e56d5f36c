"""What the regressors for an unknown mixture share: the problem in moments, both solvers, the attributes."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning

from ..ambiguity.mixture import MixtureBall
from ..ambiguity.penalised import Box
from ..ambiguity.robust_squares import Squares, penalised_risk, radius_risk, stretch
from ..federation.agreement import Records
from ..federation.frames import AffineFrame, ResponseFrame, client_moments, response_frame_of_moments
from ..federation.local_risks import Ascent, Roots
from ..solvers.mixture_conic import solve_penalised_squares, solve_radius_squares
from ._base import LinearRegressor, StrOptions
from ._between_sites import Rounds
from ._mixture import Guard, MixtureMixin

__all__ = ["RADIUS", "MixtureRegressor", "check_support", "inner_maximisation"]


@dataclass(frozen=True)
class Form:
    """A way to say how far nature may go: what solves it exactly, and a client's risk from its moments."""

    solve: Callable
    risk: Callable


RADIUS = Form(solve_radius_squares, radius_risk)
PENALTY = Form(solve_penalised_squares, penalised_risk)


@dataclass(frozen=True)
class Regression:
    """One fit in frame coordinates: the moments, the form, its level (radius or penalty) for each client."""

    squares: Squares
    form: Form
    level: np.ndarray
    ball: MixtureBall

    def risks(self, model):
        """F_i of models of shape (..., 1, n_columns)."""
        theta = model[..., 0, :]
        return self.form.risk(self.squares.mean_squares(theta), self.squares.stretch(theta)[..., None], self.level)

    def solve(self):
        """The saddle point."""
        return self.form.solve(self.squares, self.level, self.ball)


class MixtureRegressor(MixtureMixin, LinearRegressor):
    """Base of the two regressors; a subclass says how radii, penalties and the inner problem are set."""

    _parameter_constraints: ClassVar[dict] = {
        **MixtureMixin._parameter_constraints,
        "solver": [StrOptions({"conic", "descent_ascent"})],
    }

    @with_callbacks
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit the model to the records of all clients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Responses.
        groups : array-like of shape (n_samples,), default=None
            Client label of each row, of one orderable scalar type.  None: all rows are one client.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            A parameter or an input is invalid, or the combination of form and solver does not exist; the message
            names it.
        """
        self._validate_params()
        rows, responses = self._validated(X, y)
        self._check_records(rows, responses)
        clients, index = self._clients(groups, len(rows))
        records = Records(rows, responses, index)
        federation = self._federation(self._terms(clients, self._facts(records, len(clients))))
        block, data = federation.block(records), {"X": X, "y": y, "metadata": None}
        problem = self._regression(federation, block)
        if self._in_rounds():
            rounds = self._descend(federation, block, data)
            self._add_metric(rounds.history, problem)
        else:
            fitted = self._solve_at_once(problem.solve, federation, data)
            answers = [{"risk": risk} for risk in problem.risks(fitted.model)]
            rounds = Rounds(fitted, {}, answers, range(len(clients)))
        self._conclude(federation, rounds, plain=problem.squares.least_squares(federation.facts.ball.nominal))
        return self

    def _records_of_site(self, X, y):
        """Rows and responses of one client."""
        rows, responses = self._validated_at_site(X, y)
        self._check_records(rows, responses)
        return Records(rows, responses, np.zeros(len(rows), dtype=int))

    def _check_records(self, rows, responses):
        """ValueError if these parameters do not allow for such records."""

    def _facts(self, records, n_clients=1):
        """As for all; the responses have moments of their own."""
        facts = super()._facts(records, n_clients)
        if self._own_coordinates():
            return facts
        ones = np.ones(len(records.y))
        responses = client_moments(np.asarray(records.y, dtype=float)[:, None], records.index, ones, n_clients)
        return {**facts, **{f"response_{name}": responses[name] for name in ("mean", "deviation")}}

    def _coordinates(self, facts, nominal):
        """Standardised coordinates, or the user's own where step sizes are given in them."""
        own = AffineFrame(np.zeros(self.n_features_in_), 1.0, self.fit_intercept)
        frame = ResponseFrame(own, 0.0, 1.0)
        if not self._own_coordinates():
            responses = {name: facts[f"response_{name}"] for name in ("mean", "deviation")}
            frame = response_frame_of_moments(facts, responses, nominal, self.fit_intercept)
        return {
            "centre": frame.affine.centre,
            "scale": np.asarray(frame.affine.scale),
            "response": np.array([frame.centre, frame.scale]),
        }

    def _frame(self, terms):
        affine = AffineFrame(terms["centre"], float(terms["scale"]), self.fit_intercept)
        centre, scale = terms["response"]
        return ResponseFrame(affine, float(centre), float(scale))

    def _label(self, frame):
        """What a unit of response is in the metric of the rows; 0 if responses are trusted."""
        return frame.label if self._labels_move() else 0.0

    def _scaled(self, frame, clients, radius, penalty):
        """Level of the form, radius or penalty, in frame coordinates."""
        level = radius / frame.affine.scale if penalty is None else penalty * frame.label**2
        return {"radius": level, "penalty": level}

    def _n_outputs(self):
        return 1

    def _guard(self, frame, clients, ball):
        radius, penalty = self._radii(clients), self._penalties(clients)
        if self._in_rounds():
            return Guard(ball, radius, penalty, self._local_risk(frame, radius, penalty))
        self._check_conic(penalty)
        return Guard(ball, radius, penalty, None)

    def _monitored(self, guard):
        return True

    def _regression(self, federation, block):
        """The problem by the moments of all clients' records."""
        rows = [(block.X[block.rows(g)], block.y[block.rows(g)]) for g in range(block.n_clients)]
        squares = Squares.of(rows, self.n_features_in_, self._label(federation.frame))
        guard = federation.facts
        form = RADIUS if guard.penalty is None else PENALTY
        return Regression(squares, form, federation.settings["penalty"], guard.ball)

    def _add_metric(self, history, problem):
        """Distance of the objective from the exact minimax value, if there is an exact solver of this form."""
        if self._has_reference(problem):
            history["metric"] = history["objective"] - problem.ball.value(problem.risks(problem.solve().model[None]))

    def _finish(self, federation, fitted, risks, rounds, plain=None):
        """Store the model; `plain`, if known, is the model of least squares."""
        guard, frame = federation.facts, federation.frame
        models = [fitted.model[0]] if plain is None else [fitted.model[0], plain]
        self._warn_of_small_penalty(federation, models)
        for name, value in self._linear(frame, fitted.model).items():
            setattr(self, name, value)
        unit = frame.scale**2  # of squared residuals
        history = fitted.history or {"objective": np.array([guard.ball.value(risks)])}
        self.clients_ = federation.clients
        self.mixture_weights_ = fitted.alpha
        self.client_risks_ = unit * risks
        self.certificate_ = guard.certificate(self.client_risks_)
        self.history_ = {
            name: values if name == "mixture_weights" else unit * values for name, values in history.items()
        }
        self.n_iter_ = len(history["objective"])

    def _linear(self, frame, model):
        coef, intercept = frame.leave(model)
        return {"coef_": coef[0], "intercept_": float(intercept[0])}

    def _warn_of_small_penalty(self, federation, models):
        guard, label = federation.facts, federation.frame.label
        if guard.penalty is None:
            return
        longest = max(stretch(model, self.n_features_in_, self._label(federation.frame)) for model in models)
        small = federation.settings["penalty"] <= longest
        if np.any(small):
            warnings.warn(
                f"penalty is too small for client(s) {federation.clients[small][:5].tolist()}: records gain without "
                f"limit by moving unless penalty > ||v||^2, which is {longest / label**2:.4g} at the fitted or at "
                "the least squares model, so the penalised problem excludes such models. Raise penalty, or use the "
                "radius form (penalty=None, radius=...), which excludes none.",
                ConvergenceWarning,
                stacklevel=6,
            )


def inner_maximisation(estimator, frame):
    """How nature moves a record, in frame coordinates, by the parameters of the penalised descent."""
    box = _box(estimator, frame)
    if estimator.inner_solver == "exact":
        if not box.bounded:
            raise ValueError(
                "inner_solver='exact' needs a bounded support=(lo, hi): without one the supremum is infinite "
                "wherever penalty < ||v||^2, which the descent may cross. Give support, or use "
                "inner_solver='ascent' or solver='conic'."
            )
        return Roots(box)
    step = None if estimator.inner_step_size == "auto" else estimator.inner_step_size / frame.label**2
    return Ascent(box, estimator.n_inner_steps, step, estimator.perturbation / frame.affine.scale)


def support_bounds(support, n_features):
    """Least and largest features and response that nature may move a record to; ValueError if `support` is none."""
    shape = (n_features + 1,)
    if support is None:
        return np.full(shape, -np.inf), np.full(shape, np.inf)
    try:
        lo, hi = (np.broadcast_to(np.asarray(bound, dtype=float), shape) for bound in support)
    except (TypeError, ValueError):
        raise ValueError(
            f"support must be (lo, hi): two numbers, or two arrays of shape {shape}, the response last."
        ) from None
    return lo, hi


def check_support(support, rows, responses):
    """ValueError unless `support` contains all records."""
    lo, hi = support_bounds(support, rows.shape[1])
    records = np.c_[rows, responses]
    if not np.all(lo < hi) or np.any(records < lo) or np.any(records > hi):
        raise ValueError("support must have lo < hi and contain all records (the response last).")


def _box(estimator, frame):
    lo, hi = support_bounds(estimator.support, len(frame.affine.centre))
    centre = np.append(frame.affine.centre, frame.centre)
    kept = len(centre) if estimator.perturb_labels else len(centre) - 1
    scale = frame.affine.scale  # of both: a response's coordinate is y in the metric of the rows
    return Box(((lo - centre) / scale)[:kept], ((hi - centre) / scale)[:kept])
