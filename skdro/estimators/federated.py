"""The federated robust multiclass classifier without privacy: exact, solved by consensus."""

from ._base import CONSTANT_MODEL, binary_row
from ._consensus import ConsensusClassifier
from ._worst_case import WorstCaseMixin

__all__ = ["FedDROClassifier"]


class FedDROClassifier(WorstCaseMixin, ConsensusClassifier):
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

    def _algorithm(self, admm, n_columns):
        return admm, (len(self.classes_), n_columns)

    def _parts(self, algorithm):
        return [(algorithm, lambda block: block)]

    def _states(self, server):
        return [server]

    def _linear(self, frame, models):
        coef, intercept = binary_row(*frame.leave(models[..., 0, :, :]))
        return {"coef_": coef, "intercept_": intercept}

    def _summary(self, history, outcomes):
        return {"worst_case_risk_": outcomes[0].settled.risk, "history_": history}

    def _constant(self, outcomes):
        return CONSTANT_MODEL if outcomes[0].settled.constant else None

    def _whose(self, unfinished):
        return ""
