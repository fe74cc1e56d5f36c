"""Private descent on a reweighted loss: Double-SPIDER, STORM, PrivateDiff, plain descent and ERM are its cases.

The problem is  min over x and eta of  mean_i L_i(x, eta)  with  L_i = eta + lam psi*((l_i(x) - eta) / lam).  Record i
enters the gradient in x as w_i grad l_i and that in eta as 1 - w_i, with the weight w_i = psi*'((l_i - eta) / lam)
in [0, S0]; the 1 needs no data.  Iteration t exchanges, J times and then once,

    shift:  m <- tracked mean of w_i(x_t, eta),          eta <- proj(eta - lr_eta (1 - m))
    model:  v <- tracked mean of clip(w_i grad l_i, C) at (x_t, eta),   x_{t+1} = x_t - lr * (v + ridge, heavy ball)

with proj onto a public interval and means followed as in `tracking`:

    dpgd            J = 1, both means afresh in each iteration; momentum, average of the last half
    double_spider   J = 1, both means by SPIDER (third paper, Algorithm 2)
    storm           J = 1, both means by STORM
    privatediff     J > 1 afresh, the model's mean by SPIDER
    erm             J = 0 and all weights one: private descent on the plain loss

Client state: one pass over the records at x_t and the terms of the last exchanges.  With the full batch no record is
passed over twice.  Only the two means leave, through the doors.
"""

from dataclasses import dataclass, replace

import numpy as np

from ...losses.clipping import Terms
from ...losses.models import Evaluation, Model, Records
from ...privacy.ledger import Release
from ..batches import FullBatch, PoissonBatch
from .iterates import Iterates, ModelStep, bounded
from .private_descent import PrivateDescent
from .tracking import Scalars, Tracked
from .weighting import EqualWeights, Weighting

__all__ = ["ClientState", "ReweightedDescent", "ServerState"]


@dataclass(frozen=True)
class ClientState:
    """What a client keeps from exchange to exchange, for itself: arrays of its rows.

    `rows` are the shares of the records that take part in this iteration; `weights` and `gradients` the terms of the
    last exchanges of either phase.
    """

    records: Records
    rows: np.ndarray | None = None
    evaluation: Evaluation | None = None
    weights: Scalars | None = None
    gradients: Terms | None = None


@dataclass(frozen=True)
class ServerState:
    """Public iterates and estimates.

    Parameters
    ----------
    iterates : Iterates
    shift : float
        eta.
    weighed_at, gradient_at : float
        The eta of the last exchange of either phase.
    mean_weight : float
        m.
    gradient : ndarray of shape (n_parameters,)
        v.
    round, phase : int
        Iterations done, and exchanges done in the one under way.
    ledger : tuple of Release
    """

    iterates: Iterates
    shift: float
    weighed_at: float
    gradient_at: float
    mean_weight: float
    gradient: np.ndarray
    round: int
    phase: int
    ledger: tuple[Release, ...]

    @property
    def model(self) -> np.ndarray:
        """Parameters of the model, shape (n_parameters,)."""
        return self.iterates.model


