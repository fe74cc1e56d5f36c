"""Gradient descent at the broadcast model: the default of the private classifiers (`variant="global"`).

client_step:  G_g = mean subgradient of client g at M, over the records that take part in this round
server_step:  M  <- M - c / sqrt(t) * ( sum_g alpha_g G_g + public slope at M )

No dual and no client state depends on data: M is public and G_g is the only release.  The objective says which
subgradient and what is public.  In the robust one (`WorstCaseRisk`) flips are priced at lam = phi(M) and r dphi(M)
is public, r = sum_g alpha_g r_g.  Its data term is not differentiated through lam, which makes this a heuristic
for the robust problem: exact where no flipped label is active at lam = phi(M).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...losses.crammer_singer import GRADIENT_NORM, label_weights
from ...privacy.ledger import Release
from ..batches import FullBatch, PoissonBatch
from .objectives import PublicPart, RidgeRisk, WorstCaseRisk

__all__ = ["GradientDescent", "ServerState", "shrinking_step"]

# chosen on simulated data (examples/benchmarks/choose_private_steps.py), where one pair does for both objectives and
# for noise at the clients and on the sum; the scores are flat to .002 along a constant ratio of the two
NOISELESS_STEP, NOISE_WEIGHT = 10.0, 4.0


def shrinking_step(
    sigma: float,
    shape: tuple[int, int],
    data_norm: float,
    noiseless: float = NOISELESS_STEP,
    noise_weight: float = NOISE_WEIGHT,
) -> float:
    """Constant c of steps that shrink as the noise grows: noiseless / sqrt(1 + (noise_weight nu)^2).

    nu is the size of the noise in one round, sigma sqrt(K P), over the largest norm of an exact mean gradient.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on each coefficient of the weighted sum.
    shape : (int, int)
        Classes and columns.
    data_norm : float
    noiseless, noise_weight : float

    Examples
    --------
    >>> shrinking_step(0.0, (3, 5), 1.0)
    10.0
    >>> round(shrinking_step(0.1, (3, 5), 1.0), 2)
    6.74
    """
    nu = sigma * np.sqrt(shape[0] * shape[1]) / (GRADIENT_NORM * data_norm)
    return float(noiseless / np.hypot(1.0, noise_weight * nu))


@dataclass(frozen=True)
class ServerState:
    """The public model after `round` rounds, what follows from it alone, and what was released at the server."""

    model: np.ndarray
    public: PublicPart
    round: int
    ledger: tuple[Release, ...]


@dataclass(frozen=True)
class GradientDescent:
    """Public settings of the algorithm; see the module for the method.

    Parameters
    ----------
    objective : WorstCaseRisk or RidgeRisk
    n_classes : int
    alpha : ndarray of shape (n_clients,)
        Public client weights, sum one.
    step : float
        c in the step size c / sqrt(t), public.
    data_norm : float
        Bound L on the l2 norm of a row, constant column included.
    at_client, at_server : callable
        Doors (see `federation.doors`) for a client's mean gradient and for the weighted sum.
    batch : FullBatch or PoissonBatch
    """

    objective: WorstCaseRisk | RidgeRisk
    n_classes: int
    alpha: np.ndarray
    step: float
    data_norm: float
    at_client: Callable
    at_server: Callable
    batch: FullBatch | PoissonBatch
    clients_per_task: ClassVar[None] = None
    exchanges: ClassVar[int] = 1

    @property
    def _bound(self):
        return GRADIENT_NORM * self.data_norm * self.batch.largest

    def client_start(self, block):
        """Nothing released yet: the state of a block is its ledger."""
        return ()

    def client_step(self, ledger, block, broadcast):
        """Mean gradients of all clients of the block, stacked."""
        M, t = broadcast["model"], int(broadcast["round"])
        label, rival = self.objective.worst(block.X @ M.T, block, broadcast)
        exact = block.sums(label_weights(label, rival, self.batch.weights(block, t), self.n_classes))
        gradients, ledger = self.at_client(exact, ledger, index=block.index, round=t, bound=self._bound)
        return [{"gradient": G} for G in gradients], ledger

    def exact_objective(self, state, block, broadcast):
        """Clients' objectives at the broadcast model, without noise, shape (n_clients,): a leak if it leaves."""
        return self.objective.values(broadcast["model"], block)

    def server_start(self, n_clients, shape):
        """The zero model."""
        return ServerState(np.zeros(shape), self.objective.public(np.zeros(shape)), 0, ())

    def broadcast(self, server):
        """The model, the number of rounds behind it, and what else of it clients need."""
        return {"model": server.model, "round": np.asarray(server.round), **server.public.figures}

    def server_step(self, server, replies, clients):
        """One public step along the weighted sum of what was released."""
        weights = self.alpha[list(clients)]
        weights = weights / weights.sum()  # where clients are absent (local noise only) the rest stand for them
        total = np.tensordot(weights, np.array([reply["gradient"] for reply in replies]), axes=1)
        released, ledger = self.at_server(
            total[None], server.ledger, index=np.zeros(1, dtype=int), round=server.round, bound=self._bound
        )
        t = server.round + 1
        model = server.model - self.step / np.sqrt(t) * (released[0] + server.public.slope)
        return replace(server, model=model, public=self.objective.public(model), round=t, ledger=ledger)

    def ledger(self, server, states):
        """All releases of the run: at the clients and at the server."""
        return [line for lines in states for line in lines] + list(server.ledger)

    def finished(self, server):
        """Never: stopping on data would be a release."""
        return False

    def report(self, server):
        """Functions of the public model only."""
        return {"model_norm": float(np.linalg.norm(server.model)), **server.public.figures}
