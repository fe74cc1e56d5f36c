"""BiDRO-FL and exact MW-DRO for linear regression."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from ..federation.local_risks import MovedResponses, RecordsRisk, SquaresRisk, UnmovedRecords
from ..losses import squared
from ._base import Interval, StrOptions
from ._mixture_regression import RADIUS, MixtureRegressor, check_support, inner_maximisation

__all__ = ["BiDROFLRegressor"]


class BiDROFLRegressor(MixtureRegressor):
    """Linear regression, robust to an unknown mixture of the clients and to errors in each client's distribution.

    Minimises  max over alpha in A of  sum_i alpha_i F_i(x):  the deployment population is some mixture of the
    clients, and each client's distribution lies in a Wasserstein ball around its records (MW-DRO), or moves at a
    price (BiDRO-FL) ([1]_).  A record is xi = (x, y), moving it costs ||xi - xi'||^2, and the loss is squared.

    ==================  ================  ==================================================================
    form                solver            what is solved
    ==================  ================  ==================================================================
    `radius`            conic             exact, (RMSE_i + radius_i ||v||)^2, unbounded support
    `radius`            descent_ascent    the same by rounds; all records in each (no `batch_size`)
    `radius=0`          descent_ascent    agnostic federated learning, `batch_size` or all records
    `penalty`           conic             exact, penalty_i / (penalty_i - ||v||^2) MSE_i, unbounded support
    `penalty`           descent_ascent    Algorithm 1 of [1]_, `support`, `inner_solver`, `batch_size`
    ==================  ================  ==================================================================

    with v = (-coef, 1), or -coef if `perturb_labels` is False.  Other combinations raise.

    Parameters
    ----------
    radius : float, array-like of shape (n_clients,) or dict, default=0.01
        W_2 distance eps_i within which each client's true distribution may lie, >= 0, in the units of the features.
        One number, one a client in sorted order, or a mapping by client label (which survives cross-validation).
        With `penalty` it serves the certificate only.
    penalty : float, array-like of shape (n_clients,), dict or None, default=None
        rho_i > 0, what a unit of squared distance costs nature; replaces the radius in the fit.  It must exceed
        ||v||^2 of every model worth having, hence 1 if responses may move.
    mixture : {"simplex", "fixed"}, default="simplex"
        "simplex": any mixture of the clients; "fixed": the mixture `client_weights`.
    mixture_radius : float in [0, 1] or None, default=None
        Share of the population that may belong to other clients than `client_weights` says:
        A = {alpha : ||alpha - client_weights||_1 <= 2 mixture_radius}.  Overrides `mixture`; 0 is "fixed", 1 is
        "simplex".
    client_weights : {"uniform", "size"}, array-like of shape (n_clients,) or dict, default="uniform"
        Nominal mixture, normalised to sum one; where the descent starts.
    perturb_labels : bool, default=True
        Whether nature may move responses as well as features.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not part of v.
    solver : {"conic", "descent_ascent"}, default="conic"
        Exact, by one conic programme whose size does not depend on the number of records; or rounds of descent in
        the model and ascent in the mixture, in which records stay with their client.
    n_rounds : int, default=1000
        Rounds of the descent.
    step_size : "auto" or float, default="auto"
        Of model and mixture.  "auto" is 1 / sqrt(n_rounds) in standardised coordinates; a number is a step in the
        units of the data, as in the paper.
    batch_size : int or None, default=None
        Records that each client draws afresh in a round; None takes all.
    average : bool, default=True
        Whether to return the average of the iterates, which the theory is about, or the last one.
    inner_solver : {"ascent", "exact"}, default="ascent"
        How nature moves a record in penalised descent: projected ascent followed by a random perturbation, or
        exactly (needs `support`).
    n_inner_steps : int, default=30
        Steps of the ascent.
    inner_step_size : "auto" or float, default="auto"
        Of the ascent; "auto" is 1 / (2 penalty).
    perturbation : float, default=0.01
        Length of the random perturbation after the ascent, in the units of the features.
    support : tuple (lo, hi) or None, default=None
        Bounds of records in penalised descent: numbers, or arrays of shape (n_features + 1,), the response last.
    model_bound : float, default=100.0
        Bound of each coefficient during the descent, in its coordinates.
    random_state : int, RandomState instance or None, default=None
        Determines samples and perturbations.
    n_jobs : int, default=None
        Workers for the clients' steps; `joblib.parallel_config` decides on the backend.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    clients_ : ndarray of shape (n_clients,)
        Sorted client labels.
    mixture_weights_ : ndarray of shape (n_clients,)
        The mixture that the model is best against.
    client_risks_ : ndarray of shape (n_clients,)
        F_i at the fitted model, in squared units of the response; infinite where a penalty is too small.
    certificate_ : float
        Bound on the mean squared error under deployment, for every mixture in A of distributions within `radius` of
        the clients' records: max over A of alpha . F, plus penalty_i radius_i^2 in the penalised form.
    history_ : dict of str to ndarray of shape (n_iter_, ...)
        "objective": max over A of alpha . F at the reported model.  With descent also "metric" (the objective minus
        the exact minimax value, of Theorem 7, if there is no `support`; not between sites), "mixture_weights"
        (n_iter_, n_clients) and "value" (alpha . g from the rounds' samples).
    n_iter_ : int
        Rounds run; 1 if conic.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If `X` has string column names.

    Warns
    -----
    SingleClientWarning
        `groups` was not given.
    ConvergenceWarning
        A penalty is not larger than ||v||^2 at the fitted or the least squares model; or the descent ended at
        `model_bound`.

    See Also
    --------
    AFLRegressor : The same without Wasserstein balls.

    Notes
    -----
    The published inner solver stops far short of the supremum that the penalised form asks for, which is what makes
    penalties close to ||v||^2 usable; the exact penalised optimum is another model.  The radius form needs no such
    care.  `radius`, `penalty`, `mixture` and `client_weights` mean the same to both solvers.

    References
    ----------
    .. [1] Liu, Li, You, Cherukuri. Distributionally Robust Federated Learning with Multi-Source Data.
       arXiv 2609.20501, (MW-DRO), eqs. (26) and (27), Algorithm 1.

    Examples
    --------
    >>> from skdro import BiDROFLRegressor
    >>> from skdro.datasets import make_multisource_regression
    >>> study = make_multisource_regression(random_state=2026)
    >>> model = BiDROFLRegressor(radius=0.02).fit(study.data, study.target, groups=study.groups)
    >>> model.coef_.round(1)
    array([ 1. ,  0.5, -0.5])
    >>> bool(model.certificate_ >= max(model.client_risks_) * (1 - 1e-6))
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **MixtureRegressor._parameter_constraints,
        "radius": [Interval(Real, 0, None, closed="left"), "array-like", dict],
        "penalty": [None, Interval(Real, 0, None, closed="neither"), "array-like", dict],
        "perturb_labels": ["boolean"],
        "inner_solver": [StrOptions({"ascent", "exact"})],
        "n_inner_steps": [Interval(Integral, 0, None, closed="left")],
        "inner_step_size": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "perturbation": [Interval(Real, 0, None, closed="left")],
        "support": [None, tuple],
    }

    def __init__(
        self,
        radius=0.01,
        penalty=None,
        *,
        mixture="simplex",
        mixture_radius=None,
        client_weights="uniform",
        perturb_labels=True,
        fit_intercept=True,
        solver="conic",
        n_rounds=1000,
        step_size="auto",
        batch_size=None,
        average=True,
        inner_solver="ascent",
        n_inner_steps=30,
        inner_step_size="auto",
        perturbation=0.01,
        support=None,
        model_bound=100.0,
        random_state=None,
        n_jobs=None,
    ):
        self.radius = radius
        self.penalty = penalty
        self.mixture = mixture
        self.mixture_radius = mixture_radius
        self.client_weights = client_weights
        self.perturb_labels = perturb_labels
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.n_rounds = n_rounds
        self.step_size = step_size
        self.batch_size = batch_size
        self.average = average
        self.inner_solver = inner_solver
        self.n_inner_steps = n_inner_steps
        self.inner_step_size = inner_step_size
        self.perturbation = perturbation
        self.support = support
        self.model_bound = model_bound
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _labels_move(self):
        return self.perturb_labels

    def _check_conic(self, penalty):
        if self.support is not None:
            raise ValueError(
                "support must be None with solver='conic', whose closed forms are for unbounded support; use "
                "solver='descent_ascent' with penalty."
            )
        if penalty is not None and self.perturb_labels and np.any(penalty <= 1):
            raise ValueError(
                "penalty must exceed 1 for each client when responses may move: every model has ||v||^2 >= 1, and "
                "its penalised risk is infinite otherwise. Raise penalty, set perturb_labels=False, or use the "
                "radius form (penalty=None)."
            )

    def _has_reference(self, problem):
        unbounded = problem.form is RADIUS or self.support is None
        return unbounded and (problem.form is RADIUS or bool(np.all(problem.level > problem.squares.label**2)))

    def _check_records(self, rows, responses):
        if self._in_rounds():
            check_support(self.support, rows, responses)

    def _local_risk(self, frame, radius, penalty):
        n_features, label = self.n_features_in_, self._label(frame)
        if penalty is not None:
            return RecordsRisk(MovedResponses(n_features, label, inner_maximisation(self, frame)), self.batch_size)
        if self.support is not None:
            raise ValueError("support is for the penalised form: give penalty, or set support=None.")
        self._check_batch(radius)
        if np.all(radius == 0):
            return RecordsRisk(UnmovedRecords(squared), self.batch_size)
        return SquaresRisk(n_features, label)
