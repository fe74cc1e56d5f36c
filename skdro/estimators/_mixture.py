"""What the mixture estimators share: the set of mixtures, per-client radii and penalties, the two ways to solve.

A fit with all records at hand and a fit between sites take the same steps (`_between_sites`); only an exact solver
needs the records of all clients in one place.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ..ambiguity.mixture import MixtureBall
from ..federation.agreement import Federation
from ..federation.clients import client_weights, per_client
from ..federation.frames import client_moments
from ..federation.local_risks import LocalRisk
from ..federation.steps.descent_ascent import DescentAscent
from ._base import FederatedMixin, Interval, StrOptions
from ._between_sites import Rounds

__all__ = ["Fitted", "Guard", "MixtureMixin"]

MIXTURES = {"fixed": 0.0, "simplex": 1.0}  # share of the population that nature may move between clients


@dataclass(frozen=True)
class Guard:
    """What a fit guards against, in the units of the data.

    Parameters
    ----------
    ball : MixtureBall
    radius : ndarray of shape (n_clients,)
    penalty : ndarray of shape (n_clients,) or None
        None in the radius form.
    risk : LocalRisk or None
        F_i in frame coordinates; None where an exact solver has it in a form of its own.
    """

    ball: MixtureBall
    radius: np.ndarray
    penalty: np.ndarray | None
    risk: LocalRisk | None

    def certificate(self, risks: np.ndarray) -> float:
        """Worst mixture of the clients' risks, with what the radii cost where moves have a price."""
        spent = 0.0 if self.penalty is None else self.penalty * self.radius**2
        return float(self.ball.value(risks + spent))


@dataclass(frozen=True)
class Fitted:
    """What a solver hands to the estimator, in frame coordinates.

    Parameters
    ----------
    model : ndarray of shape (n_outputs, n_columns)
    alpha : ndarray of shape (n_clients,)
    history : dict of str to ndarray
        Empty if there were no rounds.
    """

    model: np.ndarray
    alpha: np.ndarray
    history: dict[str, np.ndarray]


