"""The plan of a private fit: what will be released and what that costs, fixed before any data are touched.

`noise_multipliers` turns a budget into noise relative to sensitivity; `gaussian_plan` adds the sensitivities
and says what every client's records are exposed to.  After the fit `ledger.check_ledger` compares what
happened with the plan.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import cast

import numpy as np

from .accounting import ACCOUNTANTS, Accountant, calibrate_multiplier, check_budget, classical_multiplier
from .sensitivity import Adjacency
from .subsampling import SubsampledAccountant

__all__ = [
    "AGGREGATIONS",
    "BUDGETS",
    "Aggregation",
    "Exposure",
    "PlannedRelease",
    "PrivacyPlan",
    "ReleaseKind",
    "check_kinds",
    "gaussian_plan",
    "noise_multipliers",
    "planned_release",
]


@dataclass(frozen=True)
class ReleaseKind:
    """A kind of release that a fit repeats.

    Parameters
    ----------
    name : str
    count : int
        How often it happens, usually the number of rounds.
    share : float
        Its share in the budget of a round, > 0: the noise multiplier is proportional to 1 / sqrt(share).
    relative : bool
        Whether its sensitivity follows from what was released before, such as a clip that shrinks with the last
        step.  The plan then holds the sensitivity for a unit of that public number, and the noise multiplier,
        which alone decides on privacy, is still fixed beforehand.
    """

    name: str
    count: int
    share: float = 1.0
    relative: bool = False


def _each_client(sensitivity):
    return sensitivity


def _largest(sensitivity):
    return sensitivity.max(keepdims=True)


@dataclass(frozen=True)
class Aggregation:
    """Where the noise is added, and whom that asks to be trusted.

    Parameters
    ----------
    name : str
    trust : str
        In words, for the privacy report.
    drawn : callable
        Maps the clients' sensitivities, shape (n_clients,), to those that the noise is scaled to: one for
        each draw.
    """

    name: str
    trust: str
    drawn: Callable[[np.ndarray], np.ndarray]


AGGREGATIONS = {
    "local": Aggregation(
        "local",
        "only the record's own client; the server and all other clients together may be hostile",
        _each_client,
    ),
    "trusted": Aggregation(
        "trusted",
        "whoever adds the noise and sees the exact sum; everybody else sees broadcasts only",
        _largest,
    ),
}


def _total_budget(epsilon, delta, kinds, accountant):
    return calibrate_multiplier(
        epsilon, delta, [kind.count for kind in kinds], [kind.share for kind in kinds], accountant
    )


def _per_round_budget(epsilon, delta, kinds, accountant):
    return classical_multiplier(epsilon, delta)


BUDGETS = {"total": _total_budget, "per_round": _per_round_budget}
"""What (epsilon, delta) means: the total of a fit, or the papers' pair of one round."""


def noise_multipliers(
    kinds: Sequence[ReleaseKind],
    *,
    epsilon: float,
    delta: float,
    budget: str = "total",
    accountant: Accountant = ACCOUNTANTS["gdp"],
) -> dict[str, float]:
    """Noise multiplier sigma / sensitivity of each kind of release.

    Parameters
    ----------
    kinds : sequence of ReleaseKind
        Their shares add up to one.
    epsilon, delta : float
        The budget; with ``budget="per_round"`` the pair of one round, of which kind k gets
        epsilon_k = epsilon sqrt(share_k).
    budget : {"total", "per_round"}
    accountant : Accountant
        Not used by "per_round", where the papers' formula fixes the noise.

    Returns
    -------
    multipliers : dict
        From the name of each kind.

    Raises
    ------
    ValueError
        If the budget is out of range, or the kinds are no plan (counts < 1, shares that do not add up to one,
        a name used twice).

    Examples
    --------
    >>> kinds = [ReleaseKind("model", 50, share=0.95), ReleaseKind("multiplier", 50, share=0.05)]
    >>> multipliers = noise_multipliers(kinds, epsilon=0.5, delta=1e-6, budget="per_round")
    >>> {name: round(value, 2) for name, value in multipliers.items()}
    {'model': 10.87, 'multiplier': 47.39}
    """
    check_budget(epsilon, delta)
    check_kinds(kinds)
    if budget not in BUDGETS:
        raise ValueError(f"budget must be one of {sorted(BUDGETS)}; got {budget!r}.")
    base = BUDGETS[budget](epsilon, delta, kinds, accountant)
    return {kind.name: base / sqrt(kind.share) for kind in kinds}


