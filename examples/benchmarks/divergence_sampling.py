"""Does Poisson sampling pay for private divergence DRO?  Balanced accuracy at equal totals, paired with full batches.

The tasks and budgets of divergence_private.py with linear models, noise once on the sum, steps by the public noise.
Sampled fits make as many passes over the records as thirty full iterations (rate times iterations), or a third of
them; they are accounted by privacy loss distributions, full batches exactly (extra `subsampling`).

    python examples/benchmarks/divergence_sampling.py [--runs 10] [--jobs 2] [--data digits mnist]

MNIST is read from the data folder (SKDRO_DATA).
"""

import argparse
import warnings
from itertools import product

import numpy as np
from divergence_tasks import DATA, Cell, task_of
from joblib import Parallel, delayed
from sklearn.metrics import balanced_accuracy_score

from skdro import DROSpiderClassifier

EPSILONS, RATIOS, DELTA_SHARE = (0.5, 1.0, 5.0), (0.2, 0.1), 0.1
# name -> rate and iterations; the first is the default
ARMS = {
    "full, 30": (1.0, 30),
    "full, 100": (1.0, 100),
    ".3, 100": (0.3, 100),
    ".1, 100": (0.1, 100),
    ".1, 300": (0.1, 300),
}


def scores(cell, seed):
    """Balanced accuracy in % of each arm."""
    warnings.simplefilter("ignore")
    X, y, X_test, y_test = task_of(cell, seed)
    common = {"delta": DELTA_SHARE / len(X), "aggregation": "trusted", "classes": [0, 1], "random_state": seed}
    found = []
    for rate, n_rounds in ARMS.values():
        model = DROSpiderClassifier(cell.epsilon, sampling_rate=rate, n_rounds=n_rounds, **common).fit(X, y)
        found.append(100 * balanced_accuracy_score(y_test, model.predict(X_test)))
    return found


def main():
    """Print means, and paired differences to the default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--data", nargs="+", default=["digits", "mnist"], choices=DATA)
    options = parser.parse_args()
    for data, ratio, epsilon in product(options.data, RATIOS, EPSILONS):
        cell = Cell("linear", data, ratio, epsilon)
        runs = np.array(Parallel(options.jobs)(delayed(scores)(cell, seed) for seed in range(options.runs)))
        gaps = runs - runs[:, :1]
        errors = gaps.std(axis=0, ddof=1) / np.sqrt(len(runs))
        texts = [f"{gap:+.1f} ({error:.1f})" for gap, error in zip(gaps.mean(axis=0), errors, strict=True)]
        texts[0] = f"{runs[:, 0].mean():.1f}"
        shown = "   ".join(f"{arm}: {text}" for arm, text in zip(ARMS, texts, strict=True))
        print(f"{data} {ratio:g} epsilon {epsilon:g}   {shown}", flush=True)


if __name__ == "__main__":
    main()
