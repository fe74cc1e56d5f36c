"""Poisson-sampled rounds: who takes part, and what the rounds then cost, from one object.

Each record joins each round by a coin of its own.  A release whose noise has standard deviation sigma, on a sum of
the sampled records' terms of norm at most C, is accounted by its privacy loss distribution (`dp_accounting`, an
optional extra).  That accountant takes sigma / C and knows by itself that replacing a record moves the sum by 2 C;
here, as everywhere, `multiplier` is sigma over the *sensitivity*, and this module is the one place that converts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from math import exp, expm1, floor, log, log1p, log10

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from .accounting import check_budget, classical_multiplier, gaussian_mu
from .noise import NoiseSource
from .plan import Aggregation, PrivacyPlan, ReleaseKind, planned_release
from .sensitivity import ADJACENCIES, Adjacency

__all__ = ["PLD", "PoissonPlan", "PoissonSampling", "check_extra", "poisson_plan"]

INTERVAL = 1e-3
"""Grid of privacy losses; the accountant rounds to its safe side.  Coarser in proportion where the loss is large."""

TOLERANCE = 2e-4
"""Relative accuracy of a calibrated multiplier, on the side of more noise."""

RELATIONS = {"replace_one": "REPLACE_ONE", "zero_out": "REPLACE_SPECIAL"}
"""Adjacency -> the accountant's name of it; both take the norm bound of one record."""


def check_extra() -> None:
    """Fail early, with the remedy, if the accountant is not installed.

    Raises
    ------
    ImportError
    """
    try:
        import dp_accounting  # noqa: F401
    except ImportError:
        raise ImportError(
            "sampling_rate < 1 needs the accountant for Poisson sampling (dp-accounting 0.6). Install it with "
            '`pip install "skdro[subsampling]"`, or use sampling_rate=1.0.'
        ) from None


def _mu_squared(rate, multiplier, count):
    """About the mu^2 of sampled rounds (their central limit; Bu, Dong, Long & Su 2020), never above the full batch's.

    Only the accountant's grid and the first guess of a search rest on it.
    """
    full = 1.0 / multiplier**2
    return count * min(full, rate**2 * expm1(min(full, 700.0)))


@lru_cache(maxsize=256)
def _composed(rate, rounds, relation, interval):
    """Privacy loss distribution of `rounds`, pairs (sigma / C, count)."""
    import dp_accounting
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

    accountant = PLDAccountant(dp_accounting.NeighboringRelation[relation], interval)
    for per_norm, count in rounds:
        gaussian = dp_accounting.GaussianDpEvent(per_norm)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, gaussian), count)
    return accountant


def _rounded_down(value):
    """Nine significant digits, never more than `value`: equal clients differ by rounding only, and cost once."""
    unit = 10.0 ** (floor(log10(value)) - 8)
    return floor(value / unit) * unit


@dataclass(frozen=True)
class PoissonSampling:
    """Sampler and accountant of rounds in which each record takes part with probability `rate`.

    Parameters
    ----------
    rate : float
        In (0, 1), public.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.privacy.noise import StreamNoise
    >>> PoissonSampling(0.5).mask(StreamNoise(0), np.array([4, 2]), clients=[0, 1], round=0)
    array([ True,  True,  True,  True,  True, False])
    """

    rate: float

    def mask(self, noise: NoiseSource, sizes: Sequence[int], *, clients: Sequence[int], round: int) -> np.ndarray:
        """Which records take part in a round; nobody but their client may see it.

        A standard normal number of the noise's own source falls below the `rate`-quantile with probability `rate`,
        to the 53 bits that the source has.

        Parameters
        ----------
        noise : NoiseSource
        sizes : sequence of int, shape (n_clients,)
        clients : sequence of int, shape (n_clients,)
            Index of each client in the federation, part of the key of a seeded source.
        round : int

        Returns
        -------
        taken : ndarray of bool, shape (sum(sizes),)
        """
        coins = [
            noise((int(size),), clients=[client], round=round, release="poisson mask")[0]
            for size, client in zip(sizes, clients, strict=True)
        ]
        return np.concatenate(coins) <= ndtri(self.rate)

    def epsilon(self, multiplier: float, count: int, delta: float, adjacency: Adjacency) -> float:
        """Epsilon of `count` rounds at `delta`.

        Parameters
        ----------
        multiplier : float
            Standard deviation of the noise over the sensitivity, that of a record which does take part.
        count : int
        delta : float
        adjacency : Adjacency
        """
        return self.composed_epsilon([(multiplier, count)], delta, adjacency)

    def composed_epsilon(self, rounds: Iterable[tuple[float, int]], delta: float, adjacency: Adjacency) -> float:
        """Epsilon of several kinds of rounds together, pairs (multiplier, count); see `epsilon`."""
        rounds = [(_rounded_down(multiplier), count) for multiplier, count in rounds]
        coarser = max(1.0, sum(_mu_squared(self.rate, *each) for each in rounds) / 200)
        interval = INTERVAL * coarser
        per_norm = tuple((multiplier * adjacency.ball, count) for multiplier, count in rounds)
        return float(_composed(self.rate, per_norm, RELATIONS[adjacency.name], interval).get_epsilon(delta))

    def multiplier(self, epsilon: float, delta: float, count: int, adjacency: Adjacency) -> float:
        """Smallest noise multiplier for which `count` rounds cost at most (`epsilon`, `delta`).

        Parameters
        ----------
        epsilon, delta : float
            Total budget.
        count : int
        adjacency : Adjacency

        Raises
        ------
        ValueError
            If `epsilon` or `delta` is out of range.
        """
        check_budget(epsilon, delta)
        return _calibrated(self, float(epsilon), float(delta), int(count), adjacency)


