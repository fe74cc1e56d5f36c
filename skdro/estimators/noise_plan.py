"""What a budget costs in noise, before any data are touched: the estimators' own plan, read as signal and noise."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from sklearn.base import clone

from ..privacy.report import PrivacyReport
from ..privacy.sensitivity import ADJACENCIES
from .private import DPFedDROClassifier

__all__ = ["ClientNoise", "NoisePlan", "plan_noise"]

SHOWN = 8  # clients in a repr


@dataclass(frozen=True)
class ClientNoise:
    """Noise and signal where one draw of noise is added.

    Parameters
    ----------
    rows : int
        Whose mean the noise is added to.
    sigma : float
        Standard deviation of the noise on each coefficient in each round.
    ratio_round : float
        l2 norm of the noise of a round over the largest norm that the exact release can have.
    ratio_total : float
        The same for the mean over all rounds: above 1, a signal that stays the same for all rounds drowns.
    drowning_rows : float
        Number of rows at which `ratio_total` is 1, in the same proportions between clients.
    """

    rows: int
    sigma: float
    ratio_round: float
    ratio_total: float
    drowning_rows: float


@dataclass(frozen=True, repr=False)
class NoisePlan:
    """What a budget costs.

    Parameters
    ----------
    report : PrivacyReport
        What a fit would end with: its `epsilon`, `mu` and `events`.
    release : str
        Name of the release that carries the model, to which the other fields refer.
    n_coefficients : int
        Classes times columns, intercept included.
    n_rounds : int
    noise : dict of ClientNoise
        By client label; one entry, "all clients", if noise is added once to the sum.
    """

    report: PrivacyReport
    release: str
    n_coefficients: int
    n_rounds: int
    noise: dict[Hashable, ClientNoise]

    @property
    def epsilon(self) -> float | None:
        """Total epsilon of a fit; None if it would not be private."""
        return self.report.epsilon

    @property
    def mu(self) -> float | None:
        """Gaussian-DP parameter of a fit; None if its rounds are sampled."""
        return self.report.mu

    @property
    def drowning_rows(self) -> float:
        """Rows below which the signal drowns, the largest over clients."""
        return max(each.drowning_rows for each in self.noise.values())

    def __repr__(self):
        claim = "nothing is claimed, since random_state is set"
        if self.epsilon is not None:
            claim = f"(epsilon, delta) = ({self.epsilon:.6g}, {self.report.delta:g}), mu = {self.mu:.4g}"
        lines = [
            f"NoisePlan: {claim}; {self.n_rounds} x {self.release!r} of {self.n_coefficients} coefficients",
            f"  {'noise added at':20s}{'rows':>8s}{'sigma':>12s}{'noise/signal':>14s}{'over rounds':>13s}",
        ]
        for client, each in list(self.noise.items())[:SHOWN]:
            lines.append(
                f"  {client!s:20s}{each.rows:8d}{each.sigma:12.4g}{each.ratio_round:14.4g}{each.ratio_total:13.4g}"
            )
        if len(self.noise) > SHOWN:
            lines.append(f"  and {len(self.noise) - SHOWN} more")
        lines.append(f"  the signal drowns below {self.drowning_rows:.4g} rows")
        return "\n".join(lines)


def plan_noise(
    epsilon: float,
    delta: float,
    n_rounds: int,
    n_rows_per_client: int | Sequence[int] | Mapping[Hashable, int],
    *,
    n_features: int,
    n_classes: int,
    estimator: Any = None,
    **parameters: Any,
) -> NoisePlan:
    """Noise that a budget costs, from public numbers alone.

    It asks the estimator for its own plan, so that it cannot say anything else than a fit would do.

    Parameters
    ----------
    epsilon, delta : float
        Total budget.
    n_rounds : int
    n_rows_per_client : int, sequence of int, or mapping from client label to int
        An int is a single client.
    n_features, n_classes : int
    estimator : private classifier, default=None
        `DPFedDROClassifier()` if not given.
    **parameters : object
        Set on the estimator: `aggregation`, `adjacency`, `client_weights`, `data_norm`, ...

    Returns
    -------
    plan : NoisePlan

    Raises
    ------
    ValueError
        A number or a parameter is out of range.

    Notes
    -----
    The signal is the largest norm that the exact release can have (every record's term at its bound and in one
    direction); a real one is smaller, so that more rows are needed than `drowning_rows`.

    Examples
    --------
    >>> from skdro import plan_noise
    >>> plan_noise(1.0, 1e-5, 30, {"north": 400, "south": 100}, n_features=10, n_classes=2)
    NoisePlan: (epsilon, delta) = (1, 1e-05), mu = 0.2681; 30 x 'gradient' of 22 coefficients
      noise added at          rows       sigma  noise/signal  over rounds
      north                    400      0.1445        0.4792      0.08749
      south                    100      0.5779         1.917         0.35
      the signal drowns below 35 rows
    """
    rows = _rows_by_client(n_rows_per_client)
    for name, value, least in (("n_features", n_features, 1), ("n_classes", n_classes, 2)):
        if value < least:
            raise ValueError(f"{name} must be >= {least}; got {value!r}.")
    public = {"epsilon": epsilon, "delta": delta, "n_rounds": n_rounds, "classes": list(range(n_classes))}
    model = clone(DPFedDROClassifier() if estimator is None else estimator).set_params(**public, **parameters)
    groups = np.repeat(np.array(list(rows)), list(rows.values()))
    report = model.privacy_plan(np.broadcast_to(0.0, (len(groups), n_features)), groups)
    release = report.events[0].name
    events = [event for event in report.events if event.name == release]
    n_coefficients = n_classes * (n_features + bool(model.fit_intercept))
    places = NOISE_PLACES[model.aggregation](events, rows)
    ball = ADJACENCIES[report.adjacency].ball
    noise = {
        place: _client_noise(n_rows, event, reach / ball, n_coefficients)
        for place, (n_rows, event, reach) in places.items()
    }
    return NoisePlan(report, release, n_coefficients, n_rounds, noise)


def _rows_by_client(n_rows_per_client):
    if isinstance(n_rows_per_client, Mapping):
        rows = dict(sorted(n_rows_per_client.items()))
    else:
        rows = dict(enumerate(np.atleast_1d(n_rows_per_client).tolist()))
    if not rows or any(not isinstance(n, int | np.integer) or n < 1 for n in rows.values()):
        raise ValueError(f"n_rows_per_client must hold positive integers; got {n_rows_per_client!r}.")
    return rows


def _at_each_client(events, rows):
    """(rows, event, sum of the rows' sensitivities) where each client adds noise of its own."""
    return {event.client: (rows[event.client], event, rows[event.client] * event.sensitivity) for event in events}


def _once_on_the_sum(events, rows):
    """The same where noise is added once to the sum over clients."""
    reach = sum(rows[event.client] * event.sensitivity for event in events)
    return {"all clients": (sum(rows.values()), events[0], reach)}


NOISE_PLACES = {"local": _at_each_client, "trusted": _once_on_the_sum}


def _client_noise(rows, event, signal, n_coefficients):
    ratio = event.sigma * sqrt(n_coefficients) / signal
    total = ratio / sqrt(event.count)
    return ClientNoise(rows, event.sigma, ratio, total, rows * total)
