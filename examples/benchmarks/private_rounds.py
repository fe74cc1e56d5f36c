"""Time of one private round, in two tables; one thread, processor time, noise from the operating system.

First: clients stacked, clients one by one, and the matrix products of the gradients alone; the least of several runs
(a busy machine only ever adds time).  Second: the robust classifier over ERM, variant by variant, as the median over
alternating runs, for K classes and G clients.  N records in all, P features and an intercept.

    python examples/benchmarks/private_rounds.py [ratios]
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
import warnings

import numpy as np

from skdro import DPFedDROClassifier, DPFedERMClassifier
from skdro.federation import in_process

SIZES = ((5, 3000, 4, 10), (30, 3000, 4, 10), (30, 30000, 4, 50))  # G, N, K, P
VARIANTS = {
    "default, local": {},
    "default, trusted": {"aggregation": "trusted"},
    "published": {"variant": "paper"},
}
ROUNDS = 200
CLASSES, CLIENTS = (3, 5, 9, 20), (5, 30, 100)
ROWS, FEATURES = 3000, 10
NORMS = ("linf", "l2", "l1")


def problem(G, N, K, P):
    """Records of K Gaussian classes, dealt evenly."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, N)
    return rng.normal(size=(N, P)) + rng.normal(size=(K, P))[y], y, np.arange(N) % G


def captured_run(X, y, groups, settings, cls=DPFedDROClassifier):
    """The algorithm and the block that a fit makes."""
    calls = []
    original = in_process.run

    def spy(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    in_process.run = spy
    try:
        warnings.simplefilter("ignore")
        cls(classes=np.unique(y), feature_bounds=(-4, 4), n_rounds=1, **settings).fit(X, y, groups)
    finally:
        in_process.run = original
    return calls[0][:3]


def seconds(function, repeats):
    """Least processor time of a call, over `repeats`."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def products(block, K):
    """Scores at one model and the clients' gradients from given weights: what no implementation can avoid."""
    M, V = np.ones((K, block.X.shape[1])), np.ones((len(block.X), K))
    stacks = (block.n_clients, -1)
    X3, V3 = block.X.reshape(*stacks, block.X.shape[1]), V.reshape(*stacks, K).transpose(0, 2, 1)

    def run():
        for _ in range(ROUNDS):
            block.X @ M.T
            np.matmul(V3, X3)

    return run


def ratio(X, y, groups, settings, norm, repeats=5):
    """Median time of the robust rounds over that of ERM, runs alternating; and ERM's microseconds a round."""
    robust = captured_run(X, y, groups, {**settings, "norm": norm})
    erm = captured_run(X, y, groups, settings, DPFedERMClassifier)
    rounds = ROUNDS // 10
    times = [
        [seconds(lambda run=run: in_process.run(*run, rounds), 1) for run in (robust, erm)] for _ in range(repeats)
    ]
    robust_time, erm_time = np.median(times, axis=0)
    return robust_time / erm_time, 1e6 * erm_time / rounds


def ratios():
    """Print the table of robust rounds over ERM's."""
    print(f"\nDP-Fed DRO / DP-Fed ERM, time of a round; N = {ROWS}, P = {FEATURES}")
    print("  G  K  method            us (ERM) " + "".join(f"{norm:>7s}" for norm in NORMS))
    for G in CLIENTS:
        for K in CLASSES:
            X, y, groups = problem(G, ROWS, K, FEATURES)
            for name, settings in VARIANTS.items():
                found = [ratio(X, y, groups, settings, norm) for norm in NORMS]
                base = np.median([us for _, us in found])
                print(f"{G:3d} {K:2d}  {name:18s}{base:8.0f} " + "".join(f"{r:7.2f}" for r, _ in found), flush=True)


def rounds():
    """Print the table of rounds against their matrix products."""
    print("  G      N  K   P  method             us a round / products one by one")
    for G, N, K, P in SIZES:
        X, y, groups = problem(G, N, K, P)
        for name, settings in VARIANTS.items():
            algorithm, block, shape = captured_run(X, y, groups, settings)

            def stacked(algorithm=algorithm, block=block, shape=shape):
                in_process.run(algorithm, block, shape, ROUNDS)

            def one_by_one(algorithm=algorithm, block=block, shape=shape):
                in_process.run(algorithm, block, shape, ROUNDS, clients_per_task=1)

            base = seconds(products(block, K), 7) / ROUNDS
            together = seconds(stacked, 7) / ROUNDS
            alone = seconds(one_by_one, 3) / ROUNDS
            print(
                f"{G:3d} {N:6d} {K:2d} {P:3d}  {name:18s} {1e6 * together:10.0f} {together / base:10.1f} "
                f"{alone / together:9.1f}x"
            )


if __name__ == "__main__":
    if sys.argv[1:] != ["ratios"]:
        rounds()
    ratios()