@dataclass(frozen=True)
class ReweightedDescent(PrivateDescent):
    """Public settings; see the module for the method.

    Parameters
    ----------
    model : Model
    weighting : Weighting or EqualWeights
    alpha : ndarray of shape (n_clients,)
        Public client weights, sum one.
    start : ndarray of shape (n_parameters,)
        Public.
    clip_norm : float
        C.
    weights : Tracked
        The mean of the weights.
    gradients : Tracked
        The mean of the clipped gradients.
    step : ModelStep
    n_shift_steps : int
        J.
    shift_step : float
        lr_eta.
    shift_start, shift_max : float
        eta starts there, in the public interval [0, shift_max].
    shift_scale : float
        kap_e: how far the terms move with eta, relative to x.
    batch : FullBatch or PoissonBatch
        Or another object with the same interface.
    """

    model: Model
    weighting: Weighting | EqualWeights
    alpha: np.ndarray
    start: np.ndarray
    clip_norm: float
    weights: Tracked
    gradients: Tracked
    step: ModelStep
    n_shift_steps: int
    shift_step: float
    shift_start: float
    shift_max: float
    shift_scale: float
    batch: FullBatch | PoissonBatch

    @property
    def exchanges(self) -> int:
        """Exchanges between clients and server in an iteration."""
        return self.n_shift_steps + 1

    def client_start_of(self, records):
        """Rows, and nothing computed yet."""
        return ClientState(records)

    def client_step(self, state, block, broadcast):
        """One exchange: the mean of weights or of clipped gradients of each client."""
        if int(broadcast["phase"]) == 0:
            state = self._new_pass(state, block, broadcast)
        if int(broadcast["phase"]) < self.n_shift_steps:
            return self._shift_phase(state, block, broadcast)
        return self._model_phase(state, block, broadcast)

    def _new_pass(self, state, block, broadcast):
        """One pass over the records at the new iterate, which all phases of the iteration share; so do the rows."""
        x, rows = bounded(broadcast["model"]), self.batch.weights(block, int(broadcast["round"]))
        clients = [
            replace(client, rows=rows[block.rows(g)], evaluation=self.model.evaluate(x, client.records))
            for g, client in enumerate(state.clients)
        ]
        return replace(state, clients=clients)

    def _shift_phase(self, state, block, broadcast):
        t, shift, clip = int(broadcast["round"]), float(broadcast["shift"]), self.weights.valid(broadcast["clip"])
        sums, clients = np.empty(block.n_clients), []
        for g, client in enumerate(state.clients):
            terms = Scalars(self.weighting.weights(client.evaluation.losses, shift))
            sums[g] = self.weights.exact(terms, client.weights, client.rows, t, clip)
            clients.append(replace(client, weights=terms))
        return self._released(self.weights, sums, replace(state, clients=clients), block, broadcast, clip)

    def _model_phase(self, state, block, broadcast):
        t, shift, clip = int(broadcast["round"]), float(broadcast["shift"]), self.gradients.valid(broadcast["clip"])
        sums, clients = np.empty((block.n_clients, self.model.n_parameters)), []
        for g, client in enumerate(state.clients):
            weight = self.weighting.weights(client.evaluation.losses, shift)
            terms = client.evaluation.clipped(weight, self.clip_norm)
            sums[g] = self.gradients.exact(terms, client.gradients, client.rows, t, clip)
            clients.append(replace(client, gradients=terms))
        return self._released(self.gradients, sums, replace(state, clients=clients), block, broadcast, clip)

    def _released(self, tracked, sums, state, block, broadcast, clip):
        t, phase = int(broadcast["round"]), int(broadcast["phase"])
        means, ledger = self.from_clients(
            tracked, sums, state.ledger, block, t=t, draw=self._draw(t, phase), clip=clip
        )
        return [{"mean": mean} for mean in means], replace(state, ledger=ledger)

    def _draw(self, t, phase):
        """Number of the noise draw among those of its kind."""
        return t * self.n_shift_steps + phase if phase < self.n_shift_steps else t

    def costs(self, losses, broadcast):
        """Cost of records with these losses at the broadcast eta."""
        return self.weighting.costs(losses, float(broadcast["shift"]))

    def server_start(self, n_clients, shape):
        """At the public start."""
        eta = self.shift_start
        return ServerState(Iterates.at(self.start), eta, eta, eta, 1.0, np.zeros_like(self.start), 0, 0, ())

    def broadcast(self, server):
        """The iterate, eta, the clip of changes, and where in the schedule we are."""
        return {
            "model": server.iterates.current,
            "shift": np.asarray(server.shift),
            "clip": np.asarray(self._clip(server)),
            "round": np.asarray(server.round),
            "phase": np.asarray(server.phase),
        }

    def _clip(self, server):
        moved = server.iterates.moved
        if server.phase < self.n_shift_steps:
            return self.weights.clip(max(moved, abs(server.shift - server.weighed_at)))
        return self.gradients.clip(max(moved, self.shift_scale * abs(server.shift - server.gradient_at)))

    def server_step(self, server, replies, clients):
        """One public step of eta or of the model."""
        shifting, t = server.phase < self.n_shift_steps, server.round
        released, ledger = self.from_server(
            self.weights if shifting else self.gradients,
            replies,
            clients,
            "mean",
            server.ledger,
            t=t,
            draw=self._draw(t, server.phase),
            clip=self._clip(server),
        )
        return (self._shift_taken if shifting else self._model_taken)(replace(server, ledger=ledger), released)

    def _shift_taken(self, server, released):
        m = float(self.weights.follow(server.mean_weight, released, server.round))
        eta = float(np.clip(server.shift - self.shift_step * (1.0 - m), 0.0, self.shift_max))
        return replace(server, mean_weight=m, shift=eta, weighed_at=server.shift, phase=server.phase + 1)

    def _model_taken(self, server, released):
        v = self.gradients.follow(server.gradient, released, server.round)
        return replace(
            server,
            gradient=v,
            gradient_at=server.shift,
            iterates=self.step.advance(server.iterates, v, server.round),
            round=server.round + 1,
            phase=0,
        )

    def report(self, server):
        """Functions of what was released only."""
        return {
            "model_norm": float(np.linalg.norm(server.model)),
            "gradient_norm": float(np.linalg.norm(server.gradient)),
            "shift": server.shift,
            "mean_weight": server.mean_weight,
        }
