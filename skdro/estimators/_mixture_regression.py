"""What the regressors for an unknown mixture share: the problem in moments, both solvers, the attributes."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning

from ..ambiguity.mixture import MixtureBall
from ..ambiguity.penalised import Box
from ..ambiguity.robust_squares import Squares, penalised_risk, radius_risk
from ..federation.client_data import prepare
from ..federation.frames import AffineFrame, ResponseFrame, common_response_frame
from ..federation.local_risks import Ascent, Roots
from ..solvers.mixture_conic import solve_penalised_squares, solve_radius_squares
from ._base import LinearRegressor, StrOptions
from ._mixture import MixtureMixin

__all__ = ["PENALTY", "RADIUS", "MixtureRegressor", "inner_maximisation"]


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
    def fit(self, X, y, groups=None):
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
        clients, index = self._clients(groups, len(rows))
        ball = self._ball(clients, np.bincount(index))
        radius, penalty = self._radii(clients), self._penalties(clients)
        frame = self._frame(rows, responses, index, ball.nominal)
        block = prepare(rows, frame.enter_response(responses), index, clients, frame.affine)
        label = frame.label if self._labels_move() else 0.0
        squares = Squares.of(
            [(block.X[block.rows(g)], block.y[block.rows(g)]) for g in range(len(clients))], rows.shape[1], label
        )
        if penalty is None:
            problem = Regression(squares, RADIUS, radius / frame.affine.scale, ball)
        else:
            problem = Regression(squares, PENALTY, penalty * frame.label**2, ball)
        data = {"X": X, "y": y, "metadata": None}
        if self.solver == "conic":
            self._check_conic(penalty)
            fitted = self._solve_at_once(problem.solve, lambda model: self._linear(frame, model), data)
            risks = problem.risks(fitted.model)
            fitted = replace(fitted, history={"objective": np.array([ball.value(risks)])})
        else:
            risk = self._local_risk(problem, rows, responses, frame, radius)
            block = replace(block, settings={"radius": problem.level, "penalty": problem.level})
            fitted = self._descend(
                risk, block, ball, 1, lambda model: self._linear(frame, model), monitor=True, data=data
            )
            risks = risk.bound(risk.prepare(block), block, fitted.model)
            self._add_metric(fitted.history, problem)
        self._warn_of_small_penalty(problem, fitted.model, penalty, clients, frame.label)
        self._store(frame, clients, fitted, risks, radius, penalty, ball)
        return self

    def _frame(self, rows, responses, index, alpha):
        """Standardised coordinates, or the user's own where step sizes are given in them."""
        if self.solver == "descent_ascent" and self.step_size != "auto":
            own = AffineFrame(np.zeros(rows.shape[1]), 1.0, self.fit_intercept)
            return ResponseFrame(own, 0.0, 1.0)
        return common_response_frame(rows, responses, index, alpha, self.fit_intercept)

    def _add_metric(self, history, problem):
        """Distance of the objective from the exact minimax value, if there is an exact solver of this form."""
        if self._has_reference(problem):
            history["metric"] = history["objective"] - problem.ball.value(problem.risks(problem.solve().model[None]))

    def _store(self, frame, clients, fitted, risks, radius, penalty, ball):
        for name, value in self._linear(frame, fitted.model).items():
            setattr(self, name, value)
        unit = frame.scale**2  # of squared residuals
        self.clients_ = clients
        self.mixture_weights_ = fitted.alpha
        self.client_risks_ = unit * risks
        spent = 0.0 if penalty is None else penalty * radius**2
        self.certificate_ = float(ball.value(self.client_risks_ + spent))
        self.history_ = {
            name: values if name == "mixture_weights" else unit * values for name, values in fitted.history.items()
        }
        self.n_iter_ = len(fitted.history["objective"])

    def _linear(self, frame, model):
        coef, intercept = frame.leave(model)
        return {"coef_": coef[0], "intercept_": float(intercept[0])}

    def _warn_of_small_penalty(self, problem, model, penalty, clients, label):
        if penalty is None:
            return
        plain = problem.squares.least_squares(problem.ball.nominal)
        stretch = max(problem.squares.stretch(model[0]), problem.squares.stretch(plain))
        small = problem.level <= stretch
        if np.any(small):
            warnings.warn(
                f"penalty is too small for client(s) {clients[small][:5].tolist()}: records gain without limit by "
                f"moving unless penalty > ||v||^2, which is {stretch / label**2:.4g} at the fitted or at the least "
                "squares model, so the penalised problem excludes such models. Raise penalty, or use the radius form "
                "(penalty=None, radius=...), which excludes none.",
                ConvergenceWarning,
                stacklevel=4,
            )


def inner_maximisation(estimator, rows, responses, frame):
    """How nature moves a record, in frame coordinates, by the parameters of the penalised descent."""
    box = _box(estimator.support, estimator.perturb_labels, rows, responses, frame)
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


def _box(support, labels_move, rows, responses, frame):
    records = np.c_[rows, responses]
    shape = records.shape[1:]
    if support is None:
        lo, hi = np.full(shape, -np.inf), np.full(shape, np.inf)
    else:
        try:
            lo, hi = (np.broadcast_to(np.asarray(bound, dtype=float), shape) for bound in support)
        except (TypeError, ValueError):
            raise ValueError(
                f"support must be (lo, hi): two numbers, or two arrays of shape {shape}, the response last."
            ) from None
        if not np.all(lo < hi) or np.any(records < lo) or np.any(records > hi):
            raise ValueError("support must have lo < hi and contain all records (the response last).")
    centre = np.append(frame.affine.centre, frame.centre)
    kept = len(centre) if labels_move else len(centre) - 1
    scale = frame.affine.scale  # of both: a response's coordinate is y in the metric of the rows
    return Box(((lo - centre) / scale)[:kept], ((hi - centre) / scale)[:kept])
