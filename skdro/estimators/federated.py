"""Federated robust classifiers without privacy: exact, solved by consensus."""

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning

from ..ambiguity.constant_model import settle, weighted_risk
from ..ambiguity.transport import TRANSPORT_NORMS
from ..federation.client_data import (
    client_weights,
    common_frame,
    merge_duplicate_rows,
    per_client,
    prepare,
)
from ..federation.steps.consensus import ConsensusADMM
from ..solvers import bundle, conic
from ._base import (
    FederatedMixin,
    Interval,
    LinearClassifier,
    StrOptions,
    binary_row,
    check_ball,
    checked_sample_weight,
    warn_if_constant,
)
from ._worst_case import WorstCaseMixin

__all__ = ["FedDROClassifier"]

INITIAL_RHO = 0.1  # for rows of unit mean square; the balance moves it from there


CLIENT_TOL = 1e-7  # certified gap of a client's problem


def _bundle(problem, centre, rho, cuts):
    solution = bundle.solve_prox(problem, centre, rho, cuts, tol=CLIENT_TOL)
    return solution.M, solution.state


def _conic(problem, centre, rho, _):
    return conic.solve_prox(problem, centre, rho).M, None


SOLVERS = {"bundle": _bundle, "conic": _conic}


class FedDROClassifier(WorstCaseMixin, FederatedMixin, LinearClassifier):
    """Federated distributionally robust multiclass classifier, solved exactly by consensus.

    Minimises  sum_g alpha_g F_g(M)  over linear models M, where F_g is the worst expected Crammer-Singer loss
    over all distributions within a Wasserstein ball around client g's records (Algorithm 1, "Fed DRO", of [1]_,
    with over-relaxation, balanced penalty and a stopping rule).  Records stay with their client: only models
    cross.  This class is not private.

    Parameters
    ----------
    radius : float, array-like of shape (n_clients,) or dict, default=0.01
        Average transport cost that nature may spend in each client, in the units of the features; >= 0.  One
        number, one a client in sorted order, or a mapping by client label (which survives cross-validation).
    kappa : float, array-like of shape (n_clients,) or dict, default=1.0
        Cost of a label flip, > 0, in the same units; `inf` means that labels are trusted.
    norm : {"linf", "l2", "l1"}, default="linf"
        Norm of the transport cost ||x - x'||.  The model pays for its dual: "linf" for l1 distances between the
        classes' coefficients, "l2" for l2, "l1" for linf.
    client_weights : {"uniform", "size"}, array-like of shape (n_clients,) or dict, default="uniform"
        Weights alpha_g of the clients; normalised to sum one.  "size" weighs each record alike.
    rho : "auto" or float, default="auto"
        Penalty of the consensus, > 0, for features in the user's units.  "auto" balances the residuals during
        the first three quarters of the rounds; a number keeps it fixed, as in the paper.
    n_rounds : int, default=500
        Most rounds of communication.
    tol : float, default=1e-3
        Relative tolerance on both residuals; 0 runs all rounds.  The objective is then usually within a few
        1e-4 of its optimum, relatively.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is neither transported nor penalised.
    solver : {"bundle", "conic"}, default="bundle"
        How a client solves its problem: a proximal bundle method whose cuts survive the rounds, with a certified
        gap of 1e-7; or cvxpy with Clarabel, much slower.
    n_jobs : int, default=None
        Workers for the clients' problems; `joblib.parallel_config` decides on the backend.  The model does not
        depend on it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) if binary
    intercept_ : ndarray of shape (n_classes,), or (1,) if binary
    classes_ : ndarray of shape (n_classes,)
    clients_ : ndarray of shape (n_clients,)
        Sorted client labels.
    client_coef_ : ndarray of shape (n_clients, n_classes, n_features), or (n_clients, 1, n_features)
        The clients' own models after the last round; equal to `coef_` up to the primal residual.
    worst_case_risk_ : float
        sum_g alpha_g F_g at the fitted model, which is the best consensus model of all rounds.
    history_ : dict of str to ndarray of shape (n_iter_,)
        "objective" (worst-case risk of the consensus model after each round), "primal_residual",
        "dual_residual", "rho" (of the next round); the last three in standardised coordinates.
    n_iter_ : int
        Rounds run.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If `X` has string column names.

    Warns
    -----
    SingleClientWarning
        `groups` was not given.
    ConvergenceWarning
        The rounds ran out before both residuals met `tol`.
    ConstantModelWarning
        The robust model gives every training record the same label: the radius is too large.

    Notes
    -----
    Features are centred and divided by one common scale before the rounds; with radius and kappa in the same
    units this changes nothing but the conditioning.  Equal records of a client are merged.

    For radius > 0 the federated risk is at most that of the pooled problem at the same radius: pooling lets the
    adversary move its budget between clients.

    References
    ----------
    .. [1] Hernandez, Ibrahim, Gebraeel. Private and Distributionally Robust Federated Multiclass
       Classification. arXiv 2610.13631, section 3 and Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro import FedDROClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clients = np.arange(150) % 3
    >>> model = FedDROClassifier(radius=0.05).fit(X, y, groups=clients)
    >>> model.score(X, y) > 0.9
    True
    >>> model.clients_
    array([0, 1, 2])
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
        self : FedDROClassifier

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
        algorithm = self._algorithm(block, frame, alpha)
        shape = (len(self.classes_), block.X.shape[1])
        result = self._run(
            algorithm,
            block,
            shape,
            lambda server: self._linear(frame, server.model),
            X=X,  # as the user gave it, with its column names
            y=y,
            metadata=None if sample_weight is None else {"sample_weight": weight},
        )
        server = result.server
        problems = [algorithm.risk(block, g) for g in range(block.n_clients)]
        last_risk = weighted_risk(problems, alpha, server.model)
        best = server.model if last_risk <= server.best_objective else server.best_model
        settled = settle(problems, alpha, best)
        warn_if_constant(settled)
        self._store(frame, block, server, settled, last_risk, result.history)
        if self.tol > 0 and self.n_iter_ == self.n_rounds and not algorithm.finished(server):
            warnings.warn(
                f"FedDROClassifier used all n_rounds={self.n_rounds} rounds before the residuals met tol="
                f"{self.tol:g} (primal {server.primal:.2g}, dual {server.dual:.2g}); raise n_rounds or tol.",
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

    def _algorithm(self, block, frame, alpha):
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

    def _linear(self, frame, model):
        coef, intercept = binary_row(*frame.leave(model))
        return {"coef_": coef, "intercept_": intercept}

    def _store(self, frame, block, server, settled, last_risk, history):
        for name, value in self._linear(frame, settled.model).items():
            setattr(self, name, value)
        self.clients_ = block.clients
        self.client_coef_ = binary_row(*frame.leave(server.local))[0]
        self.worst_case_risk_ = settled.risk
        # the risk of a round's model is known when the next round has begun
        history["objective"] = np.append(history["objective"][1:], last_risk)
        self.history_ = history
        self.n_iter_ = len(history["rho"])
