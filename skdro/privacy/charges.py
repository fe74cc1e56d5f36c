"""What a fit is charged: its Gaussian releases under a public map of rows to clients, and how charges add up.

Gaussian releases compose exactly: the mu^2 of a record add.  Under one map a record belongs to one client, so
that the total is the largest client's sum (parallel composition).  Nothing is known about how two different maps
relate, and their totals add:

    mu^2 = sum over maps of  max over clients of  sum over fits of  sum_k count_k (Delta_k / sigma_k)^2.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .accounting import check_budget
from .report import Event, PrivacyReport

__all__ = ["Charge", "Declared", "Remaining", "accountable_plan", "charge_of", "map_fingerprint", "total_mu_squared"]


@dataclass(frozen=True)
class Charge:
    """One fit in the ledger.

    Parameters
    ----------
    name : str
        Class of the estimator.
    status : {"reserved", "spent", "failed"}
        All three count: a fit that failed may have released something.
    public_map : str
        Fingerprint of the row-to-client map.
    events : tuple of Event
        Empty if the fit used a declared budget.
    declared : str or None
        Name of the declared budget that it used.
    """

    name: str
    status: str
    public_map: str
    events: tuple[Event, ...]
    declared: str | None = None


@dataclass(frozen=True)
class Declared:
    """An (epsilon, delta) that was set aside, before anything was spent, for one fit of any kind."""

    epsilon: float
    delta: float

    def __post_init__(self):
        check_budget(self.epsilon, self.delta)


@dataclass(frozen=True)
class Remaining:
    """What the ceiling leaves for one more fit on all records; informative, nothing is refunded.

    Parameters
    ----------
    epsilon, delta : float
        A fit with this budget is accepted.
    mu : float
        Its Gaussian-DP parameter.
    """

    epsilon: float
    delta: float
    mu: float


def map_fingerprint(groups: Any, n_rows: int) -> str:
    """Digest of the public map from rows to clients; `None` is a single client.

    Maps that are spelled differently (1 and 1.0) count as different, which only costs budget.

    Parameters
    ----------
    groups : array-like of shape (n_rows,) or None
    n_rows : int

    Examples
    --------
    >>> map_fingerprint(["a", "b", "a"], 3) == map_fingerprint(np.array(["a", "b", "a"]), 3)
    True
    >>> map_fingerprint(["a", "b", "a"], 3) == map_fingerprint(["a", "a", "b"], 3)
    False
    """
    labels = np.zeros(n_rows, dtype=int) if groups is None else np.asarray(groups)
    text = json.dumps([str(label) for label in labels.tolist()])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def accountable_plan(estimator: Any, X: Any, groups: Any, adjacency: str) -> PrivacyReport:
    """What the estimator says that a fit will release, if a ledger for `adjacency` can charge it at all.

    Parameters
    ----------
    estimator : estimator with `privacy_plan`
    X : array-like of shape (n_samples, n_features)
    groups : array-like of shape (n_samples,) or None
    adjacency : str

    Raises
    ------
    ValueError
        The estimator states no plan, is not private, or protects for another adjacency.
    """
    if not hasattr(estimator, "privacy_plan"):
        raise ValueError(
            f"{type(estimator).__name__} has no privacy_plan, so that its cost is not known before the data are "
            "touched. Fit a private classifier of skdro itself, not a pipeline around it: apply public scaling "
            "to X first."
        )
    plan = estimator.privacy_plan(X, groups)
    if not plan.private:
        raise ValueError(
            f"{type(estimator).__name__} is not private ({'; '.join(plan.why_not_private)}): its cost is not "
            "finite, and no total could be claimed after it."
        )
    if plan.adjacency != adjacency:
        raise ValueError(
            f"{type(estimator).__name__} protects for adjacency={plan.adjacency!r} and this ledger for "
            f"{adjacency!r}; keep one ledger for each."
        )
    return plan


def charge_of(name: str, events: Iterable[Event], public_map: str) -> Charge:
    """A reserved charge for full-batch Gaussian events.

    Parameters
    ----------
    name : str
    events : iterable of Event
    public_map : str

    Raises
    ------
    ValueError
        An event is of a kind that does not compose as a full-batch Gaussian does.
    """
    events = tuple(events)
    others = sorted({event.type if event.q == 1 else f"{event.type}, q = {event.q:g}" for event in events} - GAUSSIAN)
    if others or not events:
        raise ValueError(
            f"{name} releases events that do not add up with others as full-batch Gaussians do "
            f"({'; '.join(others) or 'none listed'}). Declare their budget in advance: "
            'BudgetAccountant(..., declared={"name": (epsilon, delta)}) and fit(..., declared="name").'
        )
    return Charge(name, "reserved", public_map, tuple(_with_plain_client(event) for event in events))


GAUSSIAN = {"gaussian"}


def _with_plain_client(event):
    """The event with a client label that JSON can hold: dates become text."""
    if isinstance(event.client, str | int | float):
        return event
    return Event(**{**vars(event), "client": str(event.client)})


def total_mu_squared(charges: Iterable[Charge]) -> float:
    """Squared Gaussian-DP parameter of all charges together, for the record that is exposed most.

    Parameters
    ----------
    charges : iterable of Charge

    Examples
    --------
    >>> one = [Event("gaussian", 1.0, 1.0, 2.0, 4, "gradient", client) for client in "ab"]
    >>> fit = charge_of("fit", one, "map 1")
    >>> total_mu_squared([fit]), total_mu_squared([fit, fit]), total_mu_squared([fit, charge_of("x", one, "map 2")])
    (1.0, 2.0, 2.0)
    >>> halves = [charge_of("fit", [event], "map 1") for event in one]
    >>> total_mu_squared(halves)
    1.0
    """
    exposed: dict[str, dict[Hashable, float]] = defaultdict(lambda: defaultdict(float))
    for charge in charges:
        for event in charge.events:
            exposed[charge.public_map][event.client] += event.count * (event.sensitivity / event.sigma) ** 2
    return sum(max(clients.values()) for clients in exposed.values())
