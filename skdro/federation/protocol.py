"""What an algorithm is, seen by whoever runs it: two pure steps around states that hold only arrays.

    client_step(state, block, broadcast)               -> replies, state       at the site
    server_step(server_state, replies, clients)        -> server_state         at the server

The in-process loop, a cluster and a real federation run the same two functions.  Data and client state never
leave the site; what crosses is a `Message`: a dict of arrays.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .client_data import ClientBlock

__all__ = ["Algorithm", "Message", "Resumable"]

Message = dict[str, np.ndarray]
"""What crosses between a site and the server: arrays (numbers are arrays of shape ()) under fixed names."""


class Algorithm(Protocol):
    """A federated algorithm; a frozen object that holds only public settings.

    Attributes
    ----------
    clients_per_task : int or None
        How many clients one task of the in-process loop should hold: 1 where each client solves a problem of its
        own, None (all) where clients are stacked and a step is a few matrix products.
    exchanges : int
        Exchanges between clients and server in a round; what is reported is the state after the last.
    """

    clients_per_task: int | None
    exchanges: int

    def client_start(self, block: ClientBlock) -> Any:
        """State of a block's clients before the first round: a list with one entry a client."""

    def client_step(self, state: Any, block: ClientBlock, broadcast: Message) -> tuple[list[Message], Any]:
        """One round at a block of clients: one reply a client, and the new state."""

    def server_start(self, n_clients: int, shape: tuple[int, ...]) -> Any:
        """State of the server before the first round; `shape` is the model's."""

    def server_step(self, server_state: Any, replies: Sequence[Message], clients: Sequence[int]) -> Any:
        """New server state from the replies of the clients (by index) that took part in this round."""

    def broadcast(self, server_state: Any) -> Message:
        """What the server sends to every client at the start of a round."""

    def finished(self, server_state: Any) -> bool:
        """Whether the server would stop here."""

    def report(self, server_state: Any) -> dict[str, float | np.ndarray]:
        """Figures of the round that has just ended, for `history_`; the same names and shapes in each round."""


@runtime_checkable
class Resumable(Protocol):
    """An algorithm whose clients keep something that the server must know of, and can go on from what it knows.

    A client that was restarted, or whose last reply was lost, no longer has the state that the server takes it to
    have.  An algorithm without these two methods does not mind.
    """

    def memory(self, server_state: Any, client: int) -> Message | None:
        """What the server remembers of a client (by index); None if it never heard of it."""

    def resume(self, state: Any, block: ClientBlock, memory: Message | None) -> Any:
        """State of a block of one client that agrees with the server's memory; `state` is what the client has."""
