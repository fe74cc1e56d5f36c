"""One against the rest: the consensus rounds of all classes run together, each class a problem of two classes.

For class k the labels of a block become y == k, and binary consensus ADMM does the rest: with M = (m_0, m_1) the
Crammer-Singer loss is the hinge of the score (m_1 - m_0) x, and phi(M) = ||m_1 - m_0||_*.  A round carries one
message each way for all classes that are still running: the parts' messages, stacked under the same names, and
the numbers of the problems that they belong to.  A class whose loop has finished keeps its model and costs
neither work nor communication.  Two classes need one problem only, that of class 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..client_data import ClientBlock
from ..protocol import Message
from .consensus import ClientState, ConsensusADMM, ServerState

__all__ = ["OneVsAll"]


@dataclass(frozen=True)
class OneVsAll:
    """Public settings of the ensemble; see the module for the method.

    The client state of a client and the server's state are tuples with one state of `binary` a problem.

    Parameters
    ----------
    binary : ConsensusADMM
        How each problem is solved; two classes.
    n_classes : int
        All classes, at least two.
    """

    binary: ConsensusADMM
    n_classes: int

    exchanges: ClassVar[int] = 1

    @property
    def clients_per_task(self) -> int:
        """As many as a binary problem has."""
        return self.binary.clients_per_task

    @property
    def positives(self) -> range:
        """The class of each problem that stands against the rest."""
        return range(1, 2) if self.n_classes == 2 else range(self.n_classes)

    def against_rest(self, block: ClientBlock, problem: int) -> ClientBlock:
        """The block with label 1 for the problem's class and 0 for the rest; rows are shared."""
        return replace(block, y=(block.y == self.positives[problem]).astype(block.y.dtype))

    def running(self, server: Sequence[ServerState]) -> list[int]:
        """Problems that have not met their tolerance."""
        return [k for k, state in enumerate(server) if not self.binary.finished(state)]

    def client_start(self, block: ClientBlock) -> list[tuple[ClientState, ...]]:
        """No duals, no cuts, in any problem."""
        return list(zip(*(self.binary.client_start(block) for _ in self.positives), strict=True))

    def client_step(self, state, block, broadcast):
        """One prox problem for each client and running problem."""
        states = list(zip(*state, strict=True))  # by problem
        replies = [[] for _ in range(block.n_clients)]
        for k, message in _unstack(broadcast):
            answers, states[k] = self.binary.client_step(states[k], self.against_rest(block, k), message)
            for reply, answer in zip(replies, answers, strict=True):
                reply.append((k, answer))
        return [_stack(reply) for reply in replies], list(zip(*states, strict=True))

    def memory(self, server: Sequence[ServerState], client: int) -> Message | None:
        """What the server remembers of the client in each problem; all problems began in the same round."""
        parts = [(k, self.binary.memory(state, client)) for k, state in enumerate(server)]
        known = [(k, part) for k, part in parts if part is not None]
        return _stack(known) if known else None

    def resume(self, state, block, memory):
        """Each problem goes on from its own part."""
        known = {} if memory is None else dict(_unstack(memory))
        states = zip(*state, strict=True)  # by problem
        return list(zip(*(self.binary.resume(own, block, known.get(k)) for k, own in enumerate(states)), strict=True))

    def server_start(self, n_clients: int, shape: tuple[int, ...]) -> tuple[ServerState, ...]:
        """Zero models; `shape` is (n_problems, 2, n_columns)."""
        return tuple(self.binary.server_start(n_clients, shape[1:]) for _ in self.positives)

    def broadcast(self, server: Sequence[ServerState]) -> Message:
        """Models and penalties of the running problems."""
        return _stack([(k, self.binary.broadcast(server[k])) for k in self.running(server)])

    def server_step(self, server, replies, clients):
        """A step of each running problem."""
        states = list(server)
        by_client = [dict(_unstack(reply)) for reply in replies]
        for k in self.running(server):
            states[k] = self.binary.server_step(server[k], [parts[k] for parts in by_client], clients)
        return tuple(states)

    def report(self, server: Sequence[ServerState]) -> dict[str, np.ndarray]:
        """Figures of each problem's last round, shape (n_problems,)."""
        reports = [self.binary.report(state) for state in server]
        return {name: np.array([report[name] for report in reports]) for name in reports[0]}

    def finished(self, server: Sequence[ServerState]) -> bool:
        """No problem is running."""
        return not self.running(server)


def _stack(parts: Sequence[tuple[int, Message]]) -> Message:
    """One message from the messages of some problems."""
    names = parts[0][1] if parts else ()
    stacked = {name: np.array([message[name] for _, message in parts]) for name in names}
    return {"problem": np.array([k for k, _ in parts], dtype=int), **stacked}


def _unstack(message: Message) -> list[tuple[int, Message]]:
    """The problems of a stacked message with the message of each."""
    names = message.keys() - {"problem"}
    return [(int(k), {name: message[name][place] for name in names}) for place, k in enumerate(message["problem"])]
