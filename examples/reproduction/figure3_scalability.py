"""Figure 3 of the first paper: time to the peak of the mean per-class recall, by number of clients and of classes.

make_classification on the vertices of a cube of side 5, unit noise, ten features, 80/20 split; (a) 3000 records over
G clients, (b) 100 records a client, both with four classes; (c) 3000 records of K classes over four clients.
T = 120 rounds, .2 and 1e-8 a round (a total of about 2.2 by Theorem 2), the paper's radii, kappas and constants.

Reported: seconds until the recall of a round is within .01 of the best of all rounds (processor time of the fit
alone, one thread; callbacks do the scoring and are not counted), and two ratios over whole fits of T rounds: robust
over ERM, and exact over private.  Targets: at most 1.5, and at most 20.  A busy machine moves such short times by a
factor of two: examples/benchmarks/private_rounds.py alternates the methods and takes medians.

    python examples/reproduction/figure3_scalability.py [--quick]
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from rounds import EachRound
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split
from study import Study, options

from skdro import DPFedDROClassifier, DPFedERMClassifier, DPFedSGDClassifier, FedDROClassifier

T, TOLERANCE = 120, 0.01
CLIENTS, CLASSES = (5, 10, 15, 20, 25, 30), (3, 5, 7, 9)
BUDGET = {"epsilon": 0.2, "delta": 1e-8, "budget": "per_round", "n_rounds": T}
METHODS = {
    "FedDRO, not private": FedDROClassifier(1e-5, 0.25, norm="l1", rho=0.5, n_rounds=T, tol=0),
    "DP-Fed DRO, published": DPFedDROClassifier(
        **BUDGET, radius=0.02, kappa=0.5, norm="l1", variant="paper", c_model=1.0, c_lambda=1.0, rho=0.5
    ),
    "DP-Fed ERM, published": DPFedERMClassifier(**BUDGET, variant="paper", c_model=1.0, rho=0.5),
    "DP-Fed SGD, published": DPFedSGDClassifier(**BUDGET, c_model=0.1),
    "DP-Fed DRO": DPFedDROClassifier(**BUDGET),
    "DP-Fed ERM": DPFedERMClassifier(**BUDGET),
}
PANELS = {"fixed total": "clients (3000 records)", "fixed local": "clients (100 records each)", "classes": "classes"}
RATIOS = {
    "DRO / ERM, published": ("DP-Fed DRO, published", "DP-Fed ERM, published"),
    "DRO / ERM, default": ("DP-Fed DRO", "DP-Fed ERM"),
    "exact / private, published": ("FedDRO, not private", "DP-Fed DRO, published"),
}


def problem(panel, size, seed):
    """Training rows, labels and clients, test rows and labels; features in [0, 1], rows of norm one."""
    n_clients, n_classes = (4, size) if panel == "classes" else (size, 4)
    X, y = make_classification(
        100 * size if panel == "fixed local" else 3000, 10, n_informative=10, n_redundant=0, n_classes=n_classes,
        n_clusters_per_class=1, class_sep=2.5, flip_y=0.0, random_state=seed,
    )  # fmt: skip
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    lo, hi = X.min(axis=0), X.max(axis=0)
    X, X_test = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in ((X - lo) / (hi - lo), (X_test - lo) / (hi - lo))
    )
    return X, y, np.arange(len(X)) % n_clients, X_test, y_test


def timed(panel, size, method, seed):
    """Seconds of the whole fit and to the peak, and the peak."""
    warnings.simplefilter("ignore")
    X, y, groups, X_test, y_test = problem(panel, size, seed)
    model = clone(METHODS[method])
    if "epsilon" in model.get_params():
        model.set_params(classes=np.unique(y), random_state=seed)
    start = time.process_time()
    model.fit(X, y, groups=groups)
    whole = time.process_time() - start
    recalls = EachRound(lambda m: recall_score(y_test, m.predict(X_test), average="macro"), time.process_time)
    model.set_callbacks(recalls).fit(X, y, groups=groups)
    peak = max(recalls.values)
    reached = int(np.argmax(np.array(recalls.values) >= peak - TOLERANCE))
    return {"whole": whole, "to peak": whole * (reached + 1) / len(recalls.values), "peak": peak}


def main():
    """Run one after another, so that times are comparable; compare, draw."""
    args = options(__doc__)
    args.jobs = 1
    study, seeds = Study("figure3", args), range(1 if args.quick else args.seeds or 5)
    sizes = {"fixed total": CLIENTS, "fixed local": CLIENTS, "classes": CLASSES}
    if args.quick:
        sizes = {panel: values[:: len(values) - 1] for panel, values in sizes.items()}
    jobs = [
        {"panel": panel, "size": size, "method": method, "seed": seed}
        for seed in seeds for panel in PANELS for size in sizes[panel] for method in METHODS
    ]  # fmt: skip
    rows = study.run(timed, jobs, "_times").set_index(["panel", "size", "method", "seed"])

    entries = []
    for name, (above, below) in RATIOS.items():
        ratio = rows.xs(above, level="method")["whole"] / rows.xs(below, level="method")["whole"]
        for (panel, size), values in ratio.groupby(["panel", "size"], sort=False):
            entries.append((name, f"{size} {PANELS[panel]}", values.to_numpy(), None))
    study.compare("First paper, Figure 3: ratios of the time of 120 rounds", entries)

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), sharey=True, layout="constrained")
    for ax, (panel, label) in zip(axes, PANELS.items(), strict=True):
        for method in METHODS:
            table = rows["to peak"].xs(panel).xs(method, level="method").unstack("size")
            (line,) = ax.plot(table.columns, table.median(), marker="o", ms=3, label=method)
            ax.fill_between(table.columns, table.min(), table.max(), color=line.get_color(), alpha=0.2, lw=0)
        ax.set(yscale="log", xlabel=label)
    axes[0].set_ylabel("seconds to the peak of the recall\n(median and range over seeds)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    study.save(figure)


if __name__ == "__main__":
    main()
