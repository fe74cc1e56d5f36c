"""Differentially private federated robust classifiers: what they promise is in `privacy_`."""

from numbers import Real
from typing import ClassVar

import numpy as np

from ..ambiguity.transport import TRANSPORT_NORMS
from ..federation.doors import GaussianDoor
from ..federation.steps.linearised import LinearisedADMM, StepSizes
from ..federation.steps.multipliers import FlippedLabels, TrustedLabels
from ..federation.steps.objectives import WorstCaseRisk
from ..privacy.plan import ReleaseKind, noise_multipliers
from ..privacy.sensitivity import ADJACENCIES, model_step, multiplier_step
from ._base import Interval, StrOptions, check_ball
from ._private import PrivateFederatedClassifier
from ._private_designs import budget, check_local, descent_design, plan_of, published_constant
from ._public import Design

__all__ = ["DPFedDROClassifier"]

MODEL_SHARE = 0.95  # of the squared budget of a round of Algorithm 2; the rest goes to the multiplier


def global_design(estimator, facts):
    """Gradient descent on the worst-case risk at the broadcast model."""
    objective = WorstCaseRisk(
        norm=TRANSPORT_NORMS[estimator.norm],
        n_classes=facts.n_classes,
        n_features=facts.n_features,
        radius=float(facts.alpha @ facts.settings["radius"]),
        data_norm=estimator.data_norm,
    )
    return descent_design(estimator, facts, objective)


def paper_design(estimator, facts):
    """Algorithm 2 as published: a noisy model and, unless labels are trusted, a noisy multiplier a round."""
    check_local(estimator)
    kappa = facts.settings["kappa"]
    trusted = ~np.isfinite(kappa)
    if trusted.any() and not trusted.all():
        raise ValueError('kappa must be finite for all clients or inf for all of them with variant="paper".')
    T = estimator.n_rounds
    kinds = (
        [ReleaseKind("model", T)]
        if trusted.all()
        else [ReleaseKind("model", T, MODEL_SHARE), ReleaseKind("multiplier", T, 1 - MODEL_SHARE)]
    )
    multipliers = noise_multipliers(kinds, **budget(estimator))
    steps = StepSizes.of_theorem_3(
        n_rounds=T,
        n_records=facts.n_records,
        shape=(facts.n_classes, facts.n_columns),
        data_norm=estimator.data_norm,
        radius=facts.settings["radius"],
        kappa=kappa,
        c_model=published_constant(estimator),
        c_lambda=estimator.c_lambda,
        model_multiplier=multipliers["model"],
        lambda_multiplier=multipliers.get("multiplier", 0.0),
    )
    adjacency = ADJACENCIES[estimator.adjacency]
    sensitivity = {
        "model": model_step(estimator.data_norm, facts.n_records, estimator.rho, steps.eta, adjacency),
        "multiplier": multiplier_step(kappa, facts.n_records, steps.nu, adjacency),
    }
    plan = plan_of(estimator, kinds, sensitivity)
    doors = {name: GaussianDoor(planned, facts.noise) for name, planned in plan.releases.items()}
    norm = TRANSPORT_NORMS[estimator.norm]
    labels = (
        TrustedLabels(norm, facts.n_features)
        if trusted.all()
        else FlippedLabels(norm, facts.n_features, kappa, steps.nu, estimator.gamma, doors["multiplier"])
    )
    algorithm = LinearisedADMM(
        n_classes=facts.n_classes,
        alpha=facts.alpha,
        rho=estimator.rho,
        eta=steps.eta,
        data_norm=estimator.data_norm,
        labels=labels,
        door=doors["model"],
    )
    return Design(plan, algorithm)


VARIANTS = {"global": global_design, "paper": paper_design}


