"""What the exact federated classifiers share: parameters, the consensus rounds, the best model of all of them.

A subclass says which robust problems the rounds solve (one, or one a class) and how their models become one.
"""

import warnings
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning

from ..ambiguity.constant_model import Settled, settle, weighted_risk
from ..ambiguity.transport import TRANSPORT_NORMS
from ..exceptions import ConstantModelWarning
from ..federation.client_data import ClientBlock, prepare
from ..federation.clients import client_weights, per_client
from ..federation.frames import common_frame
from ..federation.merging import merge_duplicate_rows
from ..federation.steps.consensus import ConsensusADMM, ServerState
from ..solvers import bundle, conic
from ._base import (
    REMEDY,
    FederatedMixin,
    Interval,
    LinearClassifier,
    StrOptions,
    check_ball,
    checked_sample_weight,
)

__all__ = ["ConsensusClassifier", "Outcome"]

INITIAL_RHO = 0.1  # for rows of unit mean square; the balance moves it from there
CLIENT_TOL = 1e-7  # certified gap of a client's problem


def _bundle(problem, centre, rho, cuts):
    solution = bundle.solve_prox(problem, centre, rho, cuts, tol=CLIENT_TOL)
    return solution.M, solution.state


def _conic(problem, centre, rho, _):
    return conic.solve_prox(problem, centre, rho).M, None


SOLVERS = {"bundle": _bundle, "conic": _conic}


@dataclass(frozen=True)
class Outcome:
    """What the rounds made of one robust problem.

    Parameters
    ----------
    server : ServerState
        After the problem's last round.
    settled : Settled
        The best model of all rounds, or the constant one.
    last_risk : float
        Robust risk of the consensus model after the last round.
    converged : bool
    """

    server: ServerState
    settled: Settled
    last_risk: float
    converged: bool

    @classmethod
    def of(cls, admm: ConsensusADMM, block: ClientBlock, server: ServerState) -> "Outcome":
        """The outcome on a block of all clients."""
        problems = [admm.risk(block, g) for g in range(block.n_clients)]
        last_risk = weighted_risk(problems, admm.alpha, server.model)
        best = server.model if last_risk <= server.best_objective else server.best_model
        return cls(server, settle(problems, admm.alpha, best), last_risk, admm.finished(server))


