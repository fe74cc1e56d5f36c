"""What the classifiers for an unknown mixture share: the problem by clients, both solvers, the attributes."""

import warnings
from dataclasses import replace
from typing import ClassVar

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning

from ..ambiguity.constant_model import UNDECIDED_MARGIN, WORTH_A_MODEL
from ..ambiguity.transport import TRANSPORT_NORMS
from ..exceptions import ConstantModelWarning
from ..federation.client_data import client_risk, prepare
from ..federation.clients import per_client
from ..federation.frames import AffineFrame, common_frame
from ..federation.local_risks import MarginsRisk, RecordsRisk, UnmovedRecords
from ..losses import crammer_singer, softmax
from ..solvers.bundle_mixture import solve_mixture
from ..solvers.mixture_conic import SaddlePoint, solve_margins
from ._base import CONSTANT_MODEL, REMEDY, LinearClassifier, StrOptions, binary_row, check_ball
from ._mixture import MixtureMixin

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
    def fit(self, X, y, groups=None):
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
        ball = self._ball(clients, np.bincount(index))
        radius, penalty = self._radii(clients), self._penalties(clients)
        solver = SOLVERS[self.loss] if self.solver == "auto" else self.solver
        self._check_combination(solver, radius, penalty)
        frame = self._frame(rows, index, ball.nominal, solver)
        block = self._block(rows, codes, index, clients, frame, radius, penalty)
        data = {"X": X, "y": y, "metadata": None}
        risk = self._local_risk(block, frame, radius, penalty)
        if solver in AT_ONCE:
            problems = [self._problem(block, g) for g in range(len(clients))]
            fitted = self._solve_at_once(
                lambda: AT_ONCE[solver](problems, ball), lambda model: self._linear(frame, model), data
            )
        else:
            fitted = self._descend(
                risk,
                block,
                ball,
                len(self.classes_),
                lambda model: self._linear(frame, model),
                monitor=penalty is None,
                data=data,
            )
        fitted, risks = self._settled(fitted, risk, block, ball)
        if solver in AT_ONCE:
            fitted = replace(fitted, history={"objective": np.array([ball.value(risks)])})
        self._store(frame, clients, fitted, risks, radius, penalty, ball)
        return self

    def _frame(self, rows, index, alpha, solver):
        """Standardised coordinates, or the user's own where step sizes are given in them."""
        if solver == "descent_ascent" and self.step_size != "auto":
            return AffineFrame(np.zeros(rows.shape[1]), 1.0, self.fit_intercept)
        return common_frame(rows, index, np.ones(len(rows)), alpha, self.fit_intercept)

    def _block(self, rows, codes, index, clients, frame, radius, penalty):
        """Rows by client with radii, flip costs and penalties in frame coordinates."""
        kappa = per_client(self.kappa, clients, "kappa")
        check_ball(radius, kappa)
        settings = {
            "radius": radius / frame.scale,
            "kappa": kappa / frame.scale,
            "penalty": np.ones(len(clients)) if penalty is None else penalty * frame.scale**2,
        }
        return replace(prepare(rows, codes, index, clients, frame), settings=settings)

    def _problem(self, block, g):
        return client_risk(block, g, TRANSPORT_NORMS[self.norm], len(self.classes_), self.n_features_in_)

    def _local_risk(self, block, frame, radius, penalty):
        """F_i as the clients of the rounds answer it; also the client risks of the fitted model."""
        if penalty is not None:
            return RecordsRisk(self._moved_records(frame), self.batch_size)
        if np.all(radius == 0):
            return RecordsRisk(UnmovedRecords(LOSSES[self.loss]), self.batch_size)
        return MarginsRisk(TRANSPORT_NORMS[self.norm], len(self.classes_), self.n_features_in_)

    def _settled(self, fitted, risk, block, ball):
        """The model with its risks; undecided, it predicts the most frequent class instead of what rounding says."""
        risks = risk.bound(risk.prepare(block), block, fitted.model)
        undecided = self.loss == "crammer_singer" and ball.value(risks) >= 1 - WORTH_A_MODEL
        if undecided and self.fit_intercept:
            shares = (
                np.array(
                    [
                        np.bincount(block.y[block.rows(g)], minlength=len(self.classes_))
                        for g in range(block.n_clients)
                    ]
                )
                / block.sizes[:, None]
            )
            model = np.zeros_like(fitted.model)
            model[(ball.nominal @ shares).argmax(), -1] = UNDECIDED_MARGIN
            fitted, risks = replace(fitted, model=model), risk.bound(risk.prepare(block), block, model)
        labels = (block.X @ fitted.model.T).argmax(axis=1)
        if np.all(labels == labels[0]):
            message = f"{CONSTANT_MODEL} {REMEDY}" if np.any(block.settings["radius"] > 0) else NO_MODEL
            warnings.warn(message, ConstantModelWarning, stacklevel=4)
        return fitted, risks

    def _store(self, frame, clients, fitted, risks, radius, penalty, ball):
        for name, value in self._linear(frame, fitted.model).items():
            setattr(self, name, value)
        self.clients_ = clients
        self.mixture_weights_ = fitted.alpha
        self.client_risks_ = risks
        self.certificate_ = float(ball.value(risks + (0.0 if penalty is None else penalty * radius**2)))
        self.history_ = fitted.history
        self.n_iter_ = len(next(iter(fitted.history.values())))

    def _linear(self, frame, model):
        coef, intercept = binary_row(*frame.leave(model))
        return {"coef_": coef, "intercept_": intercept}
