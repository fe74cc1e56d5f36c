"""DP-SGDA: private descent in (x, eta), ascent in one weight per record that never leaves its client.

client_step:  q_i <- q_i + tau (w_i - q_i)  for all i,  w_i = psi*'((l_i(x) - eta) / lam);
              releases  mean q_i  and  mean clip(q_i grad l_i, C)
server_step:  eta <- proj(eta - lr_eta (1 - mean q)),   x <- x - lr * (direction + ridge, heavy ball)

A step of q_i goes towards the best response w_i.  For chi-square below the cap that is gradient ascent on
q_i (l_i - eta) - lam psi(q_i) with step tau / lam; for Kullback-Leibler the gradient is infinite at q_i = 0, the best
response is not.  So q_i stays in [0, S0] and is a function of its own record and of released iterates only: unlike a
step on the simplex, whose normalisation couples the records and is not private.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...losses.models import Model, Records
from ...privacy.ledger import Release
from ..batches import FullBatch, PoissonBatch
from .iterates import Iterates, ModelStep, bounded
from .private_descent import BlockState, PrivateDescent
from .tracking import Scalars, Tracked
from .weighting import Weighting

__all__ = ["ClientState", "DualWeights", "ServerState"]


@dataclass(frozen=True)
class ClientState:
    """The rows of a client, and the weight q_i of each, shape (n_rows,)."""

    records: Records
    dual: np.ndarray


@dataclass(frozen=True)
class ServerState:
    """Public iterates, eta, the last released means, the number of iterations, and what the server released."""

    iterates: Iterates
    shift: float
    mean_weight: float
    gradient: np.ndarray
    round: int
    ledger: tuple[Release, ...]

    @property
    def model(self) -> np.ndarray:
        """Parameters of the model, shape (n_parameters,)."""
        return self.iterates.model


@dataclass(frozen=True)
class DualWeights(PrivateDescent):
    """Public settings; see the module for the method.

    Parameters
    ----------
    model : Model
    weighting : Weighting
    alpha : ndarray of shape (n_clients,)
        Public client weights, sum one.
    start : ndarray of shape (n_parameters,)
    clip_norm : float
        C.
    weights, gradients : Tracked
        Both afresh in each iteration.
    step : ModelStep
    dual_step : float
        tau, in (0, 1].
    shift_step, shift_start, shift_max : float
        lr_eta; eta starts at `shift_start` in [0, shift_max].
    batch : FullBatch or PoissonBatch
        Or another object with the same interface; every q_i moves in every iteration, whoever takes part.
    """

    model: Model
    weighting: Weighting
    alpha: np.ndarray
    start: np.ndarray
    clip_norm: float
    weights: Tracked
    gradients: Tracked
    step: ModelStep
    dual_step: float
    shift_step: float
    shift_start: float
    shift_max: float
    batch: FullBatch | PoissonBatch
    exchanges: ClassVar[int] = 1

    def client_start_of(self, records):
        """All q_i one."""
        return ClientState(records, np.ones(len(records.y)))

    def client_step(self, state, block, broadcast):
        """A step of all q_i, then the two means of each client."""
        t, x, shift = int(broadcast["round"]), bounded(broadcast["model"]), float(broadcast["shift"])
        all_rows = self.batch.weights(block, t)
        weights, gradients = np.empty(block.n_clients), np.empty((block.n_clients, self.model.n_parameters))
        clients = []
        for g, client in enumerate(state.clients):
            evaluation, rows = self.model.evaluate(x, client.records), all_rows[block.rows(g)]
            dual = client.dual + self.dual_step * (self.weighting.weights(evaluation.losses, shift) - client.dual)
            weights[g] = self.weights.exact(Scalars(dual), None, rows, t, 0.0)
            gradients[g] = self.gradients.exact(evaluation.clipped(dual, self.clip_norm), None, rows, t, 0.0)
            clients.append(replace(client, dual=dual))
        when = {"t": t, "draw": t, "clip": 0.0}
        weights, ledger = self.from_clients(self.weights, weights, state.ledger, block, **when)
        gradients, ledger = self.from_clients(self.gradients, gradients, ledger, block, **when)
        replies = [{"weight": w, "gradient": v} for w, v in zip(weights, gradients, strict=True)]
        return replies, BlockState(clients, ledger)

    def costs(self, losses, broadcast):
        """Cost of records with these losses at the broadcast eta."""
        return self.weighting.costs(losses, float(broadcast["shift"]))

    def server_start(self, n_clients, shape):
        """At the public start."""
        return ServerState(Iterates.at(self.start), self.shift_start, 1.0, np.zeros_like(self.start), 0, ())

    def broadcast(self, server):
        """The iterate, eta, and the number of iterations done."""
        return {
            "model": server.iterates.current,
            "shift": np.asarray(server.shift),
            "round": np.asarray(server.round),
        }

    def server_step(self, server, replies, clients):
        """One public step of eta and of the model."""
        t = server.round
        when = {"t": t, "draw": t, "clip": 0.0}
        m, ledger = self.from_server(self.weights, replies, clients, "weight", server.ledger, **when)
        v, ledger = self.from_server(self.gradients, replies, clients, "gradient", ledger, **when)
        return ServerState(
            iterates=self.step.advance(server.iterates, v, t),
            shift=float(np.clip(server.shift - self.shift_step * (1.0 - m), 0.0, self.shift_max)),
            mean_weight=float(m),
            gradient=v,
            round=t + 1,
            ledger=ledger,
        )

    def report(self, server):
        """Functions of what was released only."""
        return {
            "model_norm": float(np.linalg.norm(server.model)),
            "gradient_norm": float(np.linalg.norm(server.gradient)),
            "shift": server.shift,
            "mean_weight": server.mean_weight,
        }
