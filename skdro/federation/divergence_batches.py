"""Which records take part in the iterations of a private divergence fit, and what that makes of its plan.

Two components with one interface.  `FullBatches` composes Gaussian releases exactly; their sensitivities are those
of `reweighting_sensitivity`.  `PoissonBatches` draws a fresh sample in each iteration, which all of the iteration's
releases share, and is accounted by privacy loss distributions.  That accountant takes the norm bound of *one*
record's term and doubles it for a replaced record by itself, also for terms of one sign: sensitivities are the
notion's `ball` times the norm bound.  Sums are divided by the expected size of the batch, n times the rate.

Changes of a record's term are between two iterates, both on the batch of the later one.  The earlier terms of all
records are kept at their client, so that a change is there whether or not the record took part before: a function of
the record and of what was released, as are the dual variables of DP-SGDA, which move whoever takes part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import e, log
from typing import ClassVar

import numpy as np

from ..privacy.plan import PrivacyPlan, ReleaseKind, gaussian_plan
from ..privacy.reweighting_sensitivity import capped_sum, clipped_sum, entropy_sum
from ..privacy.sampled_plan import Batches, poisson_plan
from ..privacy.sensitivity import Adjacency
from ..privacy.subsampling import PoissonSampling
from .batches import FullBatch, PoissonBatch
from .steps.tracking import Rule

__all__ = ["AlternatingBatch", "FullBatches", "Iterations", "PoissonBatches"]


@dataclass(frozen=True)
class Iterations:
    """`count` iterations that let out the same kinds of release.

    Parameters
    ----------
    changing : bool
        Whether changes are among them.
    count : int
    releases : mapping from the name of a kind to int
        How often each of these iterations lets it out.
    """

    changing: bool
    count: int
    releases: Mapping[str, int]


class FullBatches:
    """All records, in all iterations."""

    afresh: ClassVar[float] = 1.0
    changed: ClassVar[float] = 1.0

    def capped_sum(self, max_weight: float, adjacency: Adjacency) -> float:
        """Sensitivity of a sum of terms in [0, max_weight]."""
        return capped_sum(max_weight, adjacency)

    def entropy_sum(self, max_weight: float, adjacency: Adjacency) -> float:
        """Sensitivity of a sum of terms  a exp(a)  with  exp(a) <= max_weight."""
        return entropy_sum(max_weight, adjacency)

    def plan(
        self,
        kinds: Sequence[ReleaseKind],
        sensitivity: Mapping[str, np.ndarray],
        iterations: Sequence[Iterations],
        budget,
    ) -> PrivacyPlan:
        """The plan under this `Budget`."""
        return gaussian_plan(kinds, sensitivity, accountant=budget.accountant, **_terms(budget))

    def batch(self, rule, noise) -> FullBatch:
        """What the clients draw."""
        return FullBatch()


@dataclass(frozen=True)
class PoissonBatches:
    """A fresh Poisson sample in each iteration.

    Parameters
    ----------
    afresh, changed : float
        Probability with which a record takes part in an iteration that sums all afresh, and in one that sums changes;
        in (0, 1].
    """

    afresh: float
    changed: float

    def capped_sum(self, max_weight: float, adjacency: Adjacency) -> float:
        """Twice the bound for a replaced record, although both terms are positive; see the module."""
        return clipped_sum(max_weight, adjacency)

    def entropy_sum(self, max_weight: float, adjacency: Adjacency) -> float:
        """The same, of the largest magnitude of a term."""
        return clipped_sum(max(1.0 / e, max_weight * log(max_weight)), adjacency)

    def plan(
        self,
        kinds: Sequence[ReleaseKind],
        sensitivity: Mapping[str, np.ndarray],
        iterations: Sequence[Iterations],
        budget,
    ) -> PrivacyPlan:
        """The plan under this `Budget`; its accountant is the samples' own."""
        batches = [
            Batches(
                "changes" if each.changing else "afresh",
                PoissonSampling(self.changed if each.changing else self.afresh),
                each.count,
                each.releases,
            )
            for each in iterations
        ]
        return poisson_plan(kinds, sensitivity, batches, **_terms(budget))

    def batch(self, rule, noise) -> "AlternatingBatch":
        """What the clients draw, where `rule` says which iterations sum changes."""
        return AlternatingBatch(
            rule, *(PoissonBatch(PoissonSampling(rate), noise) for rate in (self.afresh, self.changed))
        )


def _terms(budget):
    return {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "adjacency": budget.adjacency,
        "aggregation": budget.aggregation,
        "budget": budget.budget,
    }


@dataclass(frozen=True)
class AlternatingBatch:
    """Samples of one rate where all is summed afresh, and of another where changes are.

    Parameters
    ----------
    rule : tracking.Rule
    afresh, changed : PoissonBatch
    """

    rule: Rule
    afresh: PoissonBatch
    changed: PoissonBatch

    @property
    def largest(self) -> float:
        """Largest factor on the weight of a record."""
        return max(self.afresh.largest, self.changed.largest)

    def weights(self, block, round: int) -> np.ndarray:
        """Weight of each record in this iteration, shape (n_rows,)."""
        return (self.changed if self.rule.mix(round).changed else self.afresh).weights(block, round)
