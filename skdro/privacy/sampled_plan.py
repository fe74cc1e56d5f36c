"""The plan of a private fit whose rounds see Poisson samples of the records."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .accounting import check_budget, classical_multiplier
from .plan import Aggregation, Exposure, PrivacyPlan, ReleaseKind, check_kinds, planned_release
from .sensitivity import Adjacency
from .subsampling import (
    PLD,
    PoissonSampling,
    SampledRounds,
    calibrated_multiplier,
    check_extra,
    composed_epsilon,
    joint_multiplier,
)

__all__ = ["Batches", "PoissonPlan", "poisson_plan"]


@dataclass(frozen=True)
class Batches:
    """`count` rounds that each draw a batch, and what they let out of it.

    Parameters
    ----------
    name : str
    sampling : PoissonSampling
        The object that draws the batches; at rate one all records are there.
    count : int
    releases : mapping from the name of a kind of release to int
        How many of it each batch gives.
    """

    name: str
    sampling: PoissonSampling
    count: int
    releases: Mapping[str, int]

    def rounds(self, multipliers: Mapping[str, float]) -> SampledRounds:
        """What the accountant is told, from the noise multiplier of each kind."""
        joint = joint_multiplier((multipliers[name], number) for name, number in self.releases.items())
        return SampledRounds(self.sampling.rate, joint, self.count)


@dataclass(frozen=True, eq=False)
class PoissonPlan(PrivacyPlan):
    """A plan whose rounds see a Poisson sample of the records.

    Parameters
    ----------
    batches : tuple of Batches
    """

    batches: tuple[Batches, ...]

    @property
    def mechanism(self) -> str:
        """Type of the events."""
        return "poisson_gaussian"

    @property
    def rate(self) -> float:
        """Probability with which a record takes part, the smallest of all batches."""
        return min(batch.sampling.rate for batch in self.batches)

    @property
    def mu(self) -> None:
        """None: sampled rounds are not Gaussian-DP."""

    @property
    def client_epsilons(self) -> np.ndarray:
        """Epsilon of each client's records at `delta`, shape (n_clients,)."""
        multipliers = {name: planned.client_multipliers for name, planned in self.releases.items()}
        return np.array(
            [
                self._epsilon_of(dict(zip(multipliers, each, strict=True)))
                for each in zip(*multipliers.values(), strict=True)
            ]
        )

    def _epsilon_of(self, multipliers):
        return composed_epsilon([batch.rounds(multipliers) for batch in self.batches], self.delta, self.adjacency)

    def exposures(self) -> Iterator[Exposure]:
        """Each kind of release once for each kind of batch that it sees."""
        for batch in self.batches:
            for name, number in batch.releases.items():
                yield Exposure(
                    self.releases[name], number * batch.count, batch.sampling.rate, batch.name, batch.count
                )


def _total(rounds, epsilon, delta, adjacency):
    return calibrated_multiplier(rounds, epsilon, delta, adjacency)


def _per_round(rounds, epsilon, delta, adjacency):
    return classical_multiplier(epsilon, delta)


BUDGETS: Mapping[str, Callable] = {"total": _total, "per_round": _per_round}


def poisson_plan(
    kinds: Sequence[ReleaseKind],
    sensitivity: Mapping[str, np.ndarray],
    batches: Sequence[Batches],
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    aggregation: Aggregation,
    budget: str = "total",
) -> PoissonPlan:
    """Plan of a fit on Poisson samples, from public numbers only.

    Parameters
    ----------
    kinds : sequence of ReleaseKind
    sensitivity : mapping from the name of each kind to ndarray of shape (n_clients,)
        How far one record of each client moves that release *if it takes part*: `adjacency.ball` times the norm bound
        of one record's term, which is what the accountant takes.
    batches : sequence of Batches
        All rounds, and which releases share a batch.
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
        As in `plan.gaussian_plan`, or if the batches do not give each kind as often as it says.
    """
    check_budget(epsilon, delta)
    check_kinds(kinds)
    check_extra()
    given = {kind.name: sum(batch.count * batch.releases.get(kind.name, 0) for batch in batches) for kind in kinds}
    if given != {kind.name: kind.count for kind in kinds}:
        raise ValueError("The batches must give every kind of release as often as it says.")
    relative = {kind.name: kind.share**-0.5 for kind in kinds}
    base = BUDGETS[budget]([batch.rounds(relative) for batch in batches], epsilon, delta, adjacency)
    releases = {
        kind.name: planned_release(kind, base * relative[kind.name], sensitivity[kind.name], aggregation)
        for kind in kinds
    }
    return PoissonPlan(releases, delta, PLD, adjacency, aggregation, tuple(batches))