def check_kinds(kinds: Sequence[ReleaseKind]) -> None:
    """ValueError unless the kinds are a plan: counts >= 1, shares that add up to one, names that differ."""
    if any(kind.count < 1 for kind in kinds):
        raise ValueError("Every kind of release must have count >= 1.")
    if any(not kind.share > 0 for kind in kinds) or abs(sum(kind.share for kind in kinds) - 1) > 1e-9:
        raise ValueError("The share of every kind of release must be > 0, and the shares must add up to one.")
    if len({kind.name for kind in kinds}) < len(kinds):
        raise ValueError("Every kind of release needs a name of its own.")


@dataclass(frozen=True, eq=False)
class PlannedRelease:
    """One kind of release with its noise.

    Parameters
    ----------
    name : str
    count : int
    multiplier : float
        Standard deviation of the noise over the sensitivity it is scaled to.
    sensitivity : ndarray of shape (n_clients,)
        How far one record of each client moves the released value.
    drawn : ndarray of shape (n_draws,)
        Sensitivities that the noise is scaled to: what `mechanism.release` takes.  One for each client, or a
        single one if the noise is added once to a sum.
    relative : bool
        Both sensitivities are those for a unit of a public number that each round determines.
    """

    name: str
    count: int
    multiplier: float
    sensitivity: np.ndarray
    drawn: np.ndarray
    relative: bool = False

    @property
    def sigma(self) -> np.ndarray:
        """Standard deviation of the noise of each draw, shape (n_draws,)."""
        return self.multiplier * self.drawn

    def sigma_of_sum(self, alpha: np.ndarray) -> float:
        """Standard deviation of the noise in the weighted sum over clients.

        Parameters
        ----------
        alpha : ndarray of shape (n_clients,)
            Client weights; noise that is added once to the sum has them in its sensitivity.
        """
        weights = 1.0 if len(self.drawn) == 1 else alpha
        return float(np.linalg.norm(weights * self.sigma))

    @property
    def mu_squared(self) -> np.ndarray:
        """Squared Gaussian-DP parameter of all `count` releases together, shape (n_clients,)."""
        return self.count * (self.sensitivity / self.sigma) ** 2

    @property
    def client_multipliers(self) -> np.ndarray:
        """Noise over each client's own sensitivity, shape (n_clients,); infinite where a client cannot move it."""
        with np.errstate(divide="ignore"):
            return self.sigma / self.sensitivity


@dataclass(frozen=True)
class Exposure:
    """A kind of release as the records are exposed to it.

    Parameters
    ----------
    planned : PlannedRelease
    count : int
    rate : float
        Probability with which a record takes part.
    batch : str
        Exposures with the same name see the same samples; empty for the full batch.
    n_batches : int
        Over how many samples the `count` releases are spread; 0 for the full batch.
    """

    planned: PlannedRelease
    count: int
    rate: float = 1.0
    batch: str = ""
    n_batches: int = 0


