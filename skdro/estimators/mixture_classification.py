"""BiDRO-FL and exact MW-DRO for linear classification."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from ..ambiguity.penalised import Box
from ..ambiguity.transport import TRANSPORT_NORMS
from ..federation.local_risks import Ascent, MovedClasses
from ._base import Interval, StrOptions
from ._mixture_classification import MixtureClassifier

__all__ = ["BiDROFLClassifier"]


class BiDROFLClassifier(MixtureClassifier):
    """Linear classifier, robust to an unknown mixture of the clients and to errors in each client's distribution.

    Minimises  max over alpha in A of  sum_i alpha_i F_i(M):  the deployment population is some mixture of the
    clients, and each client's distribution lies in a Wasserstein ball around its records (MW-DRO), or moves at a
    price (BiDRO-FL) ([1]_).

    ================  ==============  ================  ====================================================
    loss              form            solver            what is solved
    ================  ==============  ================  ====================================================
    crammer_singer    `radius`        conic, bundle     exact, W_1 balls with label flips at `kappa`
    crammer_singer    `radius`        descent_ascent    the same by rounds; all records in each
    softmax           `penalty`       descent_ascent    Algorithm 1 of [1]_, features moved, labels trusted
    either            `radius=0`      descent_ascent    agnostic federated learning, `batch_size` or all
    ================  ==============  ================  ====================================================

    Other combinations raise.

    Parameters
    ----------
    radius : float, array-like of shape (n_clients,) or dict, default=0.01
        Within which distance each client's true distribution may lie, >= 0, in the units of the features: W_1 for
        Crammer-Singer (the average cost of moves and flips), W_2 for softmax.  One number, one a client in sorted
        order, or a mapping by client label.  With `penalty` it serves the certificate only.
    penalty : float, array-like of shape (n_clients,), dict or None, default=None
        rho_i > 0, what a unit of squared distance costs nature (softmax); replaces the radius in the fit.
    kappa : float, array-like of shape (n_clients,) or dict, default=1.0
        Cost of a label flip (Crammer-Singer), > 0; `inf` means that labels are trusted.
    norm : {"linf", "l2", "l1"}, default="linf"
        Norm of the transport cost ||x - x'|| (Crammer-Singer); softmax uses the Euclidean norm.
    loss : {"crammer_singer", "softmax"}, default="crammer_singer"
        Multiclass hinge loss, or the multinomial log-likelihood.
    mixture : {"simplex", "fixed"}, default="simplex"
        "simplex": any mixture of the clients; "fixed": the mixture `client_weights`.
    mixture_radius : float in [0, 1] or None, default=None
        Share of the population that may belong to other clients than `client_weights` says.  Overrides `mixture`;
        0 is "fixed", 1 "simplex".
    client_weights : {"uniform", "size"}, array-like of shape (n_clients,) or dict, default="uniform"
        Nominal mixture, normalised to sum one; where the descent starts.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is neither transported nor penalised.
    solver : {"auto", "conic", "bundle", "descent_ascent"}, default="auto"
        Exact, by one conic programme that holds all records, or by cutting planes with a certified gap, which stays
        fast with many records (Crammer-Singer with a positive radius); or rounds of descent in the model and ascent
        in the mixture, in which records stay with their client.  "auto": conic for Crammer-Singer, else rounds.
    n_rounds : int, default=1000
        Rounds of the descent.
    step_size : "auto" or float, default="auto"
        Of model and mixture.  "auto" is 1 / sqrt(n_rounds) in standardised coordinates; a number is a step in the
        units of the data.
    batch_size : int or None, default=None
        Records that each client draws afresh in a round; None takes all.
    average : bool, default=True
        Whether to return the average of the iterates, which the theory is about, or the last one.
    n_inner_steps : int, default=30
        Steps of nature's ascent.
    inner_step_size : "auto" or float, default="auto"
        Of the ascent; "auto" is 1 / (2 penalty).
    perturbation : float, default=0.01
        Length of the random perturbation after the ascent, in the units of the features.
    model_bound : float, default=100.0
        Bound of each coefficient during the descent, in its coordinates.
    random_state : int, RandomState instance or None, default=None
        Determines samples and perturbations.
    n_jobs : int, default=None
        Workers for the clients' steps; `joblib.parallel_config` decides on the backend.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) if binary
    intercept_ : ndarray of shape (n_classes,), or (1,) if binary
    classes_ : ndarray of shape (n_classes,)
    clients_ : ndarray of shape (n_clients,)
        Sorted client labels.
    mixture_weights_ : ndarray of shape (n_clients,)
        The mixture that the model is best against.
    client_risks_ : ndarray of shape (n_clients,)
        F_i at the fitted model; for softmax with a penalty an upper bound of it, infinite where the penalty is too
        small for one.
    certificate_ : float
        Bound on the expected loss under deployment, for every mixture in A of distributions within `radius` of the
        clients' records: max over A of alpha . F, plus penalty_i radius_i^2 in the penalised form.
    history_ : dict of str to ndarray of shape (n_iter_, ...)
        "objective" (not with a penalty): max over A of alpha . F at the reported model.  With descent also
        "mixture_weights" (n_iter_, n_clients) and "value" (alpha . g from the rounds' samples).
    n_iter_ : int
        Rounds run; 1 if conic.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If `X` has string column names.

    Warns
    -----
    SingleClientWarning
        `groups` was not given.
    ConstantModelWarning
        The robust model gives every training record the same label: the radius is too large.
    ConvergenceWarning
        The descent ended at `model_bound`.

    See Also
    --------
    FedDROClassifier : The fixed mixture, solved by consensus.
    AFLClassifier : The same without Wasserstein balls.

    Notes
    -----
    Where the exact Crammer-Singer problem has many solutions (radius 0, say) a model of least norm is returned, by a
    term of weight 1e-9 in standardised coordinates.

    References
    ----------
    .. [1] Liu, Li, You, Cherukuri. Distributionally Robust Federated Learning with Multi-Source Data.
       arXiv 2609.20501, (MW-DRO), eqs. (26) and (27), Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro import BiDROFLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BiDROFLClassifier(radius=0.02).fit(X, y, groups=np.arange(150) % 3)
    >>> model.score(X, y) > 0.9
    True
    >>> bool(abs(model.certificate_ - max(model.client_risks_)) < 1e-9)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **MixtureClassifier._parameter_constraints,
        "radius": [Interval(Real, 0, None, closed="left"), "array-like", dict],
        "penalty": [None, Interval(Real, 0, None, closed="neither"), "array-like", dict],
        "kappa": [Interval(Real, 0, None, closed="right"), "array-like", dict],  # inf: labels are trusted
        "norm": [StrOptions(set(TRANSPORT_NORMS))],
        "n_inner_steps": [Interval(Integral, 0, None, closed="left")],
        "inner_step_size": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "perturbation": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        radius=0.01,
        penalty=None,
        kappa=1.0,
        norm="linf",
        *,
        loss="crammer_singer",
        mixture="simplex",
        mixture_radius=None,
        client_weights="uniform",
        fit_intercept=True,
        solver="auto",
        n_rounds=1000,
        step_size="auto",
        batch_size=None,
        average=True,
        n_inner_steps=30,
        inner_step_size="auto",
        perturbation=0.01,
        model_bound=100.0,
        random_state=None,
        n_jobs=None,
    ):
        self.radius = radius
        self.penalty = penalty
        self.kappa = kappa
        self.norm = norm
        self.loss = loss
        self.mixture = mixture
        self.mixture_radius = mixture_radius
        self.client_weights = client_weights
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.n_rounds = n_rounds
        self.step_size = step_size
        self.batch_size = batch_size
        self.average = average
        self.n_inner_steps = n_inner_steps
        self.inner_step_size = inner_step_size
        self.perturbation = perturbation
        self.model_bound = model_bound
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_combination(self, solver, radius, penalty):
        if self.loss == "softmax" and solver != "descent_ascent":
            raise ValueError(
                f"solver={solver!r} has no softmax; use solver='descent_ascent' or loss='crammer_singer'."
            )
        if self.loss == "softmax" and penalty is None and np.any(radius > 0):
            raise ValueError(
                "loss='softmax' has no radius form: give penalty (radius then serves the certificate), or set "
                "radius=0, or loss='crammer_singer'."
            )
        if self.loss == "crammer_singer" and penalty is not None:
            raise ValueError(
                "loss='crammer_singer' has no penalised form: set penalty=None and give radius, or loss='softmax'."
            )
        if penalty is None and solver == "descent_ascent":
            self._check_batch(radius)

    def _moved_records(self, frame):
        everywhere = np.full(self.n_features_in_, np.inf)
        step = None if self.inner_step_size == "auto" else self.inner_step_size / frame.scale**2
        ascent = Ascent(Box(-everywhere, everywhere), self.n_inner_steps, step, self.perturbation / frame.scale)
        return MovedClasses(self.n_features_in_, ascent)
