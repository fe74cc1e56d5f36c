"""Time of one full-batch private iteration beside the two matrix products that it cannot do without.

100 000 x 100 rows; binary and ten classes, linear and with one hidden layer of 16 units.  The products are X W^T and
V^T X with as many columns as the model has outputs (linear) or hidden units (network).  CPU time on one thread, best
of the repetitions; targets: at most 3 for linear models, 4 for the network.  The last column is the memory that the
iterations allocate at their peak, as a multiple of n (p + h) numbers, h the outputs and hidden units.

    python examples/benchmarks/divergence_speed.py
"""

import time
import tracemalloc

import numpy as np
from threadpoolctl import threadpool_limits

from skdro.ambiguity.divergence import Capped, CressieRead
from skdro.federation.client_data import ClientBlock
from skdro.federation.divergence_designs import DESIGNS, KL_DESIGNS
from skdro.federation.divergence_settings import Ambiguity, Budget, Descent, Facts, KLBallSettings
from skdro.federation.in_process import run
from skdro.losses.models import LinearModel, TanhNetwork, n_outputs
from skdro.privacy.accounting import ACCOUNTANTS
from skdro.privacy.noise import StreamNoise
from skdro.privacy.plan import AGGREGATIONS
from skdro.privacy.sensitivity import ADJACENCIES

N_ROWS, N_COLUMNS, N_HIDDEN, N_ROUNDS = 100_000, 100, 16, 12
MODELS = {
    "linear, binary": (LinearModel(2, N_COLUMNS, True), 0),
    "linear, K = 10": (LinearModel(10, N_COLUMNS, True), 0),
    "network, binary": (TanhNetwork(2, N_COLUMNS, N_HIDDEN, True), N_HIDDEN),
    "network, K = 10": (TanhNetwork(10, N_COLUMNS, N_HIDDEN, True), N_HIDDEN),
}
BUDGET = Budget(5.0, 1e-6, ADJACENCIES["replace_one"], AGGREGATIONS["trusted"], ACCOUNTANTS["gdp"])
CHI2 = Ambiguity(Capped(CressieRead(2.0), 10.0), penalty=1.0)
SOLVERS = {name: (design, CHI2) for name, design in DESIGNS.items()}
SOLVERS |= {f"KL ball, {name}": (design, KLBallSettings(0.5)) for name, design in KL_DESIGNS.items()}


class Stopwatch:
    """CPU time of each iteration."""

    def __init__(self):
        self.seconds = []

    def begin(self):
        """Start."""
        self._start = time.process_time()

    def end(self, server):
        """Stop."""
        self.seconds.append(time.process_time() - self._start)
        return False


def products(X, width, repetitions=N_ROUNDS):
    """Best CPU time of X W^T and V^T X."""
    rng, seconds = np.random.default_rng(0), []
    W, V = rng.normal(size=(width, X.shape[1])), rng.normal(size=(len(X), width))
    with threadpool_limits(1):
        for _ in range(repetitions):
            start = time.process_time()
            X @ W.T
            V.T @ X
            seconds.append(time.process_time() - start)
    return min(seconds)


def iterate(design, problem, model, block):
    """CPU times of the iterations, and the peak of the memory that they allocate, in bytes."""
    facts = Facts(
        model, model.n_classes, model.start(np.random.default_rng(0)), block.sizes, np.ones(1), StreamNoise(0)
    )
    algorithm = design(BUDGET, Descent(N_ROUNDS, 1.0), problem, facts).algorithm
    watch = Stopwatch()
    run(algorithm, block, (model.n_parameters,), N_ROUNDS, exchanges=algorithm.exchanges, monitor=watch)
    tracemalloc.start()
    run(algorithm, block, (model.n_parameters,), 3, exchanges=algorithm.exchanges)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return watch.seconds, peak


def main():
    """Print the table."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_COLUMNS)) / 10
    print(f"{'model':18s}{'solver':28s}{'products ms':>12s}{'iteration ms':>14s}{'ratio':>8s}{'memory':>8s}")
    for name, (model, hidden) in MODELS.items():
        y, weight = rng.integers(0, model.n_classes, N_ROWS), np.full(N_ROWS, 1 / N_ROWS)
        block = ClientBlock(X, y, weight, np.array([0, N_ROWS]), np.zeros(1), np.zeros(1, dtype=int))
        outputs = n_outputs(model.n_classes)
        for solver, (design, problem) in SOLVERS.items():
            base = products(X, hidden or outputs)
            seconds, peak = iterate(design, problem, model, block)
            ratio, share = min(seconds) / base, peak / (8 * N_ROWS * (N_COLUMNS + hidden + outputs))
            print(
                f"{name:18s}{solver:28s}{1e3 * base:12.1f}{1e3 * min(seconds):14.1f}{ratio:8.2f}{share:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
