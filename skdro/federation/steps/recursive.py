"""Recursive-SPIDER for a Kullback-Leibler ball: private descent on (x, lam) around a public running shift m.

The problem is  min over x and lam in [lam0, lam1] of  lam rho + lam log mean_i exp(l_i / lam),  with weights capped
at S0.  Exponentials are re-centred at m, so that they are of the size of weights whatever lam is:

    a_i = min((l_i - m) / lam, log S0),   e_i = exp(a_i),   h_i = a_i e_i.

client_step:  tracked means  s of e_i,  h of h_i,  v of clip(e_i grad l_i, C)  at (x, lam, m)
server_step:  s^ = clip(s, .3, S0)
              lam <- proj(lam - lr_lam clip(log s^ + rho - h / s^, +-2)),   x <- x - lr * (v / s^ + ridge, heavy ball)
              before the next refresh:  m <- m + lam log clip(s, .1, S0)

m is constant between refreshes, so that both terms of a change are centred alike; at its fixed point s = 1, where the
bracket is the derivative rho - KL(w) of the capped problem in lam.  Period 1 is plain descent.  (Third paper,
Algorithm 3, whose exponentials are not re-centred: at lam0 = 1e-3 one record may move them by e^1000.)
"""

from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

import numpy as np

from ...ambiguity.divergence import KL, Capped
from ...losses.models import Model, Records
from ...privacy.ledger import Release
from ..batches import FullBatch, PoissonBatch
from .iterates import Iterates, ModelStep, bounded
from .private_descent import BlockState, PrivateDescent
from .tracking import Scalars, Tracked

__all__ = ["ClientState", "RecursiveDescent", "ServerState"]

MEANS = ("exponential", "entropy", "gradient")


@dataclass(frozen=True)
class ClientState:
    """The rows of a client and its terms of the last iteration, by name of the mean."""

    records: Records
    terms: dict


@dataclass(frozen=True)
class ServerState:
    """Public iterates and estimates.

    Parameters
    ----------
    iterates : Iterates
    temperature, previous_temperature : float
        lam now and one iteration before.
    shift : float
        m.
    means : dict
        The estimates s, h and v, by name.
    round : int
    ledger : tuple of Release
    """

    iterates: Iterates
    temperature: float
    previous_temperature: float
    shift: float
    means: dict
    round: int
    ledger: tuple[Release, ...]

    @property
    def model(self) -> np.ndarray:
        """Parameters of the model, shape (n_parameters,)."""
        return self.iterates.model