class DPFedDROClassifier(PrivateFederatedClassifier):
    """Differentially private federated robust multiclass classifier.

    The released model, and everything else that leaves `fit`, is a function of Gaussian releases whose total
    cost is at most (`epsilon`, `delta`) for each record.  `variant="global"` is noisy subgradient descent on the
    federated worst-case risk at the broadcast model; `variant="paper"` is Algorithm 2 ("DP-Fed DRO") of [1]_.

    Parameters
    ----------
    epsilon : float, default=1.0
        Total budget of one fit, > 0.
    delta : float, default=1e-5
        Total budget of one fit, in (0, 1); should be well below one over the rows of a client.
    radius : float, array-like of shape (n_clients,) or dict, default=0.01
        Average transport cost that nature may spend, >= 0, in units of the clipped rows (of the box mapped to
        [-1, 1] if `feature_bounds` is given).
    kappa : float, array-like of shape (n_clients,) or dict, default=2.0
        Cost of a label flip, > 0, in the same units; `inf` means that labels are trusted.  Below twice
        `data_norm` the default variant takes most labels as flipped, and its model fades as the noise does.
    norm : {"linf", "l2", "l1"}, default="linf"
        Norm of the transport cost; the model pays for its dual.
    variant : {"global", "paper"}, default="global"
        Which algorithm; see above.
    aggregation : {"local", "trusted"}, default="local"
        "local": every client adds its own noise, nobody else is trusted.  "trusted": noise is added once to the
        weighted sum by a party that sees it; far more accurate; not possible with variant="paper".
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
        "per_round" takes (epsilon, delta) as the paper's pair of one round, which fixes the noise by its
        formula; what may be claimed is the total in `privacy_`.
    accountant : {"gdp", "moments"}, default="gdp"
        Exact composition, or the papers' looser bound.
    n_rounds : int, default=30
        Rounds, all of them charged.
    c_model : float or "auto", default="auto"
        Step-size constant, > 0: steps are c_model / sqrt(t) ("global") or those of Theorem 3 ("paper", where the
        authors use 2 and 50 to 150 rounds).  "auto" makes it the smaller the larger the public noise is ("global");
        for "paper", whose formula has the noise in it, it is 3.0.
    c_lambda : float, default=6.0
        Step-size constant of the multiplier, > 0; only for variant="paper".
    rho : float, default=0.8
        Consensus penalty, > 0; only for variant="paper".
    gamma : float, default=0.1
        Weight of the penalty for a multiplier below the spread, > 0; only for variant="paper".
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
        Functions of the releases only: "model_norm", "spread" and, for variant="paper", "consensus_violation".
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Warns
    -----
    PrivacyLeakWarning
        `random_state` is set, `classes` is read from `y`, or `delta` is large for the smallest client.
    SingleClientWarning
        `groups` was not given.

    Notes
    -----
    Choosing parameters by ``GridSearchCV`` on private records is not private at any epsilon: its scores are exact
    functions of the labels.  Fix them beforehand, tune on public or simulated data, or pay for
    `skdro.model_selection.PrivateSearchCV`.

    `n_rounds` and the rule ``c_model="auto"``, 10 / sqrt(1 + (4 nu)^2) with nu the size of the noise in the weighted
    sum over the largest norm of a mean gradient, were chosen on simulated data
    (``examples/benchmarks/choose_private_steps.py``).  No certificate comes with a private fit, and in our
    comparisons the radius did not improve private accuracy (``examples/benchmarks/private_uci.py``,
    ``examples/reproduction/robust_under_shift.py``).

    References
    ----------
    .. [1] Hernandez, Ibrahim, Gebraeel. Private and Distributionally Robust Federated Multiclass
       Classification. arXiv 2610.13631, sections 4 to 6, Algorithm 2 and equation (13).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro import DPFedDROClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DPFedDROClassifier(
    ...     epsilon=5.0, delta=1e-4, classes=[0, 1, 2], feature_bounds=([4, 2, 1, 0], [8, 4.5, 7, 2.5]),
    ...     aggregation="trusted")
    >>> model = model.fit(X, y, groups=np.arange(150) % 3)
    >>> model.privacy_
    PrivacyReport: (epsilon, delta) = (5, 0.0001) for one record, replace-one...
    """

    _parameter_constraints: ClassVar[dict] = {
        **PrivateFederatedClassifier._parameter_constraints,
        "radius": [Interval(Real, 0, None, closed="left"), "array-like", dict],
        "kappa": [Interval(Real, 0, None, closed="right"), "array-like", dict],
        "norm": [StrOptions(set(TRANSPORT_NORMS))],
        "variant": [StrOptions(set(VARIANTS))],
        "c_lambda": [Interval(Real, 0, None, closed="neither")],
        "rho": [Interval(Real, 0, None, closed="neither")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
    }

    _per_client: ClassVar[tuple[str, ...]] = ("radius", "kappa")

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        radius=0.01,
        kappa=2.0,
        norm="linf",
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
        n_rounds=30,
        c_model="auto",
        c_lambda=6.0,
        rho=0.8,
        gamma=0.1,
        fit_intercept=True,
        noise="os",
        diagnostics=None,
        random_state=None,
        n_jobs=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.radius = radius
        self.kappa = kappa
        self.norm = norm
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
        self.c_lambda = c_lambda
        self.rho = rho
        self.gamma = gamma
        self.fit_intercept = fit_intercept
        self.noise = noise
        self.diagnostics = diagnostics
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _design(self, facts):
        check_ball(facts.settings["radius"], facts.settings["kappa"])
        return VARIANTS[self.variant](self, facts)
