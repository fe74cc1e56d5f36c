"""How far the private divergence solvers go, and how the noise shortens their steps; chosen on simulated data only.

The step of a private fit is  reach / C / sqrt(1 + (noise / knee)^2)  with the noise of `step_size` in
skdro.federation.divergence_plan; an infinite knee is a step that does not depend on the noise.  Iterations, clips and
momenta are those of choose_divergence_steps.py, whose records these are, in more sizes and shares of positives.

Every solver gets the same grid of (reach, knee) and the same choice: of the pairs whose mean balanced accuracy over
tasks, budgets and runs is within half a point of the best, the one with the smallest mean log loss.  Accuracy hardly
tells long steps apart, since the noise of a direction does not grow with its length; probabilities do.

    python examples/benchmarks/choose_divergence_rule.py [--model linear network] [--runs 2] [--jobs 2]
                                                         [--solvers dpgd erm ...] [--keep rules.csv]
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from choose_divergence_steps import grid, shapes, simulated_from, strokes
from divergence_engine import DELTA_SHARE, fit_model
from divergence_private import SETTINGS, SOLVERS
from joblib import Parallel, delayed
from scipy.special import expit
from sklearn.metrics import balanced_accuracy_score, log_loss

RECORDS = {"grid": grid, "strokes": strokes, "shapes": shapes}
# kind of model -> records, training rows, share of positives
TASKS = {
    "linear": [
        ("grid", 840, 0.2),
        ("grid", 840, 0.1),
        ("strokes", 3000, 0.2),
        ("strokes", 3000, 0.1),
        ("shapes", 3000, 0.2),
        ("shapes", 1000, 0.1),
    ],
    "network": [
        ("grid", 840, 0.2),
        ("strokes", 2000, 0.2),
        ("strokes", 2000, 0.1),
        ("shapes", 1000, 0.2),
        ("shapes", 1000, 0.1),
    ],
}
EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0)  # the last two stand for many records
REACHES = {"linear": (8.0, 16.0, 32.0, 64.0), "network": (2.0, 4.0, 8.0, 32.0)}
KNEES = {"linear": (0.003, 0.01, 0.03, np.inf), "network": (0.01, 0.03, 0.1, np.inf)}
WITHIN = 0.5  # points of balanced accuracy that a better log loss may cost


def one(kind, solver, reach, knee, task, epsilon, seed):
    """Balanced accuracy in % and log loss of one fit."""
    records, *sizes = task
    X, y, X_test, y_test = simulated_from(RECORDS[records], *sizes, seed)
    descent = {**SETTINGS[kind][solver], "knee": knee}
    descent["step"] = reach / descent["clip_norm"]
    logits = fit_model(X, y, solver, epsilon, DELTA_SHARE / len(X), seed, kind, **descent)(X_test)
    probabilities = expit(logits).clip(1e-15, 1 - 1e-15)
    return {
        "kind": kind, "solver": solver, "reach": reach, "knee": knee, "task": task[0], "rows": task[1],
        "positives": task[2], "epsilon": epsilon, "seed": seed,
        "accuracy": 100 * balanced_accuracy_score(y_test, logits > 0), "log loss": log_loss(y_test, probabilities),
    }  # fmt: skip


def chosen(found):
    """Reach and knee: the smallest log loss among the pairs that are about as accurate as the best."""
    near = found[found["accuracy"] >= found["accuracy"].max() - WITHIN]
    return near["log loss"].idxmin()


def main():
    """Print the means of each pair, and the choice."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=SOLVERS)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="file that all runs are written to")
    options = parser.parse_args()
    for kind, solver in product(options.model, options.solvers):
        jobs = product(REACHES[kind], KNEES[kind], TASKS[kind], EPSILONS, range(options.runs))
        runs = pd.DataFrame(Parallel(n_jobs=options.jobs)(delayed(one)(kind, solver, *job) for job in jobs))
        if options.keep is not None:
            runs.to_csv(options.keep, mode="a", header=not options.keep.exists(), index=False)
        found = runs.groupby(["reach", "knee"])[["accuracy", "log loss"]].mean()
        print(f"\n{kind}, {solver}\n{found.unstack('knee').round(2).to_string()}")
        print(f"chosen: reach, knee = {chosen(found)}", flush=True)


if __name__ == "__main__":
    main()