class MixtureMixin(FederatedMixin):
    """Estimators that guard against an unknown mixture of their clients.

    A subclass supplies `_frame(terms)`, `_scaled(frame, clients, radius, penalty)` (the clients' numbers in frame
    coordinates), `_guard(frame, clients, ball)`, `_monitored(guard)`, `_linear(frame, model)`, `_n_outputs()` and
    `_finish(federation, fitted, risks, rounds)`.
    """

    _linear: Callable[..., Any]
    _init_callback_context: Callable[..., Any]  # scikit-learn's

    _parameter_constraints: ClassVar[dict] = {
        "mixture": [StrOptions(set(MIXTURES))],
        "mixture_radius": [None, Interval(Real, 0, 1, closed="both")],
        "client_weights": [StrOptions({"uniform", "size"}), "array-like", dict],
        "fit_intercept": ["boolean"],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "step_size": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "model_bound": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
    }

    def _check_between_sites(self):
        if self.solver != "descent_ascent":
            raise ValueError(
                f"solver={self.solver!r} needs the records of all clients in one place. Between sites set "
                "solver='descent_ascent', whose rounds leave the records where they are."
            )

    def _solver(self):
        """The solver that "auto" stands for."""
        return self.solver

    def _in_rounds(self):
        return self._solver() == "descent_ascent"

    def _own_coordinates(self):
        """Whether the rounds run in the user's coordinates, because the step size is given in them."""
        return self._in_rounds() and self.step_size != "auto"

    # ---- the seam: see `_between_sites`

    def _facts(self, records, n_clients=1):
        """Rows of each client; the moments that a common frame is made of, if there is one."""
        moments = client_moments(records.X, records.index, np.ones(len(records.X)), n_clients)
        return {"weight": moments["weight"]} if self._own_coordinates() else moments

    def _terms(self, clients, facts):
        """Nominal mixture and coordinates."""
        nominal = client_weights(self.client_weights, clients, facts["weight"])
        return {"clients": clients, "nominal": nominal, **self._coordinates(facts, nominal)}

    def _federation(self, terms):
        """Frame and algorithm; what the clients may choose by themselves is computed from the parameters."""
        clients, frame = terms["clients"], self._frame(terms)
        share = MIXTURES[self.mixture] if self.mixture_radius is None else self.mixture_radius
        guard = self._guard(frame, clients, MixtureBall(terms["nominal"], float(share)))
        return Federation(
            clients=clients,
            frame=frame,
            algorithm=self._descent(guard) if self._in_rounds() else None,
            shape=(self._n_outputs(), self.n_features_in_ + bool(self.fit_intercept)),
            settings=self._scaled(frame, clients, guard.radius, guard.penalty),
            facts=guard,
        )

    def _question(self, federation, server):
        """The model that the rounds return; each client says its risk."""
        return {"model": federation.algorithm.reported(server)[0]}

    def _answers(self, federation, block, question):
        """Local risk of each client."""
        risk = federation.facts.risk
        risks = risk.bound(risk.prepare(block), block, question["model"])
        return [{"risk": np.asarray(one)} for one in risks]

    def _conclude(self, federation, rounds, **exact):
        """Store what was found, and warn of what went wrong; `exact` is what is known with all records at hand."""
        fitted = rounds.server
        if federation.algorithm is not None:
            fitted = Fitted(*federation.algorithm.reported(rounds.server), rounds.history)
            self._warn_of_the_bound(fitted.model)
        self._finish(federation, fitted, self._known_risks(federation, rounds), rounds, **exact)

    def _warn_of_the_bound(self, model):
        if np.any(np.abs(model) >= self.model_bound):
            warnings.warn(
                f"{type(self).__name__}: coefficients ended at model_bound={self.model_bound:g}; the steps probably "
                "diverge. Lower step_size, raise penalty, scale the features, or raise model_bound if such models "
                "are wanted.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _known_risks(self, federation, rounds):
        """Risk of each client, in frame coordinates; nan and a warning for those that did not answer."""
        answered = list(rounds.answered)
        risks = np.full(len(federation.clients), np.nan)
        risks[answered] = [answer["risk"] for answer in rounds.answers]
        silent = np.setdiff1d(np.arange(len(risks)), answered)
        if len(silent):
            warnings.warn(
                f"Client(s) {federation.clients[silent][:5].tolist()} did not answer the last question: their "
                "client_risks_ are nan, and so is certificate_ unless the mixture leaves them out.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return risks

    # ---- parameters by client

    def _radii(self, clients):
        radius = per_client(self.radius, clients, "radius")
        if not np.all(np.isfinite(radius) & (radius >= 0)):
            raise ValueError("radius must be finite and >= 0 for each client.")
        return radius

    def _penalties(self, clients):
        """Price of a unit of squared distance at each client; None in the radius form."""
        if self.penalty is None:
            return None
        penalty = per_client(self.penalty, clients, "penalty")
        if not np.all(np.isfinite(penalty) & (penalty > 0)):
            raise ValueError("penalty must be finite and > 0 for each client.")
        return penalty

    def _check_batch(self, radius):
        """Mini-batches see means of records, and a Wasserstein ball couples the records of a client."""
        if self.batch_size is not None and np.any(radius > 0):
            raise ValueError(
                "batch_size is for penalty= (or radius=0): the worst case within a radius is no mean over records. "
                "Set batch_size=None, or give penalty."
            )

    # ---- the two ways to solve

    def _descent(self, guard):
        """The rounds of descent-ascent."""
        step = self.n_rounds**-0.5 if self.step_size == "auto" else float(self.step_size)  # Theorem 7's, or given
        return DescentAscent(
            risk=guard.risk,
            mixture=guard.ball,
            step=step,
            mixture_step=step,
            model_bound=float(self.model_bound),
            average=self.average,
            seed=int(check_random_state(self.random_state).randint(2**31)),
            monitor=self._monitored(guard),
        )

    def _descend(self, federation, block, data) -> Rounds:
        """All rounds in this process, and the last question."""
        algorithm = federation.algorithm
        run = self._run(
            algorithm,
            block,
            federation.shape,
            lambda server: self._linear(federation.frame, algorithm.reported(server)[0]),
            **data,
        )
        answers = self._answers(federation, block, self._question(federation, run.server))
        return Rounds(run.server, run.history, answers, range(block.n_clients))

    def _solve_at_once(self, solve, federation, data) -> Fitted:
        """The saddle point of an exact solver, under scikit-learn's callbacks as one task."""
        context = self._init_callback_context()
        context.call_on_fit_task_begin(estimator=self, **data)
        point = solve()
        model = np.atleast_2d(point.model)
        context.call_on_fit_task_end(
            estimator=self, reconstruction_attributes=lambda: self._linear(federation.frame, model), **data
        )
        return Fitted(model, point.alpha, {})
