"""What the exact federated classifiers share: parameters, the consensus rounds, the best model of all of them.

A subclass says which robust problems the rounds solve (one, or one a class) and how their models become one.
"""

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning

from ..ambiguity.transport import TRANSPORT_NORMS
from ..exceptions import ConstantModelWarning
from ..federation.agreement import Federation, Records
from ..federation.clients import client_weights, per_client
from ..federation.frames import AffineFrame, client_moments, frame_of_moments
from ..federation.merging import merge_duplicate_rows
from ..federation.steps.consensus import ConsensusADMM
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
from ._between_sites import Rounds
from ._outcome import Outcome, answer_on, appraisals, candidates

__all__ = ["ConsensusClassifier"]

INITIAL_RHO = 0.1  # for rows of unit mean square; the balance moves it from there
CLIENT_TOL = 1e-7  # certified gap of a client's problem


def _bundle(problem, centre, rho, cuts):
    solution = bundle.solve_prox(problem, centre, rho, cuts, tol=CLIENT_TOL)
    return solution.M, solution.state


def _conic(problem, centre, rho, _):
    return conic.solve_prox(problem, centre, rho).M, None


SOLVERS = {"bundle": _bundle, "conic": _conic}


class ConsensusClassifier(FederatedMixin, LinearClassifier):
    """Base of the exact federated classifiers.

    A subclass supplies `_algorithm(admm, n_columns)`, `_parts(algorithm)` (the consensus problems, each with the
    block that it makes of a block), `_states(server)` (the server's state of each), `_linear(frame, models)`,
    `_summary(history, outcomes)`, `_constant(outcomes)` (what to say of constant models, if any) and
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
    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
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
        records = Records(*merge_duplicate_rows(rows, codes, index, weight))
        federation = self._federation(self._terms(clients, self._facts(records, len(clients))))
        # clients without weight have no rows left
        block = federation.block(replace(records, index=np.unique(records.index, return_inverse=True)[1]))
        result = self._run(
            federation.algorithm,
            block,
            federation.shape,
            lambda server: self._linear(federation.frame, np.stack([state.model for state in self._states(server)])),
            X=X,  # as the user gave it, with its column names
            y=y,
            metadata=None if sample_weight is None else {"sample_weight": weight},
        )
        answers = self._answers(federation, block, self._question(federation, result.server))
        self._conclude(federation, Rounds(result.server, result.history, answers, range(block.n_clients)))
        return self

    def _records_of_site(self, X, y):
        """Rows of one client; classes are those agreed on, or those that occur."""
        rows, codes = self._validated_at_site(X, y)
        return Records(*merge_duplicate_rows(rows, codes, np.zeros(len(rows), dtype=int), np.ones(len(rows))))

    def _facts(self, records, n_clients=1):
        """Total weight and first two moments of each client's rows, from which a common frame is made."""
        return client_moments(records.X, records.index, records.weight, n_clients)

    def _terms(self, clients, facts):
        """Weights, radii and flip costs of the clients that have weight, and the common frame."""
        settings = {name: per_client(getattr(self, name), clients, name) for name in ("radius", "kappa")}
        check_ball(**settings)
        sizes = facts["weight"]
        if sizes.sum() <= 0:
            raise ValueError("sample_weight is zero for all records.")
        alpha = client_weights(self.client_weights, clients, sizes)
        present = sizes > 0
        if alpha[present].sum() <= 0:
            raise ValueError("client_weights are zero for all clients that have records of positive sample_weight.")
        alpha = alpha[present] / alpha[present].sum()
        frame = frame_of_moments(facts["mean"][present], facts["deviation"][present], alpha, self.fit_intercept)
        scaled = {name: value[present] / frame.scale for name, value in settings.items()}
        return {
            "clients": clients[present],
            "alpha": alpha,
            "centre": frame.centre,
            "scale": np.asarray(frame.scale),
            **scaled,
        }

    def _federation(self, terms):
        """Frame and algorithm; radii and flip costs are in frame coordinates."""
        frame = AffineFrame(terms["centre"], float(terms["scale"]), self.fit_intercept)
        n_columns = self.n_features_in_ + bool(self.fit_intercept)
        algorithm, shape = self._algorithm(self._admm(frame, terms["alpha"]), n_columns)
        settings = {name: terms[name] for name in ("radius", "kappa")}
        return Federation(terms["clients"], frame, algorithm, shape, settings)

    def _question(self, federation, server):
        """The candidates of each problem, to be appraised."""
        return {"models": np.array([candidates(state) for state in self._states(server)])}

    def _answers(self, federation, block, question):
        """What each client says of them."""
        return appraisals(self._parts(federation.algorithm), block, question["models"])

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

    def _conclude(self, federation, rounds):
        """Settle on a model of each problem, store it, and warn of what went wrong."""
        problems = [admm for admm, _ in self._parts(federation.algorithm)]
        outcomes = [
            Outcome.of(
                admm, state, federation.settings, [answer_on(answer, k) for answer in rounds.answers], rounds.answered
            )
            for k, (admm, state) in enumerate(zip(problems, self._states(rounds.server), strict=True))
        ]
        constant = self._constant(outcomes)
        if constant:
            warnings.warn(f"{constant} {REMEDY}", ConstantModelWarning, stacklevel=4)
        self._store(federation, outcomes, rounds.history)
        unfinished = [k for k, outcome in enumerate(outcomes) if not outcome.converged]
        if self.tol > 0 and self.n_iter_ == self.n_rounds and unfinished:
            primal, dual = (max(getattr(outcomes[k].server, name) for k in unfinished) for name in ("primal", "dual"))
            warnings.warn(
                f"{type(self).__name__} used all n_rounds={self.n_rounds} rounds before the residuals"
                f"{self._whose(unfinished)} met tol={self.tol:g} (primal {primal:.2g}, dual {dual:.2g}); raise "
                "n_rounds or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _store(self, federation, outcomes, history):
        models = np.stack([outcome.settled.model for outcome in outcomes])
        for name, value in self._linear(federation.frame, models).items():
            setattr(self, name, value)
        self.clients_ = federation.clients
        local = np.stack([outcome.server.local for outcome in outcomes], axis=1)
        self.client_coef_ = self._linear(federation.frame, local)["coef_"]
        self.n_iter_ = len(history["objective"])
        # the risk of a round's model is known when the next round has begun; a finished problem keeps its last
        objective = np.roll(history["objective"].reshape(self.n_iter_, -1), -1, axis=0)
        for k, outcome in enumerate(outcomes):
            objective[outcome.server.round - 1 :, k] = outcome.last_risk
        history["objective"] = objective.sum(axis=1)
        for name, value in self._summary(history, outcomes).items():
            setattr(self, name, value)
