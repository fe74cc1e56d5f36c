"""What a private divergence fit is told: plain public numbers, nothing that comes from a record."""

from dataclasses import dataclass, field
from math import inf

import numpy as np

from ..ambiguity.divergence import Capped
from ..losses.models import Model
from ..privacy.accounting import Accountant
from ..privacy.noise import NoiseSource
from ..privacy.plan import Aggregation
from ..privacy.sensitivity import Adjacency
from .divergence_batches import FullBatches, PoissonBatches

__all__ = ["Ambiguity", "Budget", "Descent", "Facts", "KLBallSettings"]


@dataclass(frozen=True)
class Budget:
    """What the fit may cost, for whom, and on which batches.

    `epsilon` and `delta` are of the whole fit or, by `budget`, of a round; `accountant` is that of full batches.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    aggregation: Aggregation
    accountant: Accountant
    budget: str = "total"
    batches: FullBatches | PoissonBatches = field(default_factory=FullBatches)


@dataclass(frozen=True)
class Descent:
    """How the model moves, and how its means are followed; all public.

    Parameters
    ----------
    n_rounds : int
        T, iterations; all of them charged.
    step : float
        Step size of the model where the noise is small.
    clip_norm : float
        C, of each record's weighted gradient.
    momentum : float
        In [0, 1); used where all is summed afresh in each iteration, as is the average of the last half.
    ridge : float
        On the penalised parameters:  ridge / 2 ||x||^2  is added to the objective.
    knee : float
        Noise at which the step is shorter by sqrt(2); see `step_size` of `divergence_plan`.  Infinite: the step does
        not depend on the noise.
    refresh_every : int
        q, of the SPIDER solvers.
    difference_noise_ratio : float
        r.
    difference_slope : float
        C1: clip of a changed gradient for iterates that moved by one.
    mixing : float
        beta of STORM.
    """

    n_rounds: int
    step: float
    clip_norm: float = 1.0
    momentum: float = 0.8
    ridge: float = 0.0
    knee: float = inf
    refresh_every: int = 5
    difference_noise_ratio: float = 3.0
    difference_slope: float = 0.1
    mixing: float = 0.6


@dataclass(frozen=True)
class Ambiguity:
    """The penalised problem, and how its shift eta moves.

    Parameters
    ----------
    divergence : Capped
        Of bounded weight slope for the SPIDER solvers.
    penalty : float
        lam > 0.
    shift_step : float
        lr_eta.
    shift_max : float
        eta stays in [0, shift_max].
    eta_noise_ratio : float
        kappa.
    weight_slope : float
        Ce: clip of a changed weight for iterates that moved by one.
    shift_scale : float
        kap_e: distance in x that a unit of eta counts for in the clip of a changed gradient.
    n_shift_steps : int
        T2 of PrivateDiff.
    dual_step : float
        tau of DP-SGDA.
    """

    divergence: Capped
    penalty: float
    shift_step: float = 0.5
    shift_max: float = 10.0
    eta_noise_ratio: float = 2.0
    weight_slope: float = 3.0
    shift_scale: float = 1.0
    n_shift_steps: int = 5
    dual_step: float = 0.5


@dataclass(frozen=True)
class KLBallSettings:
    """The constrained Kullback-Leibler problem, and how its temperature moves.

    Parameters
    ----------
    radius : float
        rho > 0.
    max_weight : float
        S0 > 1.
    temperatures : tuple of float
        Public interval [lam0, lam1] of lam, lam0 >= 0.1.
    temperature_start, temperature_step : float
    eta_noise_ratio, weight_slope : float
        As in `Ambiguity`, for the exponentials and their entropies.
    """

    radius: float
    max_weight: float = 10.0
    temperatures: tuple[float, float] = (0.1, 10.0)
    temperature_start: float = 1.0
    temperature_step: float = 0.1
    eta_noise_ratio: float = 2.0
    weight_slope: float = 3.0


@dataclass(frozen=True)
class Facts:
    """Public facts of the federation.

    Parameters
    ----------
    model : Model
    n_classes : int
    start : ndarray of shape (n_parameters,)
        Must not depend on a record.
    n_records : ndarray of int, shape (n_clients,)
    alpha : ndarray of shape (n_clients,)
        Client weights, sum one.
    noise : NoiseSource
    """

    model: Model
    n_classes: int
    start: np.ndarray
    n_records: np.ndarray
    alpha: np.ndarray
    noise: NoiseSource
