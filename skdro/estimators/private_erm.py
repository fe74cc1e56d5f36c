"""Private empirical risk minimisation without robustness, by descent or by DP-ADMM: a baseline."""

from numbers import Real
from typing import ClassVar

import numpy as np

from ..federation.doors import GaussianDoor
from ..federation.steps.linearised import LinearisedADMM, dp_admm_steps
from ..federation.steps.multipliers import NoBall
from ..federation.steps.objectives import RidgeRisk
from ..privacy.plan import ReleaseKind, noise_multipliers
from ..privacy.sensitivity import ADJACENCIES, model_step
from ._base import Interval, StrOptions
from ._private import PrivateFederatedClassifier
from ._private_designs import budget, check_local, descent_design, plan_of, published_constant
from ._public import Design

__all__ = ["DPFedERMClassifier"]


def _ridge_risk(estimator, facts):
    return RidgeRisk(float(estimator.reg), facts.n_features)


def global_design(estimator, facts):
    """Gradient descent on the regularised mean loss at the broadcast model."""
    return descent_design(estimator, facts, _ridge_risk(estimator, facts))


# schedule -> power of t that divides the step size, and the rounds that the first step is already divided by
SCHEDULES = {"decaying": (0.5, lambda T: 1), "constant": (0.0, lambda T: T)}


def paper_design(estimator, facts):
    """DP-ADMM: a noisy model a round at each client."""
    check_local(estimator)
    kinds = [ReleaseKind("model", estimator.n_rounds)]
    eta = dp_admm_steps(
        n_records=facts.n_records,
        shape=(facts.n_classes, facts.n_columns),
        data_norm=estimator.data_norm,
        reg=estimator.reg,
        c_model=published_constant(estimator),
        multiplier=noise_multipliers(kinds, **budget(estimator))["model"],
    )
    decay, rounds = SCHEDULES[estimator.schedule]
    eta = eta / np.sqrt(rounds(estimator.n_rounds))
    adjacency = ADJACENCIES[estimator.adjacency]
    bound = model_step(estimator.data_norm, facts.n_records, estimator.rho, eta, adjacency)
    plan = plan_of(estimator, kinds, {"model": bound})
    algorithm = LinearisedADMM(
        n_classes=facts.n_classes,
        alpha=facts.alpha,
        rho=estimator.rho,
        eta=eta,
        data_norm=estimator.data_norm,
        labels=NoBall(_ridge_risk(estimator, facts)),
        door=GaussianDoor(plan.releases["model"], facts.noise),
        decay=decay,
    )
    return Design(plan, algorithm)


VARIANTS = {"global": global_design, "paper": paper_design}


