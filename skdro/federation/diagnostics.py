"""Diagnostics that look at the exact objective of a private algorithm: for research, never private."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["Diagnosed"]


@dataclass(frozen=True)
class DiagnosedState:
    """The server's state with the exact objective of the round beside it."""

    inner: Any
    objective: float

    @property
    def model(self) -> np.ndarray:
        """The model."""
        return self.inner.model


@dataclass(frozen=True)
class Diagnosed:
    """An algorithm whose clients also report their exact objective; `history_` then has "objective".

    Parameters
    ----------
    algorithm : Algorithm
        With a method ``exact_objective(state, block, broadcast)``.
    """

    algorithm: Any

    @property
    def clients_per_task(self):
        """As the algorithm's own."""
        return self.algorithm.clients_per_task

    @property
    def exchanges(self):
        """As the algorithm's own."""
        return self.algorithm.exchanges

    def client_start(self, block):
        """As the algorithm's own."""
        return self.algorithm.client_start(block)

    def client_step(self, state, block, broadcast):
        """The algorithm's step, and its exact objective before it."""
        objective = self.algorithm.exact_objective(state, block, broadcast)
        replies, state = self.algorithm.client_step(state, block, broadcast)
        return [{**reply, "objective": value} for reply, value in zip(replies, objective, strict=True)], state

    def server_start(self, n_clients, shape):
        """As the algorithm's own, nothing measured yet."""
        return DiagnosedState(self.algorithm.server_start(n_clients, shape), float("nan"))

    def broadcast(self, server):
        """As the algorithm's own."""
        return self.algorithm.broadcast(server.inner)

    def server_step(self, server, replies, clients):
        """The algorithm's step, and the weighted objective of the clients."""
        objective = float(self.algorithm.alpha[list(clients)] @ [reply["objective"] for reply in replies])
        return replace(server, inner=self.algorithm.server_step(server.inner, replies, clients), objective=objective)

    def finished(self, server):
        """As the algorithm's own."""
        return self.algorithm.finished(server.inner)

    def report(self, server):
        """The algorithm's report with the exact objective."""
        return {**self.algorithm.report(server.inner), "objective": server.objective}
