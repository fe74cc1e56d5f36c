"""Poisson-sampled rounds: who takes part, and what the rounds then cost, from one object.

Each record joins each round by a coin of its own.  A release whose noise has standard deviation sigma, on a sum of
the sampled records' terms of norm at most C, is accounted by its privacy loss distribution (`dp_accounting`, an
optional extra).  That accountant takes sigma / C and knows by itself that replacing a record moves the sum by 2 C;
here, as everywhere, `multiplier` is sigma over the *sensitivity*, and this module is the one place that converts.

Several releases may see the same batch, each chosen after the ones before.  With multipliers m_k they are accounted
as one release with  m^-2 = sum_k m_k^-2,  which is exact composition of Gaussians given the batch, and carries over
to the random one.  Leaving a record out: the divergence of the sampled pair is a function of that of the pair with
the record there and not there.  Replacing it: let P0, P1, P2 be the outcomes without the record, with it, with its
replacement.  The divergence of (1-q) P0 + q P1 from (1-q) P0 + q P2 is q times the supremum over tests f of

    P1(f) - a [(1-b) P0(f) + b P2(f)]

for numbers a, b that depend on q and the order of the divergence alone.  For a given P1(f) both other probabilities
are at least those of Gaussians at distances 1/m and 2/m, and one and the same threshold attains both bounds for the
three Gaussians on a line that the accountant compares.  The other records' coins only mix such pairs.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from math import exp, expm1, floor, inf, log, log10, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from .accounting import check_budget, gaussian_mu
from .noise import NoiseSource
from .sensitivity import ADJACENCIES, Adjacency

__all__ = [
    "PLD",
    "PoissonSampling",
    "SampledRounds",
    "calibrated_multiplier",
    "check_extra",
    "composed_epsilon",
    "joint_multiplier",
]

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


@dataclass(frozen=True)
class SampledRounds:
    """`count` rounds that each draw a batch.

    Parameters
    ----------
    rate : float
        Probability with which a record takes part, in (0, 1].
    multiplier : float
        Standard deviation of the noise over the sensitivity, that of a record which does take part; of all releases
        of one batch together, see `joint_multiplier`.
    count : int
    """

    rate: float
    multiplier: float
    count: int

    @property
    def mu_squared(self) -> float:
        """About their mu^2 (the central limit; Bu, Dong, Long & Su 2020), never above the full batch's.

        Only the accountant's grid and the first guess of a search rest on it.
        """
        full = self.multiplier**-2
        return self.count * min(full, self.rate**2 * expm1(min(full, 700.0)))

    def scaled(self, factor: float) -> "SampledRounds":
        """The same with that much more noise."""
        return replace(self, multiplier=factor * self.multiplier)


def joint_multiplier(releases: Iterable[tuple[float, float]]) -> float:
    """Noise multiplier of all releases of one batch together; infinite if none of them can move.

    Parameters
    ----------
    releases : iterable of (multiplier, number of such releases)

    Examples
    --------
    >>> joint_multiplier([(3.0, 1), (8.0, 4)])
    2.4
    """
    precision = sum(number / multiplier**2 for multiplier, number in releases)
    return 1.0 / sqrt(precision) if precision > 0 else inf


@lru_cache(maxsize=256)
def _composed(rounds, relation, interval):
    """Privacy loss distribution of `rounds`, triples (rate, sigma / C, count)."""
    import dp_accounting
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

    accountant = PLDAccountant(dp_accounting.NeighboringRelation[relation], interval)
    for rate, per_norm, count in rounds:
        gaussian = dp_accounting.GaussianDpEvent(per_norm)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, gaussian), count)
    return accountant


def _rounded_down(value):
    """Nine significant digits, never more than `value`: equal clients differ by rounding only, and cost once."""
    unit = 10.0 ** (floor(log10(value)) - 8)
    return floor(value / unit) * unit


def composed_epsilon(rounds: Iterable[SampledRounds], delta: float, adjacency: Adjacency) -> float:
    """Epsilon of several kinds of rounds together at `delta`.

    Parameters
    ----------
    rounds : iterable of SampledRounds
    delta : float
    adjacency : Adjacency
    """
    rounds = [replace(each, multiplier=_rounded_down(each.multiplier)) for each in rounds if each.multiplier < inf]
    if not rounds:
        return 0.0
    coarser = max(1.0, sum(each.mu_squared for each in rounds) / 200)
    triples = tuple((each.rate, each.multiplier * adjacency.ball, each.count) for each in rounds)
    return float(_composed(triples, RELATIONS[adjacency.name], INTERVAL * coarser).get_epsilon(delta))


def calibrated_multiplier(
    rounds: Sequence[SampledRounds], epsilon: float, delta: float, adjacency: Adjacency
) -> float:
    """Smallest factor on all multipliers for which these rounds together cost at most (`epsilon`, `delta`).

    Parameters
    ----------
    rounds : sequence of SampledRounds
    epsilon, delta : float
        Total budget.
    adjacency : Adjacency

    Raises
    ------
    ValueError
        If `epsilon` or `delta` is out of range.
    """
    check_budget(epsilon, delta)
    return _calibrated(tuple(rounds), float(epsilon), float(delta), adjacency)


@lru_cache(maxsize=64)
def _calibrated(rounds, epsilon, delta, adjacency):
    def excess(log_factor):
        spent = composed_epsilon([each.scaled(exp(log_factor)) for each in rounds], delta, adjacency)
        return log(max(spent, 1e-300) / epsilon)

    # from where the central limit puts it; epsilon falls at least as 1 / multiplier, so steps as long as the excess
    low = _by_central_limit(rounds, gaussian_mu(epsilon, delta))
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


def _by_central_limit(rounds, mu):
    """Logarithm of the factor for which the rounds have about this mu."""

    def over(log_factor):
        return log(max(sum(each.scaled(exp(log_factor)).mu_squared for each in rounds), 1e-300)) - 2 * log(mu)

    return brentq(over, -40.0, 40.0, xtol=TOLERANCE)


@dataclass(frozen=True)
class PoissonSampling:
    """Sampler and accountant of rounds in which each record takes part with probability `rate`.

    Parameters
    ----------
    rate : float
        In (0, 1], public.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.privacy.noise import StreamNoise
    >>> PoissonSampling(0.5).mask(StreamNoise(0), np.array([4, 2]), clients=[0, 1], round=0)
    array([ True,  True,  True,  True,  True, False])
    """

    rate: float

    def mask(
        self,
        noise: NoiseSource,
        sizes: Sequence[int] | np.ndarray,
        *,
        clients: Sequence[int] | np.ndarray,
        round: int,
    ) -> np.ndarray:
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
        return composed_epsilon([SampledRounds(self.rate, multiplier, count)], delta, adjacency)

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
        return calibrated_multiplier([SampledRounds(self.rate, 1.0, int(count))], epsilon, delta, adjacency)


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
        """Epsilon of the client whose events cost the most; `adjacency` is in their sensitivities already.

        Parameters
        ----------
        clients : iterable of sequences of Event
        delta : float
        adjacency : str
        """
        notion = ADJACENCIES[adjacency]
        return max(composed_epsilon(_rounds(events), delta, notion) for events in clients)


def _rounds(events):
    """The rounds that a client's events describe: those with the same `batch` see the same samples."""
    batches = defaultdict(list)
    for event in events:
        batches[event.batch, event.q, event.n_batches].append(event)
    return [
        SampledRounds(
            rate,
            joint_multiplier(
                (event.sigma / event.sensitivity, event.count / n_batches) for event in group if event.sensitivity > 0
            ),
            n_batches,
        )
        for (_, rate, n_batches), group in batches.items()
    ]


PLD = SubsampledAccountant("pld", "privacy loss distribution of Poisson-sampled rounds")
