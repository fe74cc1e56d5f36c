"""Step sizes, clips and iterations of the private divergence solvers, chosen on simulated data only.

Three tasks, ten kinds of record in two classes, rare positives in training and a balanced test set:

    grid     840 rows of 64: noisy copies of sparse random patterns on an 8 x 8 grid, positives .2
    strokes  3000 rows of 196: moved chains of soft dots of random brightness on 14 x 14 pixels, positives .1
    shapes   1000 rows of 100: soft boxes on 10 x 10 pixels plus shared low-rank variation, positives .2; with a
             hidden layer

Every solver, private ERM included, gets one search: 30 iterations with four clip norms and four values of step times
clip norm, then the best of these with 60 and with 100 iterations at the same step and at the same sum of steps; plain
descents with momentum .9 first and then .8 too.  Prints the mean balanced accuracy over tasks, epsilon .5 and 5 and
the runs, best settings first; then what the best of them reaches in each task and epsilon beside the best setting of
that cell.  Linear models were chosen on all three tasks, networks on shapes; where more iterations gained less than
the noise of this search (about two points), fewer were taken.

    python examples/benchmarks/choose_divergence_steps.py [--runs 2] [--solvers dpgd erm ...] [--tasks shapes]
"""

import argparse
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
from divergence_engine import DELTA_SHARE, TABLE, fit_model
from scipy.ndimage import gaussian_filter
from sklearn.metrics import balanced_accuracy_score

EPSILONS = (0.5, 5.0)
N_ROUNDS, MORE_ROUNDS, CLIPS, REACHES = 30, (60, 100), (0.25, 0.5, 1.0, 2.0), (1.0, 2.0, 8.0, 32.0)
PLAIN, MOMENTA = ("dpgd", "erm", "dpsgda", "kl dpgd"), (0.9, 0.8)
N_TEST, N_KINDS = 1000, 10


def grid(rng):
    """Sparse random patterns with heavy noise."""
    patterns = np.where(rng.random((N_KINDS, 64)) < 0.4, rng.random((N_KINDS, 64)), 0.0)
    return lambda kind: patterns[kind] + 0.35 * rng.normal(size=(len(kind), 64))


def strokes(rng):
    """Chains of soft dots, moved by up to half a pixel, of random brightness."""
    walks = np.cumsum(rng.normal(size=(N_KINDS, 6, 2)), axis=1)
    walks = 6.5 + 4.0 * (walks - walks.mean(axis=1, keepdims=True)) / np.abs(walks).max(axis=(1, 2), keepdims=True)
    rows, columns = np.mgrid[:14, :14]

    def draw(kind):
        dots = walks[kind] + rng.uniform(-0.5, 0.5, (len(kind), 1, 2)) + 0.25 * rng.normal(size=(len(kind), 6, 2))
        squared = (rows - dots[..., 0, None, None]) ** 2 + (columns - dots[..., 1, None, None]) ** 2
        images = np.exp(-squared / 1.5).max(axis=1).reshape(len(kind), 196)
        return images * rng.uniform(0.7, 1.0, (len(kind), 1))

    return draw


def shapes(rng):
    """Soft boxes with variation along twelve directions that all kinds share."""
    boxes = np.zeros((N_KINDS, 10, 10))
    for box in boxes:
        (top, left), (height, width) = rng.integers(0, 4, 2), rng.integers(3, 8, 2)
        box[top : top + height, left : left + width] = rng.uniform(0.5, 1.0)
    boxes = np.stack([gaussian_filter(box, 0.7) for box in boxes]).reshape(N_KINDS, 100)
    directions = np.stack([gaussian_filter(rng.normal(size=(10, 10)), 1.0) for _ in range(12)]).reshape(12, 100)

    def draw(kind):
        shared = rng.normal(size=(len(kind), 12)) @ directions
        return boxes[kind] * rng.uniform(0.6, 1.0, (len(kind), 1)) + 0.2 * shared

    return draw


# task -> records, model, training rows, share of positives
TASKS = {
    "grid": (grid, "linear", 840, 0.2),
    "strokes": (strokes, "linear", 3000, 0.1),
    "shapes": (shapes, "network", 1000, 0.2),
}


def simulated(task, seed):
    """Rows in [0, 1] and labels, and the same for the test."""
    records, _, n_train, positives = TASKS[task]
    return simulated_from(records, n_train, positives, seed)


@cache
def simulated_from(records, n_train, positives, seed):
    """Rows in [0, 1] and labels of these records, and the same for the test."""
    rng = np.random.default_rng(seed)
    draw = records(rng)

    def sample(n, share):
        y = (rng.random(n) < share).astype(int)
        return np.clip(draw(rng.integers(N_KINDS // 2, size=n) + N_KINDS // 2 * y), 0, 1), y

    return *sample(n_train, positives), *sample(N_TEST, 0.5)


@dataclass(frozen=True)
class Setting:
    """What is chosen; `reach` is the step times the clip norm."""

    n_rounds: int
    clip_norm: float
    reach: float
    momentum: float

    def descent(self):
        """As a fit takes it."""
        return {
            "n_rounds": self.n_rounds,
            "clip_norm": self.clip_norm,
            "step": self.reach / self.clip_norm,
            "momentum": self.momentum,
        }

    def __str__(self):
        return f"T={self.n_rounds} C={self.clip_norm:g} lr={self.reach / self.clip_norm:.3g} m={self.momentum:g}"


def one(solver, setting, task, epsilon, seed):
    """Balanced accuracy of one fit."""
    X, y, X_test, y_test = simulated(task, seed)
    predict = fit_model(X, y, solver, epsilon, DELTA_SHARE / len(X), seed, TASKS[task][1], **setting.descent())
    return balanced_accuracy_score(y_test, predict(X_test) > 0)


def search(solver, cells, n_runs):
    """Settings and their balanced accuracy in %, shape (n_settings, n_cells)."""

    def rated(settings):
        runs = [
            [[one(solver, setting, *cell, seed) for seed in range(n_runs)] for cell in cells] for setting in settings
        ]
        return 100 * np.array(runs).mean(axis=2)

    momenta = MOMENTA if solver in PLAIN else (0.0,)
    first = [Setting(N_ROUNDS, clip_norm, reach, momenta[0]) for clip_norm, reach in product(CLIPS, REACHES)]
    table = rated(first)
    best = first[table.mean(axis=1).argmax()]
    longer = [
        replace(best, n_rounds=n_rounds, reach=best.reach * share, momentum=momentum)
        for n_rounds in MORE_ROUNDS
        for momentum in momenta
        for share in (1.0, N_ROUNDS / n_rounds * (1 - momentum) / (1 - best.momentum))
    ]
    return first + longer, np.vstack([table, rated(longer)])


def main():
    """Print the choice."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--solvers", nargs="+", default=list(TABLE), choices=TABLE)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    options = parser.parse_args()
    cells = list(product(options.tasks, EPSILONS))
    for solver in options.solvers:
        settings, table = search(solver, cells, options.runs)
        order = table.mean(axis=1).argsort()[::-1]
        print(f"\n{solver}: " + "; ".join(f"{settings[k]}: {table[k].mean():.1f}" for k in order[:8]))
        for j, (task, epsilon) in enumerate(cells):
            best = table[:, j].argmax()
            print(
                f"  {task:8s} epsilon {epsilon:4g} {table[order[0], j]:6.1f}   best {table[best, j]:6.1f} with "
                f"{settings[best]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
