"""Classifier for reweighted records, exact or private: the weights stay within a ball around equal ones."""

from dataclasses import replace
from math import ceil
from numbers import Real
from typing import ClassVar

import numpy as np

from ..ambiguity.reweighting import KLBall
from ..federation.divergence_designs import KL_DESIGNS
from ..federation.divergence_settings import KLBallSettings
from ..losses.models import LinearModel
from ..solvers.moving_average import moving_averages
from ..solvers.reweighted import solution_at
from ._base import Interval, StrOptions
from ._divergence import DivergenceClassifier, Way

__all__ = ["KLDROSpiderClassifier"]

SCDRO_STEP = 0.3  # the steps of noisy full batches would be too long for mini-batches


class KLDROSpiderClassifier(DivergenceClassifier):
    """Classifier that is robust to reweighted records within a Kullback-Leibler ball, exact or private.

    Minimises  max { p.l(x) + min_temperature (radius - KL(p)) : KL(p) <= radius, n p_i <= max_weight }  with
    KL(p) = mean of psi(n p_i), psi(t) = t log t - t + 1 [1]_: the worst mean loss over all weights within the ball,
    up to the small second term, which keeps the temperature away from zero.

    Parameters
    ----------
    epsilon : float or None, default=None
        Total budget of one fit, > 0.  None fits exactly and without privacy.
    delta : float, default=1e-5
        Total budget of one fit, in (0, 1); read only if `epsilon` is given, as is every parameter below that says
        "private".
    radius : float, default=0.1
        rho > 0: how far the weights may be from equal ones, in nats.
    solver : {"auto", "exact", "scdro", "dpgd", "recursive_spider"}, default="auto"
        "auto" is "exact" without and "dpgd" with `epsilon`; "recursive_spider" follows gradients by their changes.
        "scdro" is not private: the stochastic reference of [1]_, descent on mini-batches with moving averages [2]_,
        which on batches comes near the exact solution and no further; begin with ``temperature_step_size=0.02``:
        steps as long as the default diverge.
    max_weight : float, default=10.0
        Cap on the weight of a record, > 1; "scdro" has none.
    min_temperature : float, default=0.1
        Smallest temperature, > 0; at least 0.1 in a private fit.
    max_temperature : float, default=10.0
        Private.  Largest temperature.
    temperature_start : float, default=1.0
        Private, and of "scdro".  In [min_temperature, max_temperature].
    temperature_step_size : float, default=0.1
        Private, and of "scdro".
    mixing : float, default=0.1
        Of "scdro": share of the batch in the moving averages, in (0, 1].
    hidden_layer_sizes : tuple, default=()
        () for a linear model, (h,) for a network with one layer of h tanh units.
    network : skdro.torch.Network, default=None
        A PyTorch module in place of both; `fit_intercept` adds no constant to what it sees, as it has biases.
    reg : float, default=1e-4
        Ridge on the coefficients (no intercepts); public.
    sampling_rate : float or pair of float, default=1.0
        Private.  Probability with which each record takes part in an iteration, in (0, 1].  "recursive_spider" also
        takes a pair: of the iterations that sum all afresh, and of the others.  Below one the records are drawn by
        coins that nobody but their client sees, sums are divided by the *expected* size of the batch, all releases
        of an iteration share its batch, and the iterations are accounted by privacy loss distributions:
        ``pip install "skdro[subsampling]"``.  Of "scdro": share of the records in each batch.
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
        Private, and of "scdro", which takes it for features scaled to rows of mean square one.  Step of the model.
        "auto" goes a way that did well in simulations, for linear models and for networks, in `n_rounds` steps: the
        way is longer the less public noise there is.  It is meant for the default momentum.  That of "scdro" is 0.3.
    clip_norm : float, default=2.0
        Private.  C: the weighted gradient of each record is clipped to this norm.
    momentum : float, default=0.9
        Private.  In [0, 1), of "dpgd", which also returns the average of the last half.
    refresh_every : int, default=5
        Private.  q: iterations between two full gradients of "recursive_spider".
    eta_noise_ratio : float, default=2.0
        Private.  Noise multiplier of the mean exponential and entropy over that of the gradient.
    difference_noise_ratio : float, default=3.0
        Private.  Noise multiplier of a change over that of a full sum.
    difference_slope : float, default=0.1
        Private.  C1: changes of a gradient are clipped to this times how far the iterates moved.
    weight_slope : float, default=3.0
        Private.  Ce: the same for changes of an exponential.
    fit_intercept : bool, default=True
    tol : float, default=1e-6
        Without `epsilon` only: largest entry of the gradient, or relative certified gap, at which a fit counts as
        converged; "scdro" does not stop there.
    max_iter : int, default=1000
        Without `epsilon` only; "scdro" takes all of these steps.
    init_seed : int, default=0
        Of the public start of a network.
    diagnostics : "not-private" or None, default=None
        Private.
    random_state : None, int or numpy.random.Generator, default=None
        Private.  None draws the noise from the operating system; anything else is reproducible, **not private**.
        Of "scdro": draws the batches.
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
    dual_gap_ : float
        Exact fit only: certified distance to the optimum; infinite for a network or without a ridge.
    gradient_norm_ : float
        Exact fit only: largest entry of the objective's gradient in the coordinates of the search.
    shift_ : float
        Exact fit only: eta of the worst case.
    temperature_ : float
        Exact fit only: lambda of the worst case.
    sample_weights_ : ndarray of shape (n_samples,)
        Exact fit only: nature's weights of the training rows, of mean one.
    privacy_ : PrivacyReport
        Private fit only.
    history_ : dict of str to ndarray of shape (n_iter_,)
        Private fit only.

    References
    ----------
    .. [1] Xu et al. Differentially Private Non-convex Distributionally Robust Optimization. arXiv 2602.16155,
       Algorithm 3, with a public running shift that bounds every exponential.
    .. [2] Qi, Lyu, Chan, Bai, Yang. Stochastic Constrained DRO with a Complexity Independent of Sample Size.
       arXiv 2210.05740.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skdro import KLDROSpiderClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), KLDROSpiderClassifier(radius=0.2, reg=1e-2)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9), bool(model[-1].dual_gap_ < 1e-6)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **DivergenceClassifier._parameter_constraints,
        "radius": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"auto", "exact", "scdro", *KL_DESIGNS})],
        "min_temperature": [Interval(Real, 0, None, closed="neither")],
        "max_temperature": [Interval(Real, 0, None, closed="neither")],
        "temperature_start": [Interval(Real, 0, None, closed="neither")],
        "temperature_step_size": [Interval(Real, 0, None, closed="neither")],
        "mixing": [Interval(Real, 0, 1, closed="right")],
    }

    _not_private: ClassVar[tuple[str, ...]] = ("exact", "scdro")

    _designs: ClassVar[dict] = KL_DESIGNS

    _ways: ClassVar[dict] = {
        "dpgd": (Way(480.0, 0.03), Way(240.0, 0.03)),
        "recursive_spider": (Way(960.0, 0.003), Way(120.0, 0.1)),
    }

    def __init__(
        self,
        epsilon=None,
        delta=1e-5,
        radius=0.1,
        *,
        solver="auto",
        max_weight=10.0,
        min_temperature=0.1,
        max_temperature=10.0,
        temperature_start=1.0,
        temperature_step_size=0.1,
        mixing=0.1,
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
        clip_norm=2.0,
        momentum=0.9,
        refresh_every=5,
        eta_noise_ratio=2.0,
        difference_noise_ratio=3.0,
        difference_slope=0.1,
        weight_slope=3.0,
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
        self.radius = radius
        self.solver = solver
        self.max_weight = max_weight
        self.min_temperature = min_temperature
        self.max_temperature = max_temperature
        self.temperature_start = temperature_start
        self.temperature_step_size = temperature_step_size
        self.mixing = mixing
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
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.init_seed = init_seed
        self.diagnostics = diagnostics
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_solver(self):
        super()._check_solver()
        if self.epsilon is None:
            return
        if self.min_temperature < 0.1:
            raise ValueError(f"min_temperature must be at least 0.1 in a private fit; got {self.min_temperature}.")
        if not self.min_temperature <= self.temperature_start <= self.max_temperature:
            raise ValueError("temperature_start must lie in [min_temperature, max_temperature].")

    def _risk(self):
        return KLBall(float(self.radius), float(self.min_temperature), float(self.max_weight))

    def _exact_frame(self, X, model):
        frame = super()._exact_frame(X, model)
        if self.solver != "scdro" or not isinstance(model, LinearModel):
            return frame
        # the steps of the private solvers are for rows of norm one
        return replace(frame, scale=frame.scale * np.sqrt(X.shape[1]))

    def _minimise(self, model, records, risk, ridge):
        if self.solver != "scdro":
            return super()._minimise(model, records, risk, ridge)
        n = len(records.y)
        rate, _ = self._sampling_rates()
        found = moving_averages(
            model,
            records,
            self._start(model),
            radius=self.radius,
            min_temperature=self.min_temperature,
            ridge=ridge,
            step=SCDRO_STEP if self.step_size == "auto" else self.step_size,
            temperature_step=self.temperature_step_size,
            rate=self.mixing,
            batch_size=ceil(rate * n),
            n_steps=self.max_iter,
            temperature_start=self.temperature_start,
            rng=np.random.default_rng(self.random_state),
        )
        uncapped = replace(risk, max_weight=float(n))  # no weight of mean one exceeds n
        return solution_at(model, records, uncapped, ridge, found.parameters, self.max_iter)

    def _remedy(self):
        if self.solver != "scdro":
            return super()._remedy()
        return (
            'Lower step_size and temperature_step_size, raise max_iter, or use solver="exact"; a larger tol accepts '
            "what was reached."
        )

    def _ambiguity(self):
        return KLBallSettings(
            radius=self.radius,
            max_weight=self.max_weight,
            temperatures=(self.min_temperature, self.max_temperature),
            temperature_start=self.temperature_start,
            temperature_step=self.temperature_step_size,
            eta_noise_ratio=self.eta_noise_ratio,
            weight_slope=self.weight_slope,
        )
