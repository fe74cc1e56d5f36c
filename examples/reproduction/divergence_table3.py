"""Table 3 of the third paper: test accuracy of private divergence DRO, beside its published numbers.

MNIST-ST (digits 5 to 9 against 0 to 4, a tenth positive in training, balanced test) and Fashion-MNIST (ten classes),
10 000 training images of 14 x 14 pixels and a network with one hidden layer of 32 tanh units, where the paper has
60 000 of 28 x 28 and a ResNet-20.  KL divergence; delta = 1 / (10 n), replace-one, noise once on the sum, total
budgets by exact accounting.  Clips, iterations and steps that follow the noise were chosen on simulated data
(``examples/benchmarks/choose_divergence_steps.py`` and ``choose_divergence_rule.py``), one rule a solver.

**The published numbers cannot be reached honestly.**  They hardly depend on epsilon (MNIST-ST 99.5 % at .5 and at
10), and the noise scales behind them are given up to constants, for losses and gradients whose bounds are assumed
and not enforced.  At exact privacy every solver loses tens of points at epsilon .5, and the differences of the
variance-reduced ones carry more noise than they save.  The last row, the same network without privacy, says what of
the distance is the smaller data and model, and what is privacy.  On MNIST-ST, where one record in ten is positive,
plain descent goes from 58 to 64 %, and the solvers that follow changes put every record into the frequent class from
epsilon 5 on: they have 30 short steps there, and their constants come from milder tasks.

    SKDRO_DATA=folder python examples/reproduction/divergence_table3.py [--quick]
"""

import itertools
import warnings

import matplotlib.pyplot as plt
from images import images, imbalanced
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score
from study import Study, band, options

from skdro import DROSpiderClassifier, KLDROSpiderClassifier

EPSILONS = (0.5, 1.0, 5.0, 10.0)
COMMON = {"hidden_layer_sizes": (32,), "aggregation": "trusted"}
PLAIN, DIFFERING = {**COMMON, "n_rounds": 60}, {**COMMON, "clip_norm": 2.0}
SOLVERS = {
    "DP-SGDA": DROSpiderClassifier(divergence="kl", solver="dpsgda", **PLAIN),
    "PrivateDiff": DROSpiderClassifier(divergence="kl", solver="privatediff", **DIFFERING),
    "DP Double-SPIDER": DROSpiderClassifier(divergence="kl", solver="double_spider", **COMMON),
    "DP Recursive-SPIDER": KLDROSpiderClassifier(radius=0.5, solver="recursive_spider", **DIFFERING),
    "default (plain descent)": DROSpiderClassifier(divergence="kl", **PLAIN),
    "private ERM": DROSpiderClassifier(divergence="kl", solver="erm", **PLAIN),
}
FREE = "not private, exact"
PAPER = {
    "MNIST-ST": {
        "DP-SGDA": (99.16, 99.48, 99.49, 99.55),
        "PrivateDiff": (99.18, 99.30, 99.47, 99.32),
        "DP Double-SPIDER": (99.49, 99.50, 99.47, 99.46),
        "DP Recursive-SPIDER": (99.66, 99.56, 99.45, 99.45),
    },
    "Fashion-MNIST": {
        "DP-SGDA": (88.13, 89.16, 90.45, 90.39),
        "PrivateDiff": (88.82, 89.51, 90.70, 91.29),
        "DP Double-SPIDER": (91.39, 91.37, 91.36, 91.38),
        "DP Recursive-SPIDER": (92.27, 91.87, 91.59, 91.58),
    },
}


def rows_of(data, seed):
    """Training and test rows of a task."""
    return imbalanced("mnist", 0.1, seed) if data == "MNIST-ST" else images("fashion_mnist")


def accuracy(data, solver, epsilon, seed):
    """Test accuracy in % of one fit (test sets are balanced); epsilon 0 means without privacy."""
    warnings.simplefilter("ignore")
    X, y, X_test, y_test = rows_of(data, seed)
    if solver == FREE:
        model = DROSpiderClassifier(divergence="kl", hidden_layer_sizes=(32,), max_iter=300, init_seed=seed)
    else:
        model = clone(SOLVERS[solver]).set_params(
            epsilon=epsilon, delta=0.1 / len(X), classes=sorted(set(y)), init_seed=seed, random_state=seed
        )
    return {"accuracy": 100 * balanced_accuracy_score(y_test, model.fit(X, y).predict(X_test))}


def main():
    """Run, compare, draw."""
    args = options(__doc__)
    study = Study("divergence_table3", args)
    seeds, epsilons = (range(2), EPSILONS[1:3]) if args.quick else (range(args.seeds or 5), EPSILONS)
    tasks = list(PAPER)[:1] if args.quick else list(PAPER)
    jobs = [*itertools.product(tasks, SOLVERS, epsilons, seeds), *itertools.product(tasks, [FREE], [0.0], seeds)]
    names = ("data", "solver", "epsilon", "seed")
    rows = study.run(accuracy, [dict(zip(names, job, strict=True)) for job in jobs])
    entries = []
    for data, solver in itertools.product(tasks, SOLVERS):
        for epsilon in epsilons:
            here = (rows["data"] == data) & (rows["solver"] == solver) & (rows["epsilon"] == epsilon)
            paper = dict(zip(EPSILONS, PAPER[data].get(solver, (None,) * 4), strict=True))[epsilon]
            entries.append((f"{data}, {solver}", f"epsilon {epsilon:g}", rows.loc[here, "accuracy"], paper))
    for data in tasks:
        free = rows.loc[(rows["data"] == data) & (rows["solver"] == FREE), "accuracy"]
        entries += [(f"{data}, {FREE}", f"epsilon {epsilon:g}", free, None) for epsilon in epsilons]
    study.compare("Third paper, Table 3: test accuracy (%) at equal, exact privacy", entries)

    figure, axes = plt.subplots(
        1, len(tasks), figsize=(2.5 + 3.6 * len(tasks), 4), layout="constrained", squeeze=False
    )
    for ax, data in zip(axes[0], tasks, strict=True):
        for k, solver in enumerate((*SOLVERS, FREE)):
            part = rows[(rows["data"] == data) & (rows["solver"] == solver)]
            if solver == FREE:
                ax.axhline(part["accuracy"].mean(), color="k", lw=0.8, label=FREE)
                continue
            band(ax, epsilons, part.pivot(index="seed", columns="epsilon", values="accuracy"), solver, color=f"C{k}")
            if solver in PAPER[data]:
                paper = dict(zip(EPSILONS, PAPER[data][solver], strict=True))
                ax.plot(epsilons, [paper[epsilon] for epsilon in epsilons], "x", color=f"C{k}")
        ax.set(title=data, xscale="log", xlabel="total epsilon (cross: published)")
    axes[0, 0].set_ylabel("test accuracy (%)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    study.save(figure)


if __name__ == "__main__":
    main()
