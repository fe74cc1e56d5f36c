"""Private divergence DRO beside private ERM, at equal and exact privacy, on imbalanced binary tasks.

Digits, MNIST and Fashion-MNIST (14 x 14) as "class 5 or more", positives made rare in training, test sets balanced;
epsilon .5, 1, 5, 10 with delta = 1 / (10 n), replace-one, noise once on the sum.  Chi-square with penalty 1 and a
Kullback-Leibler ball of radius .5; rows in [0, 1], clipped to norm one with the constant.  Steps, clips and
iterations were chosen on simulated data (choose_divergence_steps.py), one setting a solver for all epsilon.

Prints mean and standard deviation over the runs of balanced accuracy, AUC, worst-class recall (in %) and the norm of
the gradient of what the solver minimises, then the paired differences in balanced accuracy between the default (dpgd)
and each other solver with p values corrected by Holm over a data set's comparisons.

    python examples/benchmarks/divergence_private.py [--quick] [--data digits mnist fashion] [--model linear network]
                                                     [--runs 10]

MNIST and Fashion-MNIST are read from the data folder (SKDRO_DATA).
"""

import argparse
import os
from itertools import product
from pathlib import Path

import numpy as np
from divergence_engine import DELTA_SHARE, fit_parameters, gradient_norm
from joblib import Parallel, delayed
from scipy.stats import t as student
from sklearn.datasets import load_digits
from sklearn.metrics import recall_score, roc_auc_score
from sklearn.model_selection import train_test_split

from skdro.ambiguity.divergence import Capped, CressieRead
from skdro.ambiguity.reweighting import KLBall, Penalised
from skdro.datasets import make_imbalanced

POSITIVE, RATIOS, EPSILONS = [5, 6, 7, 8, 9], (0.2, 0.1), (0.5, 1.0, 5.0, 10.0)
METRICS = ("balanced accuracy", "AUC", "worst recall", "gradient norm")
CHI2 = Penalised(Capped(CressieRead(2.0), 10.0), 1.0)
BALL = KLBall(0.5, 0.1, 10.0)
SOLVERS = {
    "dpgd": {"n_rounds": 100, "step": 2.0},
    "erm": {"n_rounds": 50, "step": 8.0},
    "dpsgda": {"n_rounds": 50, "step": 2.0},
    "storm": {"n_rounds": 50, "step": 8.0},
    "double_spider": {"n_rounds": 100, "step": 2.0},
    "privatediff": {"n_rounds": 100, "step": 2.0},
    "kl dpgd": {"n_rounds": 100, "step": 2.0},
    "kl recursive_spider": {"n_rounds": 100, "step": 2.0},
}


def weights_of(solver):
    """Nature's answer to losses in the problem of a solver."""
    if solver == "erm":
        return np.ones_like
    return lambda losses: (BALL if solver.startswith("kl") else CHI2).worst_case(losses).weight


