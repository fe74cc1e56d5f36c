"""Classifier for reweighted records, exact or private: nature pays a price for weights that are far from equal."""

from math import inf
from numbers import Integral, Real
from typing import ClassVar

from ..ambiguity.divergence import KL, Capped, CressieRead, TotalVariation
from ..ambiguity.reweighting import Penalised
from ..federation.divergence_designs import DESIGNS
from ..federation.divergence_settings import Ambiguity
from ..losses.models import LinearModel
from ..solvers.total_variation import minimise_total_variation
from ._base import Interval, StrOptions
from ._divergence import DivergenceClassifier, Way

__all__ = ["DROSpiderClassifier"]

# name -> the capped divergence of an estimator
DIVERGENCES = {
    "chi2": lambda estimator: Capped(CressieRead(2.0), estimator.max_weight),
    "kl": lambda estimator: Capped(KL(), estimator.max_weight),
    "kl_cvar": lambda estimator: Capped(KL(), min(estimator.max_weight, 1.0 / estimator.tail)),
    "cressie_read": lambda estimator: Capped(CressieRead(estimator.order), estimator.max_weight),
    "tv": lambda estimator: Capped(TotalVariation(), estimator.max_weight),
}


class DROSpiderClassifier(DivergenceClassifier):
    """Classifier that is robust to reweighted records: divergence DRO, exact or differentially private.

    Minimises the worst mean loss over all weights of the records, where nature pays `penalty` times a divergence
    from equal weights and no weight exceeds `max_weight` [1]_:

        max_p  sum_i p_i l_i(x) - penalty / n sum_i psi(n p_i),    0 <= n p_i <= max_weight.

    With ``epsilon=None`` the problem is solved exactly; otherwise by private descent under a total budget.

    Parameters
    ----------
    epsilon : float or None, default=None
        Total budget of one fit, > 0.  None fits exactly and without privacy.
    delta : float, default=1e-5
        Total budget of one fit, in (0, 1); read only if `epsilon` is given, as is every parameter below that says
        "private".
    divergence : {"chi2", "kl", "kl_cvar", "cressie_read", "tv"}, default="chi2"
        psi.  "kl_cvar" is Kullback-Leibler with weights of at most 1 / `tail`; "tv" (total variation) is exact only
        and takes a linear model.
    penalty : float, default=1.0
        lambda > 0: what nature pays.  Towards 0 the objective is the mean of the worst 1 / `max_weight` of the
        losses, towards infinity the plain mean.
    solver : {"auto", "exact", "dpgd", "dpsgda", "storm", "double_spider", "privatediff", "erm"}, default="auto"
        "auto" is "exact" without and "dpgd" with `epsilon`.  The others are private: "dpgd" is plain descent on
        (x, eta), "double_spider", "storm" and "privatediff" follow the gradients by their changes, "dpsgda" has a
        dual variable for each record, "erm" is the baseline without reweighting.
    max_weight : float, default=10.0
        Cap on the weight of a record, > 1.
    order : float, default=1.5
        Order k > 1 of "cressie_read"; at most 2 in a private fit.
    tail : float, default=0.2
        Level in (0, 1) of "kl_cvar".
    hidden_layer_sizes : tuple, default=()
        () for a linear model, (h,) for a network with one layer of h tanh units.
    network : skdro.torch.Network, default=None
        A PyTorch module in place of both; `fit_intercept` adds no constant to what it sees, as it has biases.
    reg : float, default=1e-4
        Ridge:  reg / 2 times the squared norm of the coefficients (no intercepts) is added; public.
    sampling_rate : float or pair of float, default=1.0
        Private.  Probability with which each record takes part in an iteration, in (0, 1].  "storm" and
        "double_spider" also take a pair: of the iterations that sum all afresh, and of the others.  Below one the
        records are drawn by coins that nobody but their client sees, sums are divided by the *expected* size of the
        batch, all releases of an iteration share its batch, and the iterations are accounted by privacy loss
        distributions: ``pip install "skdro[subsampling]"``.
    aggregation : {"local", "trusted"}, default="local"
        Private.  Every client adds its own noise, or it is added once to the sum over clients by whoever sees it.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        Private.  What one record more or less means.
    data_norm : float, default=1.0
        Private.  Rows, constant column included, are clipped to this l2 norm.
    feature_bounds : pair (lo, hi), default=None
        Private.  Public box of the features; they are clipped to it and mapped to [-1, 1].  Recommended.
    classes : array-like of shape (n_classes,), default=None
        Private.  Public list of possible labels.  None reads them from `y`, with a warning.
    budget : {"total", "per_round"}, default="total"
        Private.  What (epsilon, delta) means.
    accountant : {"auto", "gdp", "moments", "pld"}, default="auto"
        Private.  Exact composition "gdp" or the papers' looser bound "moments" of full batches, "pld" of sampled
        ones; "auto" takes "gdp" or "pld".
    n_rounds : int, default=30
        Private.  Iterations, all of them charged.
    step_size : float or "auto", default="auto"
        Private.  Step of the model.  "auto" goes a way that did well in simulations, for linear models and for
        networks, in `n_rounds` steps: the way is longer the less public noise there is.  It is meant for the
        default momentum.
    clip_norm : float, default=1.0
        Private.  C: the weighted gradient of each record is clipped to this norm.
    momentum : float, default=0.9
        Private.  In [0, 1), of "dpgd", "dpsgda" and "erm", which also return the average of the last half.
    refresh_every : int, default=5
        Private.  q: iterations between two full gradients of "double_spider" and "privatediff".
    eta_noise_ratio : float, default=2.0
        Private.  Noise multiplier of the mean weight over that of the gradient.
    difference_noise_ratio : float, default=3.0
        Private.  Noise multiplier of a change over that of a full sum.
    difference_slope : float, default=0.1
        Private.  C1: changes of a gradient are clipped to this times how far the iterates moved.
    weight_slope : float, default=3.0
        Private.  Ce: the same for changes of a weight.
    mixing : float, default=0.6
        Private.  Share of the full gradient in each iteration of "storm", in (0, 1].
    eta_step_size : float, default=0.5
        Private.  Step of the shift eta, which starts at log(n_classes).
    eta_max : float, default=10.0
        Private.  The shift stays in [0, eta_max].
    n_eta_steps : int, default=5
        Private.  Steps of the shift for each of the model in "privatediff".
    dual_step_size : float, default=0.5
        Private.  Step of the dual variables of "dpsgda".
    fit_intercept : bool, default=True
    tol : float, default=1e-6
        Exact fit only: largest entry of the gradient, or relative certified gap, at which a fit counts as converged.
    max_iter : int, default=1000
        Exact fit only.
    init_seed : int, default=0
        Of the public start of a network; a linear model starts at zero.
    diagnostics : "not-private" or None, default=None
        Private.  "not-private" adds the exact objective to `history_` and takes the privacy claim away.
    random_state : None, int or numpy.random.Generator, default=None
        Private.  None draws the noise from the operating system; anything else is reproducible, **not private**.
    n_jobs : int, default=None

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) if binary
        In the user's units; linear models only.
    intercept_ : ndarray of shape (n_classes,), or (1,) if binary
    classes_ : ndarray of shape (n_classes,)
    clients_ : ndarray of shape (n_clients,)
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
    worst_case_risk_ : float
        Exact fit only: what the model was trained to keep small, without the ridge.
    sample_weights_ : ndarray of shape (n_samples,)
        Exact fit only: nature's weights of the training rows, of mean one.
    dual_gap_ : float
        Exact fit only: certified distance to the optimum; infinite for a network or without a ridge.
    gradient_norm_ : float
        Exact fit only: largest entry of the objective's gradient in the coordinates of the search.
    shift_ : float
        Exact fit only: eta of the worst case.
    temperature_ : float
        Exact fit only: lambda of the worst case.
    privacy_ : PrivacyReport
        Private fit only.
    history_ : dict of str to ndarray of shape (n_iter_,)
        Private fit only: functions of the releases, such as "gradient_norm", "shift" and "mean_weight".

    Warns
    -----
    ConvergenceWarning
        The exact fit ended before `tol`.
    PrivacyLeakWarning
        `random_state` is set, `classes` is read from `y`, or `delta` is large for the smallest client.

    Notes
    -----
    Variance reduction rarely pays at equal, exact privacy: "double_spider", "storm" and "privatediff" are there for
    fidelity; the default is plain descent.  It is about level with private ERM (``solver="erm"``), whose steps follow
    the noise in the same way (``examples/benchmarks/divergence_private.py``).

    References
    ----------
    .. [1] Xu et al. Differentially Private Non-convex Distributionally Robust Optimization. arXiv 2602.16155,
       equation (2) and Algorithm 2, with conjugates, cap and constants derived anew.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro import DROSpiderClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DROSpiderClassifier(divergence="chi2", penalty=0.5, reg=1e-2).fit(X, y)
    >>> bool(model.dual_gap_ < 1e-6), round(float(model.sample_weights_.mean()), 6)
    (True, 1.0)
    >>> private = DROSpiderClassifier(
    ...     epsilon=5.0, delta=1e-4, classes=[0, 1, 2], feature_bounds=([4, 2, 1, 0], [8, 4.5, 7, 2.5])).fit(X, y)
    >>> private.privacy_
    PrivacyReport: (epsilon, delta) = (5, 0.0001) for one record, replace-one...
    """

    _parameter_constraints: ClassVar[dict] = {
        **DivergenceClassifier._parameter_constraints,
        "divergence": [StrOptions(set(DIVERGENCES))],
        "penalty": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"auto", "exact", *DESIGNS})],
        "order": [Interval(Real, 1, None, closed="neither")],
        "tail": [Interval(Real, 0, 1, closed="neither")],
        "mixing": [Interval(Real, 0, 1, closed="right")],
        "eta_step_size": [Interval(Real, 0, None, closed="neither")],
        "eta_max": [Interval(Real, 0, None, closed="neither")],
        "n_eta_steps": [Interval(Integral, 1, None, closed="left")],
        "dual_step_size": [Interval(Real, 0, None, closed="neither")],
    }

    _designs: ClassVar[dict] = DESIGNS

    _ways: ClassVar[dict] = {
        "dpgd": (Way(960.0, 0.01), Way(240.0, 0.1)),
        "dpsgda": (Way(480.0, 0.03), Way(240.0, 0.1)),
        "storm": (Way(1920.0, 0.01), Way(240.0, 0.1)),
        "double_spider": (Way(960.0, 0.01), Way(120.0, inf)),
        "privatediff": (Way(960.0, 0.03), Way(120.0, inf)),
        "erm": (Way(960.0, 0.01), Way(240.0, 0.1)),
    }

    def __init__(
        self,
        epsilon=None,
        delta=1e-5,
        divergence="chi2",
        penalty=1.0,
        *,
        solver="auto",
        max_weight=10.0,
        order=1.5,
        tail=0.2,
        hidden_layer_sizes=(),
        network=None,
        reg=1e-4,
        sampling_rate=1.0,
        aggregation="local",
        adjacency="replace_one",
        data_norm=1.0,
        feature_bounds=None,
        classes=None,
        budget="total",
        accountant="auto",
        n_rounds=30,
        step_size="auto",
        clip_norm=1.0,
        momentum=0.9,
        refresh_every=5,
        eta_noise_ratio=2.0,
        difference_noise_ratio=3.0,
        difference_slope=0.1,
        weight_slope=3.0,
        mixing=0.6,
        eta_step_size=0.5,
        eta_max=10.0,
        n_eta_steps=5,
        dual_step_size=0.5,
        fit_intercept=True,
        tol=1e-6,
        max_iter=1000,
        init_seed=0,
        diagnostics=None,
        random_state=None,
        n_jobs=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.divergence = divergence
        self.penalty = penalty
        self.solver = solver
        self.max_weight = max_weight
        self.order = order
        self.tail = tail
        self.hidden_layer_sizes = hidden_layer_sizes
        self.network = network
        self.reg = reg
        self.sampling_rate = sampling_rate
        self.aggregation = aggregation
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.feature_bounds = feature_bounds
        self.classes = classes
        self.budget = budget
        self.accountant = accountant
        self.n_rounds = n_rounds
        self.step_size = step_size
        self.clip_norm = clip_norm
        self.momentum = momentum
        self.refresh_every = refresh_every
        self.eta_noise_ratio = eta_noise_ratio
        self.difference_noise_ratio = difference_noise_ratio
        self.difference_slope = difference_slope
        self.weight_slope = weight_slope
        self.mixing = mixing
        self.eta_step_size = eta_step_size
        self.eta_max = eta_max
        self.n_eta_steps = n_eta_steps
        self.dual_step_size = dual_step_size
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.init_seed = init_seed
        self.diagnostics = diagnostics
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _divergence(self):
        return DIVERGENCES[self.divergence](self)

    def _check_solver(self):
        super()._check_solver()
        if self.epsilon is None:
            if self.divergence == "tv" and (self._hidden_units() is not None or self.network is not None):
                raise ValueError('divergence="tv" takes a linear model: use hidden_layer_sizes=() and network=None.')
        elif self.divergence == "tv":
            raise ValueError('divergence="tv" has weights that jump and is exact only: use epsilon=None.')
        elif self.divergence == "cressie_read" and self.order > 2:
            raise ValueError(
                f"order must be at most 2 in a private fit, where weights have to change at a bounded rate; got "
                f"{self.order}."
            )

    def _risk(self):
        return Penalised(self._divergence(), float(self.penalty))

    def _minimise(self, model, records, risk, ridge):
        if not risk.smooth and isinstance(model, LinearModel):
            return minimise_total_variation(model, records, risk, ridge)
        return super()._minimise(model, records, risk, ridge)

    def _ambiguity(self):
        return Ambiguity(
            divergence=self._divergence(),
            penalty=self.penalty,
            shift_step=self.eta_step_size,
            shift_max=self.eta_max,
            eta_noise_ratio=self.eta_noise_ratio,
            weight_slope=self.weight_slope,
            n_shift_steps=self.n_eta_steps,
            dual_step=self.dual_step_size,
        )

    def _descent_settings(self):
        return {"mixing": self.mixing}
