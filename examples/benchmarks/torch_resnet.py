"""A ResNet-20 with GroupNorm trained under differential privacy on Fashion-MNIST, beside a linear model.

Images of 28 x 28 are padded to 32 x 32, pixels mapped to [-1, 1]; ten classes; balanced test set.  Both models are
fitted by private descent on the chi-square risk (`DROSpiderClassifier`) under the same total budget: replace-one,
delta = 1 / (10 n), noise once on the sum, full batches.  No weight comes from private pre-training.

Prints, and adds to the CSV as each fit ends: seconds a full-batch iteration, by the wall clock and of processor time
(the wall clock of a core that is not shared), balanced accuracy and worst-class recall.

    python examples/benchmarks/torch_resnet.py [--quick] [--records 600] [--rounds 6] [--epsilon 5] [--csv FILE]

The data are read from the data folder (SKDRO_DATA).
"""

import argparse
import csv
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import recall_score

from skdro import DROSpiderClassifier
from skdro.exceptions import PrivacyLeakWarning
from skdro.torch import Network, resnet20

SHAPE = (1, 32, 32)


def images(file, n, seed):
    """The same number of images of each class, padded to 32 x 32, in [0, 1]."""
    part = np.load(Path(os.environ["SKDRO_DATA"]) / "fashion_mnist" / file)
    X, y = part["X"], part["y"].astype(int)
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == k))[: n // 10] for k in range(10)])
    padded = np.pad(X[rows], ((0, 0), (2, 2), (2, 2)))
    return padded.reshape(len(rows), -1) / 255.0, y[rows]


def models(options, n):
    """Estimators by name, with what the private fits share."""
    common = {
        "epsilon": options.epsilon,
        "delta": 0.1 / n,
        "classes": list(range(10)),
        "feature_bounds": (0.0, 1.0),
        "aggregation": "trusted",
        "random_state": options.seed,
    }
    network = Network(resnet20, SHAPE, micro_batch=options.micro_batch, n_threads=options.threads)
    return {
        # rows may be long: the gradients of a network are clipped whatever its input is
        "resnet20": DROSpiderClassifier(
            network=network, n_rounds=options.rounds, step_size=options.step, clip_norm=options.clip, data_norm=32.0,
            **common,
        ),
        "linear": DROSpiderClassifier(n_rounds=100, step_size=2.0, **common),
    }  # fmt: skip


def main():
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="200 records, two rounds, 200 test images")
    parser.add_argument("--records", type=int, default=600)
    parser.add_argument("--test-records", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--step", type=float, default=0.25)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--epsilon", type=float, default=5.0)
    parser.add_argument("--micro-batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.records, options.test_records, options.rounds = 200, 200, 2
    warnings.simplefilter("ignore", PrivacyLeakWarning)  # the noise is seeded, for the table only
    X, y = images("fashion_train_0.npz", options.records, options.seed)
    X_test, y_test = images("fashion_test5k.npz", options.test_records, options.seed)
    print(f"{'model':10s}{'parameters':>12s}{'s / iteration':>15s}{'processor':>11s}{'balanced':>10s}{'worst':>8s}")
    for name, model in models(options, len(X)).items():
        began = np.array([time.perf_counter(), time.process_time()])
        model.fit(X, y)
        seconds = (np.array([time.perf_counter(), time.process_time()]) - began) / model.n_iter_
        recalls = 100 * recall_score(y_test, model.predict(X_test), average=None)
        size = len(model._fitted_parameters)
        row = [name, size, *seconds, recalls.mean(), recalls.min()]
        print(
            f"{name:10s}{size:12d}{seconds[0]:15.2f}{seconds[1]:11.2f}{recalls.mean():10.1f}{recalls.min():8.1f}",
            flush=True,
        )
        if options.csv is not None:
            with options.csv.open("a", newline="") as file:
                csv.writer(file).writerow([*row, len(X), model.n_iter_, options.epsilon, options.seed])


if __name__ == "__main__":
    main()