def digits(seed):
    """A quarter of scikit-learn's digits for the test."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16.0, y, test_size=0.25, stratify=y, random_state=seed)
    return X, y, X_test, y_test


def _images(folder, train, test):
    root = Path(os.environ["SKDRO_DATA"]) / folder
    parts = [[np.load(root / name) for name in names] for names in (train, test)]
    out = []
    for part in parts:
        keys = sorted(part[0].files, key=lambda key: part[0][key].ndim)
        y, X = (np.concatenate([file[key] for file in part]) for key in (keys[0], keys[-1]))
        X = X.reshape(len(X), 28, 28).astype(float) / 255.0
        out += [X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(X), 196), y.astype(int)]
    return out[0], out[1], out[2], out[3]


def mnist(seed):
    """14 x 14 means of 2 x 2 pixels."""
    return _images("mnist", ["mnist_train10k.npz"], ["mnist_test10k.npz"])


def fashion(seed):
    """14 x 14 means of 2 x 2 pixels."""
    return _images("fashion_mnist", ["fashion_train_0.npz", "fashion_train_1.npz"], ["fashion_test5k.npz"])


DATA = {"digits": digits, "mnist": mnist, "fashion": fashion}


def one_run(data, kind, ratio, epsilon, seed):
    """Metrics of each solver, shape (n_solvers, n_metrics), and the number of training rows."""
    X, y, X_test, y_test = DATA[data](seed)
    X, y = make_imbalanced(X, y, ratio, positive=POSITIVE, random_state=seed)
    X_test, y_test = make_imbalanced(X_test, y_test, 0.5, positive=POSITIVE, random_state=seed)
    rows = []
    for solver, steps in SOLVERS.items():
        fit = fit_parameters(X, y, solver, epsilon, DELTA_SHARE / len(X), seed, kind, **steps)
        frame, model, parameters = fit
        scores = model.scores(parameters, frame.enter(X_test))
        logit = scores[:, 1] - scores[:, 0]
        recalls = recall_score(y_test, logit > 0, average=None)
        norm = gradient_norm(weights_of(solver), *fit, X, y)
        rows.append([100 * recalls.mean(), 100 * roc_auc_score(y_test, logit), 100 * recalls.min(), norm])
    return np.array(rows), len(X)


def holm(p):
    """Corrected p values."""
    order, corrected = np.argsort(p), np.empty(len(p))
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, np.sort(p) * np.arange(len(p), 0, -1)))
    return corrected


def compare(found):
    """Paired differences of the default with each solver: rows (cell, solver, difference, error, p, Holm's p)."""
    rows = []
    for cell, values in found.items():
        for k, solver in enumerate(SOLVERS):
            if k:
                gap = values[:, 0, 0] - values[:, k, 0]
                error = gap.std(ddof=1) / np.sqrt(len(gap))
                rows.append((cell, solver, gap.mean(), error, 2 * student.sf(abs(gap.mean() / error), len(gap) - 1)))
    return [(*row, p) for row, p in zip(rows, holm(np.array([row[-1] for row in rows])), strict=True)]


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="two runs, epsilon 1 and 5, ratio .2")
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--model", nargs="+", default=["linear", "network"], choices=["linear", "network"])
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    runs = 2 if options.quick else options.runs
    cells = [(0.2, 1.0), (0.2, 5.0)] if options.quick else list(product(RATIOS, EPSILONS))
    for data, kind in product(options.data, options.model):
        found = {}
        for cell in cells:
            answers = Parallel(n_jobs=2)(delayed(one_run)(data, kind, *cell, seed) for seed in range(runs))
            found[cell] = np.array([rows for rows, _ in answers])
            ratio, epsilon = cell
            print(f"\n{data}, {kind}, positives {ratio:g}, epsilon {epsilon:g}, n = {answers[0][1]}, {runs} runs")
            print(f"{'':22s}" + "".join(f"{metric:>20s}" for metric in METRICS))
            for k, solver in enumerate(SOLVERS):
                means, deviations = found[cell][:, k].mean(axis=0), found[cell][:, k].std(axis=0, ddof=1)
                shown = [f"{m:.1f} ({d:.1f})" for m, d in zip(means[:3], deviations[:3], strict=True)]
                shown.append(f"{means[3]:.3f} ({deviations[3]:.3f})")
                print(f"{solver:22s}" + "".join(f"{text:>20s}" for text in shown), flush=True)
        print(f"\n{data}, {kind}: balanced accuracy of dpgd minus that of ... (standard error; Holm's p)")
        for (ratio, epsilon), solver, gap, error, _, p in compare(found):
            mark = "  <- deficit" if gap < -2 * error and p < 0.05 else ""
            print(f"  positives {ratio:g} epsilon {epsilon:4g} {solver:22s}{gap:7.1f} ({error:.1f}; {p:.3f}){mark}")


if __name__ == "__main__":
    main()