class DPFedERMClassifier(PrivateFederatedClassifier):
    """Differentially private federated multiclass classifier without robustness; the baseline.

    Minimises the mean Crammer-Singer loss of the federation plus ``reg / 2 ||M||^2`` (the intercept is not
    penalised) under a total (`epsilon`, `delta`).  `variant="global"` is noisy subgradient descent at the broadcast
    model, as in `DPFedDROClassifier` with no ball; `variant="paper"` is DP-ADMM [1]_ as the comparison in [2]_ uses
    it ("DP-Fed ERM").

    Parameters
    ----------
    epsilon : float, default=1.0
        Total budget of one fit, > 0.
    delta : float, default=1e-5
        Total budget of one fit, in (0, 1); should be well below one over the rows of a client.
    reg : float, default=1e-3
        Weight of the squared norm of the coefficients, >= 0.  Public: its gradient needs no noise.
    variant : {"global", "paper"}, default="global"
    aggregation : {"local", "trusted"}, default="local"
        Each client adds its own noise, or it is added once to the weighted sum by whoever computes that; the latter
        is not possible with variant="paper".
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What one record more or less means.
    data_norm : float, default=1.0
        Rows, constant column included, are clipped to this l2 norm, > 0.  Public.
    feature_bounds : pair (lo, hi) of float or array-like of shape (n_features,), default=None
        Public box of the features, in their units; features are clipped to it and mapped to [-1, 1].
        Recommended.  None takes the features as given, and `data_norm` cuts every row that is longer.
    classes : array-like of shape (n_classes,), default=None
        Public list of possible labels.  None reads them from `y`, with a warning.
    client_weights : {"uniform", "size"}, array-like of shape (n_clients,) or dict, default="size"
        Public weights of the clients, normalised to sum one.
    budget : {"total", "per_round"}, default="total"
        "per_round" takes (epsilon, delta) as a pair of one round, which fixes the noise by the classical formula;
        what may be claimed is the total in `privacy_`.
    accountant : {"gdp", "moments"}, default="gdp"
        Exact composition, or the papers' looser bound.
    n_rounds : int, default=20
        Rounds, all of them charged.
    c_model : float or "auto", default="auto"
        Step-size constant, > 0: steps are c_model / sqrt(t) ("global"); in "paper" it bounds the norm of the model,
        and the steps are c_model / (D sqrt(t)) where D bounds the size of a noisy gradient.  "auto" makes it the
        smaller the larger the public noise is ("global"); for "paper", whose D has the noise in it, it is 3.0.
    rho : float, default=0.8
        Consensus penalty, > 0; only for variant="paper".
    schedule : {"decaying", "constant"}, default="decaying"
        Whether the steps of variant="paper" fall as 1 / sqrt(t) or are all c_model / (D sqrt(n_rounds)).
    fit_intercept : bool, default=True
    noise : {"os", "opendp"}, default="os"
        Where unseeded noise comes from: the operating system's entropy, or OpenDP's measurement in exact arithmetic,
        for releases of at most 10 000 numbers (extra ``opendp``).
    diagnostics : "not-private" or None, default=None
        "not-private" adds the exact objective to `history_` and takes the privacy claim away.
    random_state : None, int or numpy.random.Generator, default=None
        None draws the noise from operating-system entropy.  Anything else is reproducible, hence **not private**.
    n_jobs : int, default=None
        Workers; clients are stacked, so more than one rarely helps.

    Attributes
    ----------
    privacy_ : PrivacyReport
        The guarantee, its events, and what it assumes.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) if binary
        In the user's units; agrees with `decision_function` up to the norm clip of each row.
    intercept_ : ndarray of shape (n_classes,), or (1,) if binary
    classes_ : ndarray of shape (n_classes,)
    clients_ : ndarray of shape (n_clients,)
    client_coef_ : ndarray of shape (n_clients, n_classes or 1, n_features)
        The clients' noisy models; only for variant="paper".
    history_ : dict of str to ndarray of shape (n_iter_,)
        Functions of the releases only: "model_norm" and, for variant="paper", "consensus_violation".
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Warns
    -----
    PrivacyLeakWarning
        `random_state` is set, `classes` is read from `y`, or `delta` is large for the smallest client.
    SingleClientWarning
        `groups` was not given.

    See Also
    --------
    DPFedDROClassifier : The same with a ball around the records.

    Notes
    -----
    Choosing parameters by ``GridSearchCV`` on private records is not private at any epsilon: its scores are exact
    functions of the labels.  Fix them beforehand, or tune on public or simulated data.

    `n_rounds`, `reg` and the rule ``c_model="auto"``, which is that of `DPFedDROClassifier`, were chosen on simulated
    data (``examples/benchmarks/choose_private_steps.py``), where the scores of fixed steps are flat from 10 to 30
    rounds and for penalties up to 1e-2.

    References
    ----------
    .. [1] Huang, Hu, Guo, Chan-Tin, Gong. DP-ADMM: ADMM-Based Distributed Learning with Differential Privacy.
       IEEE Transactions on Information Forensics and Security 15, 2020, Algorithm 2.
    .. [2] Hernandez, Ibrahim, Gebraeel. Private and Distributionally Robust Federated Multiclass
       Classification. arXiv 2610.13631, section 7.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro import DPFedERMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DPFedERMClassifier(
    ...     epsilon=5.0, delta=1e-4, classes=[0, 1, 2], feature_bounds=([4, 2, 1, 0], [8, 4.5, 7, 2.5]),
    ...     aggregation="trusted")
    >>> model = model.fit(X, y, groups=np.arange(150) % 3)
    >>> model.privacy_
    PrivacyReport: (epsilon, delta) = (5, 0.0001) for one record, replace-one...
    """

    _parameter_constraints: ClassVar[dict] = {
        **PrivateFederatedClassifier._parameter_constraints,
        "reg": [Interval(Real, 0, None, closed="left")],
        "variant": [StrOptions(set(VARIANTS))],
        "rho": [Interval(Real, 0, None, closed="neither")],
        "schedule": [StrOptions(set(SCHEDULES))],
    }

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        reg=1e-3,
        *,
        variant="global",
        aggregation="local",
        adjacency="replace_one",
        data_norm=1.0,
        feature_bounds=None,
        classes=None,
        client_weights="size",
        budget="total",
        accountant="gdp",
        n_rounds=20,
        c_model="auto",
        rho=0.8,
        schedule="decaying",
        fit_intercept=True,
        noise="os",
        diagnostics=None,
        random_state=None,
        n_jobs=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.reg = reg
        self.variant = variant
        self.aggregation = aggregation
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.feature_bounds = feature_bounds
        self.classes = classes
        self.client_weights = client_weights
        self.budget = budget
        self.accountant = accountant
        self.n_rounds = n_rounds
        self.c_model = c_model
        self.rho = rho
        self.schedule = schedule
        self.fit_intercept = fit_intercept
        self.noise = noise
        self.diagnostics = diagnostics
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _design(self, facts):
        return VARIANTS[self.variant](self, facts)