@lru_cache(maxsize=64)
def _calibrated(sampling, epsilon, delta, count, adjacency):
    def excess(log_multiplier):
        spent = sampling.epsilon(exp(log_multiplier), count, delta, adjacency)
        return log(max(spent, 1e-300) / epsilon)

    # from where the central limit puts it; epsilon falls at least as 1 / multiplier, so steps as long as the excess
    low = -log(log1p(gaussian_mu(epsilon, delta) ** 2 / (sampling.rate**2 * count))) / 2
    while (over := excess(low)) <= 0:
        low += max(1.05 * over, -0.5) - TOLERANCE
    high = low
    while (over := excess(high)) > 0:
        low, high = high, high + 1.05 * over + TOLERANCE
    root = brentq(excess, low, high, xtol=TOLERANCE / 2)
    while excess(root) > 0:
        root += TOLERANCE / 4
    # recomputed from the events it rounds differently, and is then rounded down to nine digits
    return exp(root) * (1 + 1e-8)


@dataclass(frozen=True)
class SubsampledAccountant:
    """What the report says of, and recomputes from, Poisson-sampled events."""

    name: str
    words: str

    @property
    def version(self) -> str:
        """Of the package that computes the numbers, and the grid it uses."""
        return f"dp-accounting {version('dp-accounting')}, interval {INTERVAL:g}"

    def largest_epsilon(self, clients: Iterable[Sequence], delta: float, adjacency: str) -> float:
        """Epsilon of the client whose events cost the most; one rate for all of them."""
        notion, epsilons = ADJACENCIES[adjacency], []
        for events in clients:
            (rate,) = {event.q for event in events}
            rounds = [(event.sigma / event.sensitivity, event.count) for event in events if event.sensitivity > 0]
            epsilons.append(PoissonSampling(rate).composed_epsilon(rounds, delta, notion) if rounds else 0.0)
        return max(epsilons)


PLD = SubsampledAccountant("pld", "privacy loss distribution of Poisson-sampled rounds")


@dataclass(frozen=True, eq=False)
class PoissonPlan(PrivacyPlan):
    """A plan whose rounds see a Poisson sample of the records.

    Parameters
    ----------
    sampling : PoissonSampling
        The object that draws the samples.
    """

    sampling: PoissonSampling

    @property
    def mechanism(self) -> str:
        """Type of the events."""
        return "poisson_gaussian"

    @property
    def rate(self) -> float:
        """Probability with which a record takes part."""
        return self.sampling.rate

    @property
    def mu(self) -> None:
        """None: sampled rounds are not Gaussian-DP."""

    @property
    def client_epsilons(self) -> np.ndarray:
        """Epsilon of each client's records at `delta`, shape (n_clients,)."""
        (planned,) = self.releases.values()
        with np.errstate(divide="ignore"):
            multipliers = planned.sigma / planned.sensitivity
        return np.array(
            [
                self.sampling.epsilon(m, planned.count, self.delta, self.adjacency) if np.isfinite(m) else 0.0
                for m in multipliers
            ]
        )


def _total(sampling, epsilon, delta, count, adjacency):
    return sampling.multiplier(epsilon, delta, count, adjacency)


def _per_round(sampling, epsilon, delta, count, adjacency):
    return classical_multiplier(epsilon, delta)


BUDGETS: Mapping[str, Callable] = {"total": _total, "per_round": _per_round}


def poisson_plan(
    kind: ReleaseKind,
    sensitivity: np.ndarray,
    *,
    sampling: PoissonSampling,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    aggregation: Aggregation,
    budget: str = "total",
) -> PoissonPlan:
    """Plan of a fit that repeats one release on Poisson samples, from public numbers only.

    Parameters
    ----------
    kind : ReleaseKind
    sensitivity : ndarray of shape (n_clients,)
        How far one record of each client moves the release *if it takes part*.
    sampling : PoissonSampling
    epsilon, delta, adjacency, aggregation, budget
        As in `plan.gaussian_plan`.

    Returns
    -------
    plan : PoissonPlan

    Raises
    ------
    ImportError
        If the extra is not installed.
    ValueError
        As in `plan.gaussian_plan`.
    """
    check_budget(epsilon, delta)
    check_extra()
    multiplier = BUDGETS[budget](sampling, epsilon, delta, kind.count, adjacency)
    release = planned_release(kind, multiplier, sensitivity, aggregation)
    return PoissonPlan({kind.name: release}, delta, PLD, adjacency, aggregation, sampling)
