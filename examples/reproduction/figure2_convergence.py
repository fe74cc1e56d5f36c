"""Figure 2 of the first paper: convergence of DP-Fed DRO as published, on the pump.

The left-hand side of Theorem 3 without its benchmark: the running mean of the clients' objectives at the noisy
iterates, plus beta = .4 times the distance of the running means of the clients' noisy models from that of the
consensus.  Objectives are exact, so this is a diagnosis and not a release (`diagnostics="not-private"`).  The paper's
constants; norm="l1", see figure1_privacy_utility.py; no intercept.

The claims to reproduce: the metric rises in the first rounds, then falls; a larger epsilon means a lower curve and a
smaller peak.  They are checked and printed.

    python examples/reproduction/figure2_convergence.py [--quick]
"""

import itertools
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from pump import pump_study
from rounds import EachRound
from study import Study, band, options

from skdro import DPFedDROClassifier

EPSILONS, DELTAS, T, BETA = (0.05, 0.1, 0.15, 0.2), (1e-8, 1e-5, 1e-3), 150, 0.4


def metric(epsilon, delta, seed, quick):
    """The metric of each round and its two parts."""
    warnings.simplefilter("ignore")
    X, y, groups, *_ = pump_study(seed, quick)
    models = EachRound(lambda model: (model.client_coef_, model.coef_), time.perf_counter)
    model = DPFedDROClassifier(
        epsilon, delta, radius=0.1, kappa=0.5, norm="l1", variant="paper", budget="per_round", n_rounds=T,
        c_model=2.0, c_lambda=6.0, classes=range(4), fit_intercept=False, diagnostics="not-private",
        random_state=seed,
    )  # fmt: skip
    model.set_callbacks(models).fit(X, y, groups=groups)
    rounds = np.arange(1, T + 1)
    objective = np.cumsum(model.history_["objective"]) / rounds
    local = np.cumsum([of_clients for of_clients, _ in models.values], axis=0) / rounds[:, None, None, None]
    consensus = np.cumsum([mean for _, mean in models.values], axis=0) / rounds[:, None, None]
    shares = np.bincount(np.unique(groups, return_inverse=True)[1]) / len(groups)
    violation = np.linalg.norm(local - consensus[:, None], axis=(2, 3)) @ shares
    return [
        {"round": t, "metric": o + BETA * v, "objective": o, "violation": v}
        for t, o, v in zip(rounds, objective, violation, strict=True)
    ]


def main():
    """Run, check the claims, draw."""
    args = options(__doc__)
    study, seeds = Study("figure2", args), range(2 if args.quick else args.seeds or 10)
    deltas = DELTAS[1:2] if args.quick else DELTAS
    for seed in seeds:
        pump_study(seed, args.quick)
    names = ("epsilon", "delta", "seed", "quick")
    jobs = itertools.product(EPSILONS, deltas, seeds, (args.quick,))
    rows = study.run(metric, [dict(zip(names, job, strict=True)) for job in jobs], "_rounds")

    tables = {
        (e, d): rows[(rows["epsilon"] == e) & (rows["delta"] == d)].pivot(
            index="seed", columns="round", values="metric"
        )
        for e, d in itertools.product(EPSILONS, deltas)
    }
    entries = []
    for epsilon in EPSILONS:
        table = tables[epsilon, 1e-5].to_numpy()
        row = f"epsilon {epsilon:g} a round"
        entries += [(row, "peak", table.max(axis=1), None), (row, f"round {T}", table[:, -1], None)]
        entries += [(row, "round of the peak", table.argmax(axis=1) + 1, None)]
    study.compare("First paper, Figure 2: convergence metric of DP-Fed DRO on the pump, delta 1e-5", entries)
    means = {key: table.mean(axis=0).to_numpy() for key, table in tables.items()}
    last = np.array([[means[e, d][-1] for e in EPSILONS] for d in deltas])
    peaks = np.array([[means[e, d].max() for e in EPSILONS] for d in deltas])
    print("\nlower at the end for larger epsilon:", bool((np.diff(last, axis=1) < 0).all()))
    print("smaller peak for larger epsilon:    ", bool((np.diff(peaks, axis=1) < 0).all()))
    print("falls after its peak:               ", bool((last < peaks).all()))

    figure, axes = plt.subplots(1, len(EPSILONS), figsize=(12, 3.4), sharey=True, layout="constrained")
    for ax, epsilon in zip(axes, EPSILONS, strict=True):
        for delta in deltas:
            band(ax, np.arange(1, T + 1), tables[epsilon, delta], f"delta {delta:g}")
        ax.set(title=f"epsilon = {epsilon:g} a round", xlabel="round")
    axes[0].set_ylabel("convergence metric")
    axes[0].legend(frameon=False, fontsize=8)
    study.save(figure)


if __name__ == "__main__":
    main()
