"""What was released, line by line, and the check that it is what the plan of the fit says."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .plan import PlannedRelease, PrivacyPlan

__all__ = ["Release", "check_ledger"]


@dataclass(frozen=True, eq=False)
class Release:
    """One line of the ledger: what left, how far one record can move it, how much noise hid it.

    Parameters
    ----------
    name : str
    clients : ndarray of int, shape (n_draws,)
        Index of the client behind each noise draw; 0 for a sum over clients that gets its noise once.
    sensitivity : ndarray of shape (n_draws,)
        l2 sensitivity to one record.
    sigma : ndarray of shape (n_draws,)
        Standard deviation of the noise of each entry.
    count : int
        How many such releases this line stands for.
    """

    name: str
    clients: np.ndarray
    sensitivity: np.ndarray
    sigma: np.ndarray
    count: int = 1


def check_ledger(plan: PrivacyPlan, ledger: Sequence[Release], *, stopped: bool = False) -> None:
    """Fail if what was released is not what was planned.

    Parameters
    ----------
    plan : PrivacyPlan
    ledger : sequence of Release
    stopped : bool
        The fit was stopped early: fewer releases than planned are in order, and refund nothing.

    Raises
    ------
    RuntimeError
        If a release has another name, sensitivity, noise or number than planned.

    Examples
    --------
    >>> from skdro.privacy.plan import AGGREGATIONS, ReleaseKind, gaussian_plan
    >>> from skdro.privacy.sensitivity import ADJACENCIES
    >>> plan = gaussian_plan(
    ...     [ReleaseKind("gradient", 2)], {"gradient": np.array([0.1])}, epsilon=1.0, delta=1e-5,
    ...     adjacency=ADJACENCIES["replace_one"], aggregation=AGGREGATIONS["local"])
    >>> planned = plan.releases["gradient"]
    >>> line = Release("gradient", np.array([0]), planned.drawn, planned.sigma)
    >>> check_ledger(plan, [line, line])
    >>> check_ledger(plan, [line])
    Traceback (most recent call last):
    ...
    RuntimeError: The number of releases 'gradient' is not as planned.
    """
    unknown = {line.name for line in ledger} - set(plan.releases)
    if unknown:
        raise RuntimeError(f"Releases that were not planned: {sorted(unknown)}.")
    for planned in plan.releases.values():
        lines = [line for line in ledger if line.name == planned.name]
        made = np.zeros(len(planned.drawn), dtype=int)
        for line in lines:
            made[line.clients] += line.count
            if not _as_planned(line, planned):
                raise RuntimeError(f"The noise of a release {planned.name!r} is not as planned.")
        if (made > planned.count).any() or not (stopped or (made == planned.count).all()):
            raise RuntimeError(f"The number of releases {planned.name!r} is not as planned.")


def _as_planned(line: Release, planned: PlannedRelease) -> bool:
    """Whether a line has the planned noise; of a relative kind the multiplier is planned, for all draws alike."""
    drawn = planned.drawn[line.clients]
    if planned.relative:
        unit = line.sensitivity / drawn
        drawn = line.sensitivity if np.allclose(unit, unit[:1], rtol=1e-12, atol=0.0) else drawn
    return np.array_equal(line.sensitivity, drawn) and np.array_equal(line.sigma, planned.multiplier * drawn)
