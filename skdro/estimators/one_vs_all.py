"""The federated robust classifier by one-against-the-rest problems: exact, all classes in one pass of rounds."""

from dataclasses import replace
from functools import partial

import numpy as np

from ..federation.steps.one_vs_all import OneVsAll
from ._base import binary_row
from ._consensus import ConsensusClassifier

__all__ = ["FedOvADROClassifier"]


class FedOvADROClassifier(ConsensusClassifier):
    """Federated distributionally robust classifier by one-vs-all: a robust binary problem for each class.

    For each class k, minimises  sum_g alpha_g F_gk(w, b)  over linear scores w x + b, where F_gk is the worst
    expected hinge loss of "class k against the rest" over all distributions within a Wasserstein ball around
    client g's records ("Fed OvA DRO" of [1]_).  The class with the largest score is predicted.  The consensus
    loops of all classes run in the same rounds.  Records stay with their client: only models cross.  This class
    is not private.

    With two classes there is one problem, and the model is that of :class:`FedDROClassifier`.  With more,
    `FedDROClassifier` fits all classes jointly and separates classes that no plane parts from all the rest
    together; one-vs-all is the customary baseline.

    Parameters
    ----------
    radius : float, array-like of shape (n_clients,) or dict, default=0.01
        Average transport cost that nature may spend in each client and problem, in the units of the features;
        >= 0.  One number, one a client in sorted order, or a mapping by client label (which survives
        cross-validation).
    kappa : float, array-like of shape (n_clients,) or dict, default=1.0
        Cost of a flip between the class and the rest, > 0, in the same units; `inf` means that labels are trusted.
    norm : {"linf", "l2", "l1"}, default="linf"
        Norm of the transport cost ||x - x'||.  The model pays for its dual: "linf" for the l1 norm of a class's
        coefficients, "l2" for l2, "l1" for linf.
    client_weights : {"uniform", "size"}, array-like of shape (n_clients,) or dict, default="uniform"
        Weights alpha_g of the clients; normalised to sum one.  "size" weighs each record alike.
    rho : "auto" or float, default="auto"
        Penalty of the consensus, > 0, for features in the user's units.  "auto" balances the residuals of each
        class during the first three quarters of the rounds; a number keeps it fixed, as in the paper.
    n_rounds : int, default=500
        Most rounds of communication; a round serves all classes that have not converged.
    tol : float, default=1e-3
        Relative tolerance on both residuals of each class; 0 runs all rounds.
    fit_intercept : bool, default=True
        Whether to fit intercepts, which are neither transported nor penalised.
    solver : {"bundle", "conic"}, default="bundle"
        How a client solves its problems: a proximal bundle method whose cuts survive the rounds, with a certified
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
        The clients' own models after each class's last round; equal to `coef_` up to the primal residual.
    worst_case_risk_ : ndarray of shape (n_classes,), or (1,) if binary
        sum_g alpha_g F_gk at the fitted model of class k, which is its best consensus model of all rounds.
    history_ : dict of str to ndarray of shape (n_iter_,)
        "objective" (worst-case risks of the consensus models after each round, summed over classes),
        "primal_residual" and "dual_residual" (the largest of all classes, in standardised coordinates),
        "n_running" (classes that took part in the round).  A class that has converged counts with its last model.
    n_iter_ : int
        Rounds run, by the class that took the most.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If `X` has string column names.

    Warns
    -----
    SingleClientWarning
        `groups` was not given.
    ConvergenceWarning
        The rounds ran out before both residuals of each class met `tol`; names the classes.
    ConstantModelWarning
        The robust model of a class gives every training record the same answer; names the classes.  The radius is
        too large, the rounds were too few, or no plane parts the class from the rest.

    Notes
    -----
    Features are centred and divided by one common scale before the rounds; with radius and kappa in the same
    units this changes nothing but the conditioning.  Equal records of a client are merged.

    References
    ----------
    .. [1] Hernandez, Ibrahim, Gebraeel. Private and Distributionally Robust Federated Multiclass
       Classification. arXiv 2610.13631, section 5 and appendix B.4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skdro import FedOvADROClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> model = FedOvADROClassifier(radius=0.05).fit(X, y, groups=np.arange(178) % 3)
    >>> model.decision_function(X).shape
    (178, 3)
    >>> model.score(X, y) > 0.95
    True
    """

    def _algorithm(self, admm, n_columns):
        algorithm = OneVsAll(replace(admm, n_classes=2), len(self.classes_))
        return algorithm, (len(algorithm.positives), 2, n_columns)

    def _parts(self, algorithm):
        return [
            (algorithm.binary, partial(algorithm.against_rest, problem=k)) for k in range(len(algorithm.positives))
        ]

    def _states(self, server):
        return list(server)

    def _linear(self, frame, models):
        # the score of a class is the difference of the two rows of its problem's model
        coef, intercept = binary_row(*frame.leave(models))
        return {"coef_": coef[..., 0, :], "intercept_": intercept[..., 0]}

    def _summary(self, history, outcomes):
        rounds = np.array([outcome.server.round for outcome in outcomes])
        return {
            "worst_case_risk_": np.array([outcome.settled.risk for outcome in outcomes]),
            "history_": {
                "objective": history["objective"],
                "primal_residual": history["primal_residual"].max(axis=1),
                "dual_residual": history["dual_residual"].max(axis=1),
                "n_running": (np.arange(self.n_iter_)[:, None] < rounds).sum(axis=1),
            },
        }

    def _constant(self, outcomes):
        constant = [k for k, outcome in enumerate(outcomes) if outcome.settled.constant]
        if not constant:
            return None
        return (
            f"The robust model{self._whose(constant)} gives every training record the same answer: radius is too "
            "large for what the features tell, or no plane parts the class from the rest."
        )

    def _whose(self, problems):
        positive = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return f" of class(es) {positive[problems].tolist()}"