@dataclass(frozen=True, eq=False)
class PrivacyPlan:
    """Everything a fit will release, and what that costs.

    Parameters
    ----------
    releases : dict of PlannedRelease
        By name.
    delta : float
    accountant : Accountant or SubsampledAccountant
    adjacency : Adjacency
    aggregation : Aggregation
    """

    releases: dict[str, PlannedRelease]
    delta: float
    accountant: Accountant | SubsampledAccountant
    adjacency: Adjacency
    aggregation: Aggregation

    @property
    def mechanism(self) -> str:
        """Type of the events."""
        return "gaussian"

    @property
    def rate(self) -> float:
        """Probability with which a record takes part in a release."""
        return 1.0

    @property
    def mu(self) -> np.ndarray | None:
        """Gaussian-DP parameter of each client's records, shape (n_clients,); None where rounds are sampled."""
        return self._gaussian_mu()

    def _gaussian_mu(self) -> np.ndarray:
        """The same, if no round is sampled."""
        return np.sqrt(sum(planned.mu_squared for planned in self.releases.values()))

    @property
    def client_epsilons(self) -> np.ndarray:
        """Epsilon of each client's records at `delta`, shape (n_clients,)."""
        mu, index = np.unique(self._gaussian_mu(), return_inverse=True)
        accountant = cast(Accountant, self.accountant)  # sampled rounds have a plan of their own
        return np.array([accountant.epsilon(float(m), self.delta) for m in mu])[index]

    @property
    def epsilon(self) -> float:
        """Total epsilon at `delta`: clients are disjoint, so the largest client's."""
        return float(self.client_epsilons.max())

    def exposures(self) -> Iterator[Exposure]:
        """What the report lists."""
        return (Exposure(planned, planned.count) for planned in self.releases.values())


def gaussian_plan(
    kinds: Sequence[ReleaseKind],
    sensitivity: Mapping[str, np.ndarray],
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    aggregation: Aggregation,
    budget: str = "total",
    accountant: Accountant = ACCOUNTANTS["gdp"],
) -> PrivacyPlan:
    """Plan of a fit whose releases all carry Gaussian noise, from public numbers only.

    Parameters
    ----------
    kinds : sequence of ReleaseKind
    sensitivity : mapping from the name of each kind to ndarray of shape (n_clients,)
        How far one record of each client moves that release, from `skdro.privacy.sensitivity`.
    epsilon, delta, budget, accountant
        As in `noise_multipliers`.
    adjacency : Adjacency
        For which the sensitivities hold.
    aggregation : Aggregation

    Returns
    -------
    plan : PrivacyPlan

    Raises
    ------
    ValueError
        As in `noise_multipliers`, or if a sensitivity is negative, not finite, or leaves no noise.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.privacy.sensitivity import ADJACENCIES, mean_gradient
    >>> adjacency = ADJACENCIES["replace_one"]
    >>> plan = gaussian_plan(
    ...     [ReleaseKind("gradient", 50)], {"gradient": mean_gradient(1.0, np.array([40, 60]), adjacency)},
    ...     epsilon=1.0, delta=1e-5, adjacency=adjacency, aggregation=AGGREGATIONS["local"])
    >>> round(plan.epsilon, 6), plan.releases["gradient"].sigma.round(3)
    (1.0, array([1.865, 1.244]))
    """
    multipliers = noise_multipliers(kinds, epsilon=epsilon, delta=delta, budget=budget, accountant=accountant)
    releases = [planned_release(kind, multipliers[kind.name], sensitivity[kind.name], aggregation) for kind in kinds]
    return PrivacyPlan({planned.name: planned for planned in releases}, delta, accountant, adjacency, aggregation)


def planned_release(
    kind: ReleaseKind, multiplier: float, sensitivity: np.ndarray, aggregation: Aggregation
) -> PlannedRelease:
    """One kind of release with its noise; ValueError if a sensitivity is negative, not finite, or leaves none."""
    sensitivity = np.array(sensitivity, dtype=float)
    drawn = aggregation.drawn(sensitivity)
    if not (np.isfinite(sensitivity) & (sensitivity >= 0)).all() or not (drawn > 0).all():
        raise ValueError(f"The sensitivities of the release {kind.name!r} must be finite and > 0.")
    return PlannedRelease(kind.name, kind.count, multiplier, sensitivity, drawn, kind.relative)