@dataclass(frozen=True)
class RecursiveDescent(PrivateDescent):
    """Public settings; see the module for the method.

    Parameters
    ----------
    model : Model
    radius : float
        rho > 0.
    max_weight : float
        S0 > 1.
    alpha : ndarray of shape (n_clients,)
        Public client weights, sum one.
    start : ndarray of shape (n_parameters,)
    clip_norm : float
        C.
    tracked : dict of Tracked
        By name: "exponential", "entropy" and "gradient"; all with the same rule.
    step : ModelStep
    temperature_step : float
        lr_lam.
    temperatures : tuple of float
        The public interval [lam0, lam1].
    temperature_start, shift_start : float
    batch : FullBatch or PoissonBatch
        Or another object with the same interface.
    """

    model: Model
    radius: float
    max_weight: float
    alpha: np.ndarray
    start: np.ndarray
    clip_norm: float
    tracked: dict[str, Tracked]
    step: ModelStep
    temperature_step: float
    temperatures: tuple[float, float]
    temperature_start: float
    shift_start: float
    batch: FullBatch | PoissonBatch
    exchanges: ClassVar[int] = 1

    def client_start_of(self, records):
        """Rows, and nothing computed yet."""
        return ClientState(records, dict.fromkeys(MEANS))

    def _terms(self, records, x, temperature, shift):
        """The terms of the three means."""
        evaluation = self.model.evaluate(x, records)
        a = np.clip((evaluation.losses - shift) / temperature, -1e300, log(self.max_weight))
        e = np.exp(a)
        gradients = evaluation.clipped(e, self.clip_norm)
        # a e -> 0 as a -> -infinity
        return dict(zip(MEANS, (Scalars(e), Scalars(np.where(e > 0, a * e, 0.0)), gradients), strict=True))

    def client_step(self, state, block, broadcast):
        """The three means of each client."""
        t, x, shift = int(broadcast["round"]), bounded(broadcast["model"]), float(broadcast["shift"])
        temperature = float(np.clip(broadcast["temperature"], *self.temperatures))
        rows = self.batch.weights(block, t)
        new = [self._terms(client.records, x, temperature, shift) for client in state.clients]
        replies, ledger = [{} for _ in new], state.ledger
        for name, tracked in self.tracked.items():
            clip = tracked.valid(broadcast[f"{name}_clip"])
            exact = np.array(
                [
                    tracked.exact(terms[name], client.terms[name], rows[block.rows(g)], t, clip)
                    for g, (terms, client) in enumerate(zip(new, state.clients, strict=True))
                ]
            )
            released, ledger = self.from_clients(tracked, exact, ledger, block, t=t, draw=t, clip=clip)
            for reply, mean in zip(replies, released, strict=True):
                reply[name] = mean
        clients = [replace(client, terms=terms) for client, terms in zip(state.clients, new, strict=True)]
        return replies, BlockState(clients, ledger)

    def costs(self, losses, broadcast):
        """Cost of records with these losses at the broadcast (lam, m)."""
        lam, m = float(broadcast["temperature"]), float(broadcast["shift"])
        return lam * self.radius + m + lam * Capped(KL(), self.max_weight).conjugate((losses - m) / lam)

    def server_start(self, n_clients, shape):
        """At the public start, as if the exponentials had mean one."""
        means = {"exponential": 1.0, "entropy": 0.0, "gradient": np.zeros_like(self.start)}
        lam = self.temperature_start
        return ServerState(Iterates.at(self.start), lam, lam, self.shift_start, means, 0, ())

    def _clip(self, server, name):
        moved = max(server.iterates.moved, abs(server.temperature - server.previous_temperature))
        return self.tracked[name].clip(moved)

    def broadcast(self, server):
        """The iterate, lam, m, the clips of changes, and the number of iterations done."""
        return {
            "model": server.iterates.current,
            "temperature": np.asarray(server.temperature),
            "shift": np.asarray(server.shift),
            "round": np.asarray(server.round),
            **{f"{name}_clip": np.asarray(self._clip(server, name)) for name in self.tracked},
        }

    def server_step(self, server, replies, clients):
        """One public step of lam and of the model; before a refresh, m follows."""
        t, means, ledger = server.round, {}, server.ledger
        for name, tracked in self.tracked.items():
            released, ledger = self.from_server(
                tracked, replies, clients, name, ledger, t=t, draw=t, clip=self._clip(server, name)
            )
            means[name] = tracked.follow(server.means[name], released, t)
        s, h, v = (means[name] for name in MEANS)
        size = float(np.clip(s, 0.3, self.max_weight))
        slope = float(np.clip(log(size) + self.radius - h / size, -2.0, 2.0))
        lam = float(np.clip(server.temperature - self.temperature_step * slope, *self.temperatures))
        refresh = self.tracked["exponential"].rule.mix(t + 1).keep == 0.0
        recentred = server.shift + lam * log(float(np.clip(s, 0.1, self.max_weight)))
        return ServerState(
            iterates=self.step.advance(server.iterates, v / size, t),
            temperature=lam,
            previous_temperature=server.temperature,
            shift=float(bounded(recentred)) if refresh else server.shift,
            means=means,
            round=t + 1,
            ledger=ledger,
        )

    def report(self, server):
        """Functions of what was released only."""
        return {
            "model_norm": float(np.linalg.norm(server.model)),
            "gradient_norm": float(np.linalg.norm(server.means["gradient"])),
            "shift": server.shift,
            "temperature": server.temperature,
            "mean_exponential": float(server.means["exponential"]),
        }
