"""What the classifiers for an unknown mixture share: the problem by clients, both solvers, the attributes."""

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning

from ..ambiguity.constant_model import UNDECIDED_MARGIN, WORTH_A_MODEL, common_label, constant_risks
from ..ambiguity.mixture import MixtureBall
from ..ambiguity.transport import TRANSPORT_NORMS
from ..exceptions import ConstantModelWarning
from ..federation.agreement import Records
from ..federation.client_data import client_risk
from ..federation.clients import per_client
from ..federation.frames import AffineFrame, frame_of_moments
from ..federation.local_risks import MarginsRisk, RecordsRisk, UnmovedRecords
from ..losses import crammer_singer, softmax
from ..solvers.bundle_mixture import solve_mixture
from ..solvers.mixture_conic import SaddlePoint, solve_margins
from ._base import CONSTANT_MODEL, REMEDY, LinearClassifier, StrOptions, binary_row, check_ball
from ._between_sites import Rounds
from ._mixture import Guard, MixtureMixin

__all__ = ["LOSSES", "MixtureClassifier"]

LOSSES = {"crammer_singer": crammer_singer, "softmax": softmax}
NO_MODEL = (
    "The model gives every training record the same label: for the worst mixture of the clients the features tell "
    "nothing. Give mixture_radius < 1, or look at client_risks_ for the client that decides."
)
SOLVERS = {"crammer_singer": "conic", "softmax": "descent_ascent"}  # of solver="auto"


def _bundle(problems, ball):
    """The same saddle point by cutting planes, with a certified gap."""
    solution = solve_mixture(problems, ball.nominal, float(ball.radius))
    if not solution.converged:
        warnings.warn(
            f"The bundle stopped after {solution.n_iter} evaluations with a certified gap of "
            f"{solution.upper - solution.lower:.2g}; raise the radius, or use solver='conic'.",
            ConvergenceWarning,
            stacklevel=6,
        )
    return SaddlePoint(solution.M, solution.mixture)


AT_ONCE = {"conic": solve_margins, "bundle": _bundle}


