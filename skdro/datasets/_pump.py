"""Sampling of pump runs: which fault, how severe, at which site, and what the sensors make of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import Bunch

from ._clients import apportion, check_integer
from ._dominant import split_clients_by_dominant_class
from ._noise import flip_labels
from ._pump_features import FEATURE_NAMES, flow_features
from ._pump_physics import PumpParameters, start, step
from ._random import RandomStateLike, as_generator

__all__ = ["make_pump_faults"]

TARGET_NAMES = ("healthy", "cylinder leak", "blocked inlet", "bearing friction")
N_LEVELS = 10
# Level 1 is a sound pump, level 10 the worst; levels are equally spaced in what the fault costs.
LEAK_AREA = np.linspace(0, 3.0e-6, N_LEVELS)  # m2 past the seal of the first plunger
STRAINER_LOSS = np.linspace(1, 6.4, N_LEVELS)  # loss coefficient of the strainer over that of a clean one
FAULTY_FRICTION = np.linspace(0, 0.02, N_LEVELS)  # N m s

SAMPLING_RATE = 1000.0  # Hz
SUBSTEPS = 20  # solver steps a sample
TRANSIENT = 200  # samples before the record starts
# Runs simulated together.  It does not depend on n_jobs, so that neither do the results.
CHUNK = 1000

# Relative standard deviations from run to run, and between sites
RUN_SPREAD = {
    "synchronous_speed": 0.002,
    "throttle": 0.015,
    "gas_volume": 0.08,
    "bearing_friction": 0.15,
    "manifold_compliance": 0.03,
}
SITE_SPREAD = {
    "synchronous_speed": 0.002,
    "throttle": 0.03,
    "gas_volume": 0.08,
    "bearing_friction": 0.15,
    "manifold_compliance": 0.05,
}
# no seal is perfect: every run has a leak of up to this area past the first plunger, m2
SEAL_WEAR = 0.6e-6
TRAINING_NOISE_FACTOR = 2.0
# features whose sensors have drifted at deployment
DRIFTING = ("mean", "variance", "peak_to_peak", "rms", "power_40_60_hz")


@dataclass(frozen=True)
class _Runs:
    """The lottery of all runs, drawn before the first is simulated; arrays of shape (n_runs,)."""

    fault: np.ndarray
    severity: np.ndarray
    site: np.ndarray
    theta: np.ndarray
    seal_wear: np.ndarray
    factor: dict[str, np.ndarray]

    def parameters(self, rows: slice) -> PumpParameters:
        """The pumps of some runs."""
        sound = PumpParameters()
        level = self.severity[rows] - 1
        varied = {name: getattr(sound, name) * factor[rows] for name, factor in self.factor.items()}
        fault = self.fault[rows]
        return replace(
            sound,
            leak_area=self.seal_wear[rows] + np.where(fault == 1, LEAK_AREA[level], 0.0),
            strainer_area=sound.strainer_area / np.sqrt(np.where(fault == 2, STRAINER_LOSS[level], 1.0)),
            faulty_friction=np.where(fault == 3, FAULTY_FRICTION[level], 0.0),
            **varied,
        )


def make_pump_faults(
    n_samples_per_class: Sequence[int] = (750, 418, 418, 414),
    *,
    n_times: int = 1000,
    n_sites: int = 4,
    dominant_share: float = 0.7,
    site_spread: float = 1.0,
    leak_levels: Sequence[int] = (5, 6),
    inlet_levels: Sequence[int] = (3, 4),
    friction_levels: Sequence[int] = (7, 8, 9),
    sensor_noise: float = 0.0,
    label_flip: float = 0.0,
    deployment_offset: float = 0.0,
    deployed_share: float = 0.2,
    return_X_y_groups: bool = False,
    return_traces: bool = False,
    random_state: RandomStateLike = None,
    n_jobs: int | None = None,
) -> Bunch | Any:
    """Simulate a three-plunger pump with single faults and describe its outlet flow by 13 features.

    A physical simulation (crank, chambers with liquid and gas, check valves, suction and discharge lines) at
    about 950 rpm, 7 bar and 38 l/min.  Each run is a record at 1 kHz of one pump, healthy or with a leaking
    cylinder, a blocked inlet or a dry bearing, whose severity is one of ten levels (1 is sound).  Runs differ
    in speed, throttle, gas content, friction, compliance, seal wear and crank angle; sites differ in the
    means of the first five.

    Sensors and deployment, all off by default: a share of the runs is marked as deployed (the test rows); the
    others are for training.  Deployed features get noise and, five of them, a constant offset; training
    features get twice that noise, and a share of the training labels is wrong.

    Parameters
    ----------
    n_samples_per_class : sequence of 4 ints, default=(750, 418, 418, 414)
        Runs that are healthy, leak, have a blocked inlet, have bearing friction.
    n_times : int, default=1000
        Samples of a run, one a millisecond, after a start transient of 0.2 s; at least 50.
    n_sites : int, default=4
        Number of sites, of equal size; each sees every class and mostly its dominant one.
    dominant_share : float, default=0.7
        Share of the dominant class at a site: see :func:`split_clients_by_dominant_class`.
    site_spread : float, default=1.0
        Scale of the differences between the pumps of the sites; 0 makes them identical.
    leak_levels, inlet_levels, friction_levels : sequence of int, default=(5, 6), (3, 4), (7, 8, 9)
        Severities of each fault, drawn uniformly; from 1 to 10.
    sensor_noise : float, default=0.0
        Standard deviation of the Gaussian noise of deployed features, in standard deviations of each feature
        over the clean runs.  Training features get twice as much.
    label_flip : float, default=0.0
        Share of the training labels that are replaced by another class.
    deployment_offset : float, default=0.0
        Constant that is added to five features of the deployed runs (mean, variance, peak to peak, rms, power
        between 40 and 60 Hz), in standard deviations of each feature.
    deployed_share : float, default=0.2
        Share of the runs of each class that is deployed, at most .9.
    return_X_y_groups : bool, default=False
        Return ``(data, target, groups)`` instead of a Bunch.
    return_traces : bool, default=False
        Keep the flow traces in the Bunch (8 kB a run).
    random_state : int, RandomState instance, Generator or None, default=None
        Determines everything that is drawn.
    n_jobs : int or None, default=None
        Parallel jobs; the result does not depend on it.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        data : ndarray of shape (n_runs, 13)
            Features of the flow, in `feature_names`; flow in l/min, frequency in Hz.
        target : ndarray of int, shape (n_runs,)
            Index into `target_names`, some wrong if `label_flip` is positive.
        true_target : ndarray of int, shape (n_runs,)
            The fault that was simulated.
        groups : ndarray of int, shape (n_runs,)
            Site, 0 to ``n_sites - 1``.
        severity : ndarray of int, shape (n_runs,)
            Level from 1 to 10.
        deployed : ndarray of bool, shape (n_runs,)
            Whether the run is a test run.
        traces : ndarray of shape (n_runs, n_times)
            Flow in l/min; with `return_traces` only.
        feature_names, target_names, DESCR
            What they say.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Equations, scheme and sources stand at the top of ``skdro.datasets._pump_physics``.  Levels, class sizes and
    features follow [1]_, which uses another simulator [2]_: the values of the features cannot be compared.

    References
    ----------
    .. [1] Hernandez, Ibrahim, Gebraeel, "Private and distributionally robust federated multiclass
       classification", arXiv 2610.13631, section on the pump and Appendix.
    .. [2] MathWorks, "Multi-class fault detection using simulated data", documentation of the Predictive
       Maintenance Toolbox.

    Examples
    --------
    >>> from skdro.datasets import make_pump_faults
    >>> pump = make_pump_faults((3, 2, 2, 2), n_sites=2, n_times=100, random_state=0)
    >>> pump.data.shape
    (9, 13)
    >>> bool(37 < pump.data[pump.target == 0, 0].mean() < 39)
    True
    """
    counts = _check_counts(n_samples_per_class)
    levels = {
        "leak_levels": leak_levels,
        "inlet_levels": inlet_levels,
        "friction_levels": friction_levels,
    }
    _check_levels(levels)
    check_integer("n_times", n_times, minimum=50)
    check_integer("n_sites", n_sites, minimum=1)
    _check_number("site_spread", site_spread, 0, np.inf)
    _check_number("sensor_noise", sensor_noise, 0, np.inf)
    _check_number("label_flip", label_flip, 0, 1)
    _check_number("deployment_offset", deployment_offset, -np.inf, np.inf)
    _check_number("deployed_share", deployed_share, 0, 0.9)

    rng = as_generator(random_state)
    runs = _draw_runs(counts, [(1,), *levels.values()], n_sites, dominant_share, site_spread, rng)
    deployed = _draw_deployed(runs.fault, deployed_share, rng)
    chunks = [slice(first, first + CHUNK) for first in range(0, len(runs.fault), CHUNK)]
    flows = Parallel(n_jobs=n_jobs)(delayed(_simulate)(runs.parameters(c), runs.theta[c], n_times) for c in chunks)
    flow = np.concatenate(flows)
    data = flow_features(flow, SAMPLING_RATE)
    data = _sense(data, deployed, sensor_noise, deployment_offset, rng)
    target = runs.fault.copy()
    target[~deployed] = flip_labels(target[~deployed], label_flip, random_state=rng)
    if return_X_y_groups:
        return data, target, runs.site
    return Bunch(
        data=data,
        target=target,
        true_target=runs.fault,
        groups=runs.site,
        severity=runs.severity,
        deployed=deployed,
        feature_names=list(FEATURE_NAMES),
        target_names=list(TARGET_NAMES),
        DESCR=make_pump_faults.__doc__,
        **({"traces": flow} if return_traces else {}),
    )


def _check_counts(n_samples_per_class):
    counts = np.asarray(n_samples_per_class)
    if counts.shape != (len(TARGET_NAMES),) or counts.dtype.kind != "i" or counts.min() < 0 or not counts.sum():
        raise ValueError(
            f"n_samples_per_class must hold {len(TARGET_NAMES)} numbers of runs, got {n_samples_per_class!r}."
        )
    return counts


def _check_levels(levels):
    for name, values in levels.items():
        if not len(values) or not all(v in range(1, N_LEVELS + 1) for v in values):
            raise ValueError(f"{name} must hold whole numbers from 1 to {N_LEVELS}, got {values!r}.")


def _check_number(name, value, low, high):
    if not isinstance(value, Real) or not np.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{name} must be a finite number in [{low}, {high}], got {value!r}.")


def _draw_runs(counts, levels, n_sites, dominant_share, site_spread, rng):
    fault = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    severity = np.select([fault == k for k in range(len(counts))], [rng.choice(v, len(fault)) for v in levels])
    site = split_clients_by_dominant_class(fault, n_sites, dominant_share, random_state=rng)
    factor = {}
    for name, spread in RUN_SPREAD.items():
        at_site = 1 + site_spread * SITE_SPREAD[name] * rng.uniform(-np.sqrt(3), np.sqrt(3), n_sites)
        factor[name] = at_site[site] * (1 + spread * rng.standard_normal(len(fault)).clip(-4, 4))
    theta = rng.uniform(0, 2 * np.pi, len(fault))
    return _Runs(fault, severity, site, theta, rng.uniform(0, SEAL_WEAR, len(fault)), factor)


def _draw_deployed(fault, share, rng):
    """Mark the share of each class, rounded so that the total is right, at random."""
    deployed = np.zeros(len(fault), dtype=bool)
    classes, counts = np.unique(fault, return_counts=True)
    n_deployed = round(share * len(fault))
    for k, n_rows in zip(classes, apportion(n_deployed, counts.astype(float), 0), strict=True):
        deployed[rng.choice(np.flatnonzero(fault == k), n_rows, replace=False)] = True
    return deployed


def _simulate(pump, theta, n_times):
    """Outlet flow in l/min of each run, shape (n_runs, n_times)."""
    state = start(pump, theta)
    flow = np.empty((len(theta), n_times))
    for sample in range(TRANSIENT + n_times):
        for _ in range(SUBSTEPS):
            step(pump, state, 1 / (SAMPLING_RATE * SUBSTEPS))
        if sample >= TRANSIENT:
            flow[:, sample - TRANSIENT] = 60e3 * state.flow
    return flow


def _sense(data, deployed, sensor_noise, deployment_offset, rng):
    """Features as the sensors report them; noise and offset in standard deviations of the clean features."""
    scale = data.std(axis=0)
    noise = sensor_noise * np.where(deployed, 1.0, TRAINING_NOISE_FACTOR)[:, np.newaxis]
    drift = np.isin(FEATURE_NAMES, DRIFTING) * deployment_offset * scale
    return data + noise * scale * rng.standard_normal(data.shape) + deployed[:, np.newaxis] * drift
