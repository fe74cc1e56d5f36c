"""Table 2 of the third paper: membership inference against private divergence DRO, and what that table measured.

Published: the area under the curve of a confidence attack is about .97 against Double-SPIDER and .80 against
Recursive-SPIDER, whatever epsilon between .1 and 10.  No (epsilon, delta)-private fit can have such an area at
epsilon .1 among exchangeable records.  It can where members and non-members come from different populations: there
the members are an imbalanced training set and the others a balanced test set, and any model that prefers the frequent
class tells the two apart without remembering a single record.

Shown for MNIST-ST (a tenth positive, 14 x 14 pixels, one hidden layer of 32 tanh units) with the margin of a
record's own label as the attack:

* "against the balanced test set", the published comparison;
* "against exchangeable rows": members drawn by a coin among the same rows (`skdro.privacy.membership_inference`),
  beside the largest area that the guarantee allows.

    SKDRO_DATA=folder python examples/reproduction/membership_table2.py [--quick]
"""

import itertools
import warnings

import matplotlib.pyplot as plt
import numpy as np
from images import imbalanced
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from study import Study, band, options

from skdro import DROSpiderClassifier, KLDROSpiderClassifier
from skdro.privacy import membership_inference

EPSILONS = (0.1, 1.0, 3.0, 5.0, 8.0, 10.0)
COMMON = {"hidden_layer_sizes": (32,), "aggregation": "trusted"}
SOLVERS = {
    "DP Double-SPIDER": DROSpiderClassifier(divergence="kl", solver="double_spider", **COMMON),
    "DP Recursive-SPIDER": KLDROSpiderClassifier(radius=0.5, solver="recursive_spider", clip_norm=2.0, **COMMON),
    "default (plain descent)": DROSpiderClassifier(divergence="kl", n_rounds=60, **COMMON),
}
PAPER = {
    "DP Double-SPIDER": (0.9719, 0.9723, 0.9717, 0.9723, 0.9724, 0.9715),
    "DP Recursive-SPIDER": (0.8234, 0.7932, 0.7958, 0.8014, 0.8001, 0.7825),
}
ATTACKS = {"test set": "against the balanced test set", "exchangeable": "against exchangeable rows"}


def attack(solver, epsilon, seed):
    """Area under the curve of both attacks, and the largest that the guarantee allows."""
    warnings.simplefilter("ignore")
    X, y, X_test, y_test = imbalanced("mnist", 0.1, seed)
    model = clone(SOLVERS[solver]).set_params(
        epsilon=epsilon, delta=0.1 / len(X), classes=[0, 1], init_seed=seed, random_state=seed
    )
    exchangeable = membership_inference(model, X, y, np.zeros(len(X)), n_runs=2, random_state=seed)
    model.fit(X, y, groups=np.zeros(len(X)))
    margins = [model.decision_function(rows) * (2 * labels - 1) for rows, labels in ((X, y), (X_test, y_test))]
    members = np.repeat([1, 0], [len(X), len(X_test)])
    return {
        "test set": roc_auc_score(members, np.concatenate(margins)),
        "exchangeable": exchangeable.auc,
        "allowed": exchangeable.largest_auc,
    }


def main():
    """Run, compare, draw."""
    args = options(__doc__)
    study = Study("membership_table2", args)
    seeds, epsilons = (range(2), (0.1, 10.0)) if args.quick else (range(args.seeds or 5), EPSILONS)
    jobs = itertools.product(SOLVERS, epsilons, seeds)
    rows = study.run(attack, [dict(zip(("solver", "epsilon", "seed"), job, strict=True)) for job in jobs])
    tables = {
        (solver, column): rows[rows["solver"] == solver].pivot(index="seed", columns="epsilon", values=column)
        for solver, column in itertools.product(SOLVERS, (*ATTACKS, "allowed"))
    }
    entries = []
    for solver, (attacked, label) in itertools.product(SOLVERS, ATTACKS.items()):
        paper = dict(zip(EPSILONS, PAPER.get(solver, (None,) * 6), strict=True)) if attacked == "test set" else {}
        for epsilon in epsilons:
            values = tables[solver, attacked][epsilon]
            entries.append((f"{solver}, {label}", f"epsilon {epsilon:g}", values, paper.get(epsilon)))
    entries += [
        ("allowed by the guarantee", f"epsilon {e:g}", tables["DP Double-SPIDER", "allowed"][e], None)
        for e in epsilons
    ]
    study.compare("Third paper, Table 2: area under the curve of membership inference", entries)

    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True, layout="constrained")
    for ax, (attacked, label) in zip(axes, ATTACKS.items(), strict=True):
        for k, solver in enumerate(SOLVERS):
            band(ax, epsilons, tables[solver, attacked], solver, color=f"C{k}")
            if attacked == "test set" and solver in PAPER and not args.quick:
                ax.plot(EPSILONS, PAPER[solver], "x", color=f"C{k}", label=f"{solver}, published")
        ax.axhline(0.5, color="k", lw=0.8)
        ax.set(title=label, xscale="log", xlabel="total epsilon")
    band(
        axes[1],
        epsilons,
        tables["DP Double-SPIDER", "allowed"],
        "largest that the guarantee allows",
        color="k",
        ls=":",
    )
    axes[0].set_ylabel("area under the curve")
    for ax in axes:
        ax.legend(frameon=False, fontsize=8)
    study.save(figure)


if __name__ == "__main__":
    main()