class MixtureClassifier(MixtureMixin, LinearClassifier):
    """Base of the two classifiers; a subclass has `radius`, `penalty`, `kappa`, `norm` and says how records move."""

    _parameter_constraints: ClassVar[dict] = {
        **MixtureMixin._parameter_constraints,
        "loss": [StrOptions(set(LOSSES))],
        "solver": [StrOptions({"auto", *AT_ONCE, "descent_ascent"})],
    }

    @with_callbacks
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit the model to the records of all clients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels; a client may lack classes, have one row or one class.
        groups : array-like of shape (n_samples,), default=None
            Client label of each row, of one orderable scalar type.  None: all rows are one client.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            A parameter or an input is invalid, or the combination of loss, form and solver does not exist; the
            message names it.
        """
        self._validate_params()
        rows, codes = self._validated(X, y)
        clients, index = self._clients(groups, len(rows))
        records = Records(rows, codes, index)
        federation = self._federation(self._terms(clients, self._facts(records, len(clients))))
        block, data = federation.block(records), {"X": X, "y": y, "metadata": None}
        solve = self._descend if self._in_rounds() else self._exactly
        self._conclude(federation, solve(federation, block, data))
        return self

    def _exactly(self, federation, block, data):
        """The saddle point of the exact solver, and what the clients say of it."""
        problems = [self._problem(block, g) for g in range(block.n_clients)]
        solve = AT_ONCE[self._solver()]
        fitted = self._solve_at_once(lambda: solve(problems, federation.facts.ball), federation, data)
        answers = self._answers(federation, block, {"model": fitted.model})
        return Rounds(fitted, {}, answers, range(block.n_clients))

    def _solver(self):
        return SOLVERS[self.loss] if self.solver == "auto" else self.solver

    def _records_of_site(self, X, y):
        """Rows of one client; classes are those agreed on, or those that occur."""
        rows, codes = self._validated_at_site(X, y)
        return Records(rows, codes, np.zeros(len(rows), dtype=int))

    def _coordinates(self, facts, nominal):
        """Standardised coordinates, or the user's own where step sizes are given in them."""
        if self._own_coordinates():
            return {"centre": np.zeros(self.n_features_in_), "scale": np.asarray(1.0)}
        frame = frame_of_moments(facts["mean"], facts["deviation"], nominal, self.fit_intercept)
        return {"centre": frame.centre, "scale": np.asarray(frame.scale)}

    def _frame(self, terms):
        return AffineFrame(terms["centre"], float(terms["scale"]), self.fit_intercept)

    def _scaled(self, frame, clients, radius, penalty):
        """Radii, flip costs and penalties in frame coordinates."""
        kappa = per_client(self.kappa, clients, "kappa")
        check_ball(radius, kappa)
        return {
            "radius": radius / frame.scale,
            "kappa": kappa / frame.scale,
            "penalty": np.ones(len(clients)) if penalty is None else penalty * frame.scale**2,
        }

    def _n_outputs(self):
        return len(self.classes_)

    def _problem(self, block, g):
        return client_risk(block, g, TRANSPORT_NORMS[self.norm], len(self.classes_), self.n_features_in_)

    def _guard(self, frame, clients, ball):
        radius, penalty = self._radii(clients), self._penalties(clients)
        self._check_combination(self._solver(), radius, penalty)
        return Guard(ball, radius, penalty, self._local_risk(frame, radius, penalty))

    def _local_risk(self, frame, radius, penalty):
        """F_i as the clients of the rounds answer it; also the client risks of the fitted model."""
        if penalty is not None:
            return RecordsRisk(self._moved_records(frame), self.batch_size)
        if np.all(radius == 0):
            return RecordsRisk(UnmovedRecords(LOSSES[self.loss]), self.batch_size)
        return MarginsRisk(TRANSPORT_NORMS[self.norm], len(self.classes_), self.n_features_in_)

    def _monitored(self, guard):
        """The bound of a penalised softmax takes an ascent of its own on all rows, too much for each round."""
        return guard.penalty is None

    def _answers(self, federation, block, question):
        """Risk of each client, and what tells a model that decides nothing: the label of all rows, class shares."""
        answers = super()._answers(federation, block, question)
        for g, answer in enumerate(answers):
            rows = block.rows(g)
            answer["label"] = common_label(block.X[rows], question["model"])
            if self.loss == "crammer_singer":
                weight = block.weight[rows]
                answer["shares"] = np.bincount(block.y[rows], weights=weight, minlength=len(self.classes_))
        return answers

    def _finish(self, federation, fitted, risks, rounds):
        """Store the model; undecided, it predicts the most frequent class instead of what rounding says."""
        guard, answered = federation.facts, list(rounds.answered)
        labels = {int(answer["label"]) for answer in rounds.answers}
        constant = len(labels) == 1 and labels != {-1}
        nominal = guard.ball.nominal[answered]
        heard = MixtureBall(nominal / nominal.sum(), guard.ball.radius)
        undecided = self.loss == "crammer_singer" and heard.value(risks[answered]) >= 1 - WORTH_A_MODEL
        if undecided and self.fit_intercept:
            shares = np.array([answer["shares"] for answer in rounds.answers])
            label, model = (heard.nominal @ shares).argmax(), np.zeros_like(fitted.model)
            model[label, -1] = UNDECIDED_MARGIN
            fitted, constant = replace(fitted, model=model), True
            radius, kappa = (federation.settings[name][answered] for name in ("radius", "kappa"))
            risks[answered] = constant_risks(shares[:, label], UNDECIDED_MARGIN, radius, kappa)
        if constant:
            message = f"{CONSTANT_MODEL} {REMEDY}" if np.any(guard.radius > 0) else NO_MODEL
            warnings.warn(message, ConstantModelWarning, stacklevel=5)
        self._store(federation, fitted, risks)

    def _store(self, federation, fitted, risks):
        for name, value in self._linear(federation.frame, fitted.model).items():
            setattr(self, name, value)
        guard = federation.facts
        self.clients_ = federation.clients
        self.mixture_weights_ = fitted.alpha
        self.client_risks_ = risks
        self.certificate_ = guard.certificate(risks)
        self.history_ = fitted.history or {"objective": np.array([guard.ball.value(risks)])}
        self.n_iter_ = len(next(iter(self.history_.values())))

    def _linear(self, frame, model):
        coef, intercept = binary_row(*frame.leave(model))
        return {"coef_": coef, "intercept_": intercept}