class ConsensusClassifier(FederatedMixin, LinearClassifier):
    """Base of the exact federated classifiers.

    A subclass supplies `_algorithm(admm, n_columns)`, `_problems(algorithm, block, server)`, `_linear(frame,
    models)`, `_summary(history, outcomes)`, `_constant(outcomes)` (what to say of constant models, if any) and
    `_whose(unfinished)` (which problems a warning is about).
    """

    _parameter_constraints: ClassVar[dict] = {
        "radius": [Interval(Real, 0, None, closed="left"), "array-like", dict],
        "kappa": [Interval(Real, 0, None, closed="right"), "array-like", dict],  # inf: labels are trusted
        "norm": [StrOptions(set(TRANSPORT_NORMS))],
        "client_weights": [StrOptions({"uniform", "size"}), "array-like", dict],
        "rho": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "solver": [StrOptions(set(SOLVERS))],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        radius=0.01,
        kappa=1.0,
        norm="linf",
        *,
        client_weights="uniform",
        rho="auto",
        n_rounds=500,
        tol=1e-3,
        fit_intercept=True,
        solver="bundle",
        n_jobs=None,
    ):
        self.radius = radius
        self.kappa = kappa
        self.norm = norm
        self.client_weights = client_weights
        self.rho = rho
        self.n_rounds = n_rounds
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X, y, groups=None, sample_weight=None):
        """Fit the model to the records of all clients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels; a client may lack classes, have one row or one class.
        groups : array-like of shape (n_samples,), default=None
            Client label of each row, of one orderable scalar type.  None: all rows are one client.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each record within its client, >= 0.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            A parameter or an input is invalid; the message names it.
        """
        self._validate_params()
        rows, codes = self._validated(X, y)
        weight = checked_sample_weight(sample_weight, len(rows))
        clients, index = self._clients(groups, len(rows))
        block, frame, alpha = self._federation(rows, codes, clients, index, weight)
        algorithm, shape = self._algorithm(self._admm(frame, alpha), block.X.shape[1])
        result = self._run(
            algorithm,
            block,
            shape,
            lambda server: self._linear(
                frame, np.stack([state.model for _, _, state in self._problems(algorithm, block, server)])
            ),
            X=X,  # as the user gave it, with its column names
            y=y,
            metadata=None if sample_weight is None else {"sample_weight": weight},
        )
        outcomes = [Outcome.of(*problem) for problem in self._problems(algorithm, block, result.server)]
        constant = self._constant(outcomes)
        if constant:
            warnings.warn(f"{constant} {REMEDY}", ConstantModelWarning, stacklevel=3)
        self._store(frame, block, outcomes, result.history)
        unfinished = [k for k, outcome in enumerate(outcomes) if not outcome.converged]
        if self.tol > 0 and self.n_iter_ == self.n_rounds and unfinished:
            primal, dual = (max(getattr(outcomes[k].server, name) for k in unfinished) for name in ("primal", "dual"))
            warnings.warn(
                f"{type(self).__name__} used all n_rounds={self.n_rounds} rounds before the residuals"
                f"{self._whose(unfinished)} met tol={self.tol:g} (primal {primal:.2g}, dual {dual:.2g}); raise "
                "n_rounds or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _federation(self, X, codes, clients, index, weight):
        """Block of all clients with their radii and flip costs in frame coordinates, the frame, the weights."""
        settings = {name: per_client(getattr(self, name), clients, name) for name in ("radius", "kappa")}
        check_ball(**settings)
        sizes = np.bincount(index, weights=weight, minlength=len(clients))
        if sizes.sum() <= 0:
            raise ValueError("sample_weight is zero for all records.")
        alpha = client_weights(self.client_weights, clients, sizes)
        present = sizes > 0
        if alpha[present].sum() <= 0:
            raise ValueError("client_weights are zero for all clients that have records of positive sample_weight.")
        alpha = alpha[present] / alpha[present].sum()
        X, codes, index, weight = merge_duplicate_rows(X, codes, (np.cumsum(present) - 1)[index], weight)
        frame = common_frame(X, index, weight, alpha, self.fit_intercept)
        block = prepare(X, codes, index, clients[present], frame, weight)
        scaled = {name: value[present] / frame.scale for name, value in settings.items()}
        return replace(block, settings=scaled), frame, alpha

    def _admm(self, frame, alpha):
        """Settings of the rounds for a problem with all classes."""
        auto = self.rho == "auto"
        return ConsensusADMM(
            norm=TRANSPORT_NORMS[self.norm],
            n_classes=len(self.classes_),
            n_features=self.n_features_in_,
            alpha=alpha,
            solve=SOLVERS[self.solver],
            rho=INITIAL_RHO if auto else self.rho / frame.scale**2,
            adapt_until=(3 * self.n_rounds) // 4 if auto else 0,
            tol=self.tol,
        )

    def _store(self, frame, block, outcomes, history):
        models = np.stack([outcome.settled.model for outcome in outcomes])
        for name, value in self._linear(frame, models).items():
            setattr(self, name, value)
        self.clients_ = block.clients
        local = np.stack([outcome.server.local for outcome in outcomes], axis=1)
        self.client_coef_ = self._linear(frame, local)["coef_"]
        self.n_iter_ = len(history["objective"])
        # the risk of a round's model is known when the next round has begun; a finished problem keeps its last
        objective = np.roll(history["objective"].reshape(self.n_iter_, -1), -1, axis=0)
        for k, outcome in enumerate(outcomes):
            objective[outcome.server.round - 1 :, k] = outcome.last_risk
        history["objective"] = objective.sum(axis=1)
        for name, value in self._summary(history, outcomes).items():
            setattr(self, name, value)
