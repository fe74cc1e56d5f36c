"""Following the mean of bounded terms c_i along the iterates: afresh, by clipped changes, or by a mixture of both.

In every round a rule says how the running estimate goes on,

    estimate <- keep * estimate + mean_i [ fresh * c_i + changed * clip(c_i - c'_i) ] + noise,

with c'_i the same record's term one iterate before.  SPIDER takes all afresh every q-th round and changes only in
between; STORM mixes, with weights beta and 1 - beta; q = 1 is plain descent.

The clip of a change is public: a slope times how far the *released* iterates have moved.  So the noise shrinks with
the steps, while its multiplier (standard deviation over sensitivity), which alone decides on privacy, is constant.
A floor on the clip keeps the rounding of the sums far below the noise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from ...losses.clipping import Terms
from ...privacy.reweighting_sensitivity import mixed_sum

__all__ = ["Doors", "Mix", "Rule", "Scalars", "Spider", "Storm", "Tracked"]

FLOOR = 1e-6
"""Clips of changes stay above this share of the bound of a term; changes stay below 1 - FLOOR of their clip."""


@dataclass(frozen=True)
class Mix:
    """Weights of what an estimate keeps, of the terms afresh, and of their changes."""

    keep: float
    fresh: float
    changed: float


class Rule(Protocol):
    """When terms are summed afresh."""

    def mix(self, t: int) -> Mix:
        """Weights of iteration t; in the first one, ``Mix(0, 1, 0)``."""


AFRESH = Mix(0.0, 1.0, 0.0)


@dataclass(frozen=True)
class Spider:
    """All afresh every `period`-th iteration, changes in between (Fang et al. 2018)."""

    period: int

    def mix(self, t: int) -> Mix:
        """Weights of iteration t."""
        return Mix(1.0, 0.0, 1.0) if t % self.period else AFRESH


@dataclass(frozen=True)
class Storm:
    """A share `beta` afresh in each iteration (Cutkosky & Orabona 2019)."""

    beta: float

    def mix(self, t: int) -> Mix:
        """Weights of iteration t."""
        return Mix(1.0 - self.beta, self.beta, 1.0 - self.beta) if t else AFRESH


@dataclass(frozen=True)
class Scalars:
    """Terms that are numbers, shape (n_records,)."""

    values: np.ndarray

    def total(self, rows: np.ndarray) -> float:
        """Sum of  rows_i c_i."""
        return rows @ self.values

    def change(self, old: "Scalars", rows: np.ndarray, clip: float) -> float:
        """Sum of  rows_i clip(c_i - c'_i)."""
        return rows @ np.clip(self.values - old.values, -clip, clip)


@dataclass(frozen=True)
class Doors:
    """The doors (see `federation.doors`) of sums of terms and of sums that hold changes."""

    afresh: Callable
    changed: Callable


@dataclass(frozen=True)
class Tracked:
    """Public description of a tracked mean.

    Parameters
    ----------
    rule : Rule
    bound : float
        Largest norm of a term.
    widest : float
        Largest distance of two terms of the same record.
    slope : float
        Clip of a change for iterates that moved by one.
    sensitivity : float
        Of the sum of terms.
    unit_sensitivity : float
        Of the sum of changes clipped to one.
    at_client, at_server : Doors
    """

    rule: Rule
    bound: float
    widest: float
    slope: float
    sensitivity: float
    unit_sensitivity: float
    at_client: Doors
    at_server: Doors

    def clip(self, moved: float) -> float:
        """Clip of the changes of a record's term after the iterates moved that far; public."""
        return self.valid(self.slope * moved)

    def valid(self, clip: float) -> float:
        """`clip` within its range: what a client makes of the broadcast."""
        return float(np.clip(clip, FLOOR * self.bound, self.widest))

    def exact(self, terms: Terms, old: Terms | None, rows: np.ndarray, t: int, clip: float) -> float | np.ndarray:
        """What iteration t sums over the records of one client; `old` terms may be None where no change is asked."""
        mix = self.rule.mix(t)
        total = mix.fresh * terms.total(rows) if mix.fresh else 0.0
        inside = clip * (1.0 - FLOOR)
        if not mix.changed:
            return total
        change = terms.change(cast(Terms, old), rows, inside)  # there are old terms where a change is asked
        return total + mix.changed * change

    def release(self, doors: Doors, exact: np.ndarray, ledger, *, index, t: int, round: int, clip: float, largest):
        """What iteration t lets out of these exact sums, shape (n_draws, ...), through the doors of one end.

        `largest` is the largest factor that sampling puts on a record.
        """
        mix = self.rule.mix(t)
        bound = largest * (mix.fresh * self.bound + mix.changed * clip)
        if not mix.changed:
            return doors.afresh(exact, ledger, index=index, round=round, bound=bound)
        scale = mixed_sum(mix.fresh, self.sensitivity, mix.changed, clip * self.unit_sensitivity)
        return doors.changed(exact, ledger, index=index, round=round, bound=bound, scale=scale)

    def follow(self, estimate, released, t: int):
        """The estimate after iteration t."""
        return self.rule.mix(t).keep * estimate + released
