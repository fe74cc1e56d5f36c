"""What a round costs on each joblib backend, by how long one client's step takes.

    python examples/benchmarks/cluster_rounds.py

Eight clients whose steps do nothing but matrix products for about the given time; ms of the fastest round, which is
what other processes on the machine disturb least.  Backends that are not installed are left out.
"""

import contextlib
import os
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from joblib import parallel_config

from skdro.federation.client_data import prepare
from skdro.federation.frames import AffineFrame
from skdro.federation.in_process import run

N_CLIENTS = 8
STEPS = {1.0: 40, 10.0: 15, 100.0: 6}  # ms a step: rounds


@dataclass(frozen=True)
class Busy:
    """An algorithm that averages a number, after `products` matrix products a client."""

    products: int
    clients_per_task: ClassVar[int] = 1

    def client_start(self, block):
        return [None] * block.n_clients

    def client_step(self, state, block, broadcast):
        A = np.full((120, 120), 0.01)
        for _ in range(self.products):
            A = np.clip(A @ A, 0.0, 0.01)
        return [{"value": A[0, :1]}] * block.n_clients, state

    def server_start(self, n_clients, shape):
        return np.zeros(1)

    def broadcast(self, server):
        return {"value": server}

    def server_step(self, server, replies, clients):
        return np.mean([reply["value"] for reply in replies], axis=0)

    def finished(self, server):
        return False

    def report(self, server):
        return {"time": time.perf_counter()}


@contextlib.contextmanager
def dask():
    import distributed

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        parallel_config(backend="dask"),
    ):
        yield


@contextlib.contextmanager
def ray():
    import ray
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False)
    register_ray()
    with parallel_config(backend="ray"):
        yield
    ray.shutdown()


BACKENDS = {
    "sequential": lambda: parallel_config(backend="sequential"),
    "threading, 2": lambda: parallel_config(backend="threading", n_jobs=2),
    "loky, 2": lambda: parallel_config(backend="loky", n_jobs=2),
    "dask, 2 processes": dask,
    "ray, 2 processes": ray,
}


def products_for(milliseconds):
    """How many products take so long here."""
    Busy(20).client_step(None, _block(1), None)
    began = time.process_time()  # of this process: others may be at work too
    Busy(400).client_step(None, _block(1), None)
    return max(1, round(milliseconds * 1e-3 / (time.process_time() - began) * 400))


def _block(n_clients):
    rows = np.arange(n_clients)
    return prepare(np.zeros((n_clients, 1)), rows * 0, rows, rows, AffineFrame(np.zeros(1), 1.0, False))


def main():
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before")
    print("| backend | " + " | ".join(f"{ms:g} ms a step" for ms in STEPS) + " |")
    print("| --- |" + " --- |" * len(STEPS))
    for name, backend in BACKENDS.items():
        try:
            with backend():
                cells = []
                for ms, n_rounds in STEPS.items():
                    rounds = run(Busy(products_for(ms)), _block(N_CLIENTS), (1,), n_rounds, clients_per_task=1)
                    cells.append(f"{1e3 * np.diff(rounds.history['time']).min():.0f}")
        except ImportError:
            continue
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
