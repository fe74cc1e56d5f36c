"""What the private descents share: records at the clients, sums through doors, and nothing that leaves otherwise."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...losses.models import Records
from ...privacy.ledger import Release

__all__ = ["BlockState", "PrivateDescent"]


@dataclass(frozen=True)
class BlockState:
    """The states of a block's clients, and what they released."""

    clients: list[Any]
    ledger: tuple[Release, ...] = ()


class PrivateDescent:
    """Base of the descents; a subclass has `model`, `alpha`, `batch`, `client_start_of(records)` and `costs`."""

    clients_per_task: ClassVar[None] = None

    def client_start(self, block):
        """Rows and their norms."""
        parts = [block.rows(g) for g in range(block.n_clients)]
        return BlockState([self.client_start_of(Records.of(block.X[rows], block.y[rows])) for rows in parts])

    def from_clients(self, tracked, sums, ledger, block, *, t, draw, clip):
        """What clients let out of their exact sums, shape (n_clients, ...), in iteration t."""
        where = {"index": block.index, "t": t, "round": draw, "clip": clip, "largest": self.batch.largest}
        return tracked.release(tracked.at_client, sums, ledger, **where)

    def from_server(self, tracked, replies, clients, name, ledger, *, t, draw, clip):
        """What the server lets out of the weighted sum of the replies' entries `name`."""
        total = np.tensordot(self.alpha[list(clients)], np.array([reply[name] for reply in replies]), axes=1)
        where = {"index": np.zeros(1, dtype=int), "t": t, "round": draw, "clip": clip, "largest": self.batch.largest}
        released, ledger = tracked.release(tracked.at_server, total[None], ledger, **where)
        return released[0], ledger

    def exact_objective(self, state, block, broadcast):
        """Mean cost of each client's records at the broadcast, shape (n_clients,): a leak if it leaves."""
        losses = [self.model.evaluate(broadcast["model"], client.records).losses for client in state.clients]
        return np.array([block.weight[block.rows(g)] @ self.costs(loss, broadcast) for g, loss in enumerate(losses)])

    def ledger(self, server, states):
        """All releases of the run: at the clients and at the server."""
        return [line for state in states for line in state.ledger] + list(server.ledger)

    def finished(self, server):
        """Never: stopping on data would be a release."""
        return False
