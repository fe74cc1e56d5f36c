"""The round loop in one process: clients under joblib, the server in between.

How clients are grouped into tasks depends on the number of clients only, never on `n_jobs`, and replies are
reduced in client order: every backend and every number of workers gives the same model, bit for bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController

from .client_data import ClientBlock
from .protocol import Algorithm, Message

__all__ = ["Monitor", "Run", "run"]


class Monitor(Protocol):
    """Who watches the rounds."""

    def begin(self) -> None:
        """A round begins."""

    def end(self, server_state: Any) -> bool:
        """A round has ended; returns whether to stop."""


@dataclass(frozen=True)
class Run:
    """What is left after the last round.

    Parameters
    ----------
    server : object
        The server's state.
    states : list
        The clients' states, one entry a task.
    history : dict of str to ndarray of shape (n_rounds,)
        The algorithm's report of each round.
    """

    server: Any
    states: list
    history: dict[str, np.ndarray]


def run(
    algorithm: Algorithm,
    block: ClientBlock,
    shape: tuple[int, ...],
    n_rounds: int,
    n_jobs: int | None = None,
    *,
    exchanges: int = 1,
    clients_per_task: int | None = None,
    participants: Callable[[int], list[int]] | None = None,
    monitor: Monitor | None = None,
) -> Run:
    """Run rounds until `n_rounds`, until the algorithm has finished, or until the monitor stops them.

    Parameters
    ----------
    algorithm : Algorithm
    block : ClientBlock
        All clients.
    shape : tuple of int
        Shape of the model.
    n_rounds : int
    n_jobs : int, optional
        Workers, as in joblib; the user's `joblib.parallel_config` decides on the backend.
    exchanges : int
        Exchanges between clients and server in a round, where an algorithm needs several; `history` and the monitor
        see the last.
    clients_per_task : int, optional
        Clients whose steps run in one task; all in one if not given.
    participants : callable, optional
        Maps a round's number to the sorted indices of the tasks that take part; all do if not given.
    monitor : Monitor, optional

    Returns
    -------
    Run
    """
    clients_per_task = clients_per_task or block.n_clients
    cuts = range(0, block.n_clients, clients_per_task)
    blocks = [block.subset(start, min(start + clients_per_task, block.n_clients)) for start in cuts]
    states = [algorithm.client_start(part) for part in blocks]
    server = algorithm.server_start(block.n_clients, shape)
    reports = []
    # one BLAS thread a worker: clients are the parallelism, and sums must not depend on the number of threads
    # numpy's reactions to overflow and the like are the caller's in every worker: a private fit silences them,
    # since a warning that depends on the records would tell on them
    errors = np.geterr()
    with _blas().limit(limits=1), Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
        for t in range(n_rounds):
            if monitor is not None:
                monitor.begin()
            tasks = range(len(blocks)) if participants is None else participants(t)
            for _ in range(exchanges):
                broadcast = algorithm.broadcast(server)
                steps = [delayed(_one_task)(algorithm, states[k], blocks[k], broadcast, errors) for k in tasks]
                # a single task needs no pool, and a round of stacked clients is shorter than the pool's own work
                answers = parallel(steps) if len(steps) > 1 else [step(*args) for step, args, _ in steps]
                replies: list[Message] = []
                clients: list[int] = []
                for k, (task_replies, state) in zip(tasks, answers, strict=True):
                    states[k] = state
                    replies += task_replies
                    clients += range(cuts[k], cuts[k] + len(task_replies))
                server = algorithm.server_step(server, replies, clients)
            reports.append(algorithm.report(server))
            stop = monitor is not None and monitor.end(server)
            if stop or algorithm.finished(server):
                break
    history = {name: np.array([report[name] for report in reports]) for name in reports[0]}
    return Run(server, states, history)


def _one_task(algorithm, state, block, broadcast, errors):
    with _blas().limit(limits=1), np.errstate(**errors):  # a worker has limits and reactions of its own
        return algorithm.client_step(state, block, broadcast)


@cache
def _blas():
    """Controller of the process's BLAS; made once, since finding the libraries takes milliseconds."""
    return ThreadpoolController()
