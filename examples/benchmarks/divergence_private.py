"""Private divergence DRO beside private ERM, at equal and exact privacy, on imbalanced binary tasks.

Digits, MNIST and Fashion-MNIST (14 x 14) as "class 5 or more", positives made rare in training, test sets balanced;
epsilon .5, 1, 5, 10 with delta = 1 / (10 n), replace-one, noise once on the sum.  Chi-square with penalty 1 and a
Kullback-Leibler ball of radius .5; rows in [0, 1], clipped to norm one with the constant.  Clips and iterations
(choose_divergence_steps.py) and steps that follow the public noise (choose_divergence_rule.py) were chosen on
simulated data, one setting a solver and kind of model for all epsilon and data; private ERM with the same care.  Of
longer training sets a random, stratified part is used: 4000 rows for linear models, 2000 for networks.

Prints mean and standard deviation over the runs of balanced accuracy, AUC, worst-class recall (in %) and the norm of
the gradient of what the solver minimises, then the paired differences in balanced accuracy between the defaults (dpgd
and kl dpgd) and each solver beside them with p values corrected by Holm over a data set's comparisons.

    python examples/benchmarks/divergence_private.py [--quick] [--data digits mnist fashion] [--model linear network]
                                                     [--runs 10] [--jobs 2] [--keep runs.csv] [--markdown]
                                                     [--exact]

MNIST and Fashion-MNIST are read from the data folder (SKDRO_DATA).  With --keep every run is written to a file as it
ends, and a later call goes on from there.  --exact prints what the linear models reach without privacy instead.
"""

import argparse
import csv
from dataclasses import astuple
from itertools import product
from pathlib import Path

import numpy as np
from divergence_engine import DELTA_SHARE, RIDGE, fit_parameters, gradient_norm, public_frame
from divergence_tasks import DATA, Cell, task_of
from joblib import Parallel, delayed
from scipy.stats import t as student
from sklearn.metrics import recall_score, roc_auc_score

from skdro import DROSpiderClassifier, KLDROSpiderClassifier
from skdro.ambiguity.divergence import Capped, CressieRead
from skdro.ambiguity.reweighting import KLBall, Penalised
from skdro.losses.models import LinearModel, Records
from skdro.solvers.reweighted import minimise

RATIOS, EPSILONS = (0.2, 0.1), (0.5, 1.0, 5.0, 10.0)
METRICS = ("balanced accuracy", "AUC", "worst recall", "gradient norm")
CHI2 = Penalised(Capped(CressieRead(2.0), 10.0), 1.0)
BALL = KLBall(0.5, 0.1, 10.0)
EXACT = {"ERM": Penalised(Capped(CressieRead(2.0), 10.0), 1e6), "chi-square": CHI2, "Kullback-Leibler ball": BALL}
SOLVERS = ("dpgd", "erm", "dpsgda", "storm", "double_spider", "privatediff", "kl dpgd", "kl recursive_spider")


# solver -> its class, clip norm, momentum and iterations of linear models and of networks
STEPS = {
    "dpgd": (DROSpiderClassifier, 1.0, 0.9, (30, 60)),
    "erm": (DROSpiderClassifier, 1.0, 0.9, (30, 60)),
    "dpsgda": (DROSpiderClassifier, 1.0, 0.9, (30, 60)),
    "storm": (DROSpiderClassifier, 2.0, 0.0, (30, 30)),
    "double_spider": (DROSpiderClassifier, 1.0, 0.0, (30, 30)),
    "privatediff": (DROSpiderClassifier, 2.0, 0.0, (30, 30)),
    "kl dpgd": (KLDROSpiderClassifier, 2.0, 0.9, (30, 60)),
    "kl recursive_spider": (KLDROSpiderClassifier, 2.0, 0.0, (30, 30)),
}


def _setting(solver, kind):
    """As `fit_parameters` takes it, with the steps of step_size="auto"."""
    cls, clip_norm, momentum, n_rounds = STEPS[solver]
    way, n_rounds = cls._ways[solver.removeprefix("kl ")][kind], n_rounds[kind]
    return {
        "n_rounds": n_rounds,
        "step": way.length / (clip_norm * n_rounds),
        "knee": way.knee,
        "clip_norm": clip_norm,
        "momentum": momentum,
    }


SETTINGS = {
    model: {solver: _setting(solver, kind) for solver in SOLVERS} for kind, model in enumerate(("linear", "network"))
}
# the default of a class, and what it is compared with
RIVALS = {
    "dpgd": [solver for solver in SOLVERS if solver != "dpgd"],
    "kl dpgd": ["kl recursive_spider", "erm"],
}


def weights_of(solver):
    """Nature's answer to losses in the problem of a solver."""
    if solver == "erm":
        return np.ones_like
    return lambda losses: (BALL if solver.startswith("kl") else CHI2).worst_case(losses).weight


def one_run(cell, seed, solvers):
    """Rows (cell, seed, solver, its setting, training rows, metrics) of these solvers, as they are kept."""
    X, y, X_test, y_test = task_of(cell, seed)
    frame = public_frame(X.shape[1])
    records, entered = Records.of(frame.enter(X), y), frame.enter(X_test)
    rows = []
    for solver in solvers:
        steps = SETTINGS[cell.model][solver]
        _, *fit = fit_parameters(X, y, solver, cell.epsilon, DELTA_SHARE / len(X), seed, cell.model, **steps)
        norm = gradient_norm(weights_of(solver), *fit, records)
        rows.append([*_key(cell, seed, solver), len(X), *rated(*fit, entered, y_test), norm])
    return rows


def rated(model, parameters, entered, y_test):
    """All metrics but the norm of the gradient, in %."""
    scores = model.scores(parameters, entered)
    logit = scores[:, 1] - scores[:, 0]
    recalls = recall_score(y_test, logit > 0, average=None)
    return [100 * recalls.mean(), 100 * roc_auc_score(y_test, logit), 100 * recalls.min()]


def exact_run(cell, seed):
    """Metrics of the exact linear solutions without privacy, on the same rows: what the noisy ones approach."""
    X, y, X_test, y_test = task_of(cell, seed)
    frame = public_frame(X.shape[1])
    records, entered = Records.of(frame.enter(X), y), frame.enter(X_test)
    model = LinearModel(2, X.shape[1] + 1, True)
    ridge = RIDGE * model.penalised()
    solved = [
        minimise(model, records, risk, ridge, np.zeros(model.n_parameters), tol=1e-6, max_iter=1000).parameters
        for risk in EXACT.values()
    ]
    return [rated(model, parameters, entered, y_test) for parameters in solved]


def print_exact(data, n_runs):
    """Mean metrics of the exact solutions for each share of positives."""
    for ratio in RATIOS:
        means = np.mean([exact_run(Cell("linear", data, ratio, np.inf), seed) for seed in range(n_runs)], axis=0)
        for problem, values in zip(EXACT, means, strict=True):
            shown = ", ".join(f"{metric} {value:.1f}" for metric, value in zip(METRICS, values, strict=False))
            print(f"{data}, linear, positives {ratio:g}, exact and not private, {problem}: {shown}", flush=True)


def _key(cell, seed, solver):
    """What a run is found by: a file knows which setting it was run with."""
    return (*astuple(cell), seed, solver, *SETTINGS[cell.model][solver].values())


class Runs:
    """Runs by their key, read from a file and written to it as they end."""

    def __init__(self, path):
        self.path, self.found = path, {}
        if path is not None and path.exists():
            with path.open(newline="") as file:
                for row in csv.reader(file):
                    self._add(row)

    def _add(self, row):
        *key, n_rows = [str(item) for item in row[: -len(METRICS)]]
        self.found[tuple(key)] = int(n_rows), np.array(row[-len(METRICS) :], dtype=float)

    def get(self, cell, seed, solver):
        """Training rows and metrics of a run, None if it is yet to be done."""
        return self.found.get(tuple(str(item) for item in _key(cell, seed, solver)))

    def complete(self, cell, n_runs, n_jobs):
        """Do what is missing of a cell."""
        missing = {
            seed: [solver for solver in SOLVERS if self.get(cell, seed, solver) is None] for seed in range(n_runs)
        }
        jobs = [delayed(one_run)(cell, seed, solvers) for seed, solvers in missing.items() if solvers]
        for rows in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
            for row in rows:
                self._add(row)
            if self.path is not None:
                with self.path.open("a", newline="") as file:
                    csv.writer(file).writerows(rows)

    def table(self, cell, n_runs):
        """Training rows, and metrics by solver, each of shape (n_runs, n_metrics)."""
        size, _ = self.get(cell, 0, "dpgd")
        return size, {
            solver: np.array([self.get(cell, seed, solver)[1] for seed in range(n_runs)]) for solver in SOLVERS
        }


def holm(p):
    """Corrected p values."""
    order, corrected = np.argsort(p), np.empty(len(p))
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, np.sort(p) * np.arange(len(p), 0, -1)))
    return corrected


def paired(ours, theirs):
    """Mean difference, its standard error, and the two-sided p value of the t test."""
    gap = ours - theirs
    error = max(gap.std(ddof=1) / np.sqrt(len(gap)), 1e-12)
    return gap.mean(), error, 2 * student.sf(abs(gap.mean()) / error, len(gap) - 1)


def compare(found):
    """Rows (cell, default, rival, difference in balanced accuracy, its error, p, Holm's p)."""
    rows = [
        (cell, default, rival, *paired(table[default][:, 0], table[rival][:, 0]))
        for cell, table in found.items()
        for default, rivals in RIVALS.items()
        for rival in rivals
    ]
    return [(*row, p) for row, p in zip(rows, holm(np.array([row[-1] for row in rows])), strict=True)]


def is_exception(gap, error, p):
    """Whether a default is behind by more than two standard errors and by Holm's p."""
    return gap < -2 * error and p < 0.05


def print_cell(cell, size, table):
    """Means and deviations of one cell."""
    n_runs = len(table["dpgd"])
    task = f"{cell.data}, {cell.model}, positives {cell.ratio:g}, epsilon {cell.epsilon:g}"
    print(f"\n{task}, n = {size}, {n_runs} runs")
    print(f"{'':22s}" + "".join(f"{metric:>20s}" for metric in METRICS))
    for solver, values in table.items():
        means, deviations = values.mean(axis=0), values.std(axis=0, ddof=1)
        texts = [f"{m:.1f} ({d:.1f})" for m, d in zip(means[:3], deviations[:3], strict=True)]
        texts.append(f"{means[3]:.3f} ({deviations[3]:.3f})")
        print(f"{solver:22s}" + "".join(f"{text:>20s}" for text in texts), flush=True)


def print_comparisons(found):
    """Paired differences of a data set and model, and what of it is against a default; the rows of `compare`."""
    rows = compare(found)
    print("\nbalanced accuracy of a default minus that of ... (standard error; Holm's p)")
    for cell, default, rival, gap, error, _, p in rows:
        mark = "  <- deficit" if is_exception(gap, error, p) else ""
        where = f"{cell.data} {cell.model} positives {cell.ratio:g} epsilon {cell.epsilon:4g}"
        print(f"  {where} {default:8s} - {rival:22s}{gap:7.1f} ({error:.1f}; {p:.3f}){mark}")
    against = [row for row in rows if row[3] < -2 * row[4]]
    kept = sum(row[-1] < 0.05 for row in against)
    print(f"deficits beyond 2 standard errors: {len(against)} of {len(rows)}; {kept} of them by Holm", flush=True)
    return rows


def print_markdown(found, comparisons):
    """Tables of a page: balanced accuracy, the other metrics, the default beside ERM, and the exceptions."""
    epsilons = sorted({cell.epsilon for cell in found})
    tasks = sorted(
        {(cell.data, cell.ratio) for cell in found}, key=lambda task: (list(DATA).index(task[0]), -task[1])
    )

    def tables(task):
        return [next(found[c] for c in found if (c.data, c.ratio, c.epsilon) == (*task, eps)) for eps in epsilons]

    def header(title):
        print(f"\n| {title} | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in epsilons) + " |")
        print("| --- |" + " --- |" * len(epsilons))

    for metrics in ([0], [1, 2, 3]):
        header(" / ".join(METRICS[m] for m in metrics))
        for task, solver in product(tasks, SOLVERS):
            cells = [
                " / ".join(_text(table[solver][:, m], m, len(metrics) == 1) for m in metrics)
                for table in tables(task)
            ]
            print(f"| {task[0]} {task[1]:g}, {solver} | " + " | ".join(cells) + " |")
    for metric in (0, 2):
        header(f"{METRICS[metric]}, dpgd - erm")
        for task in tasks:
            gaps = [paired(table["dpgd"][:, metric], table["erm"][:, metric]) for table in tables(task)]
            print(f"| {task[0]} {task[1]:g} | " + " | ".join(f"{gap:+.1f} ({se:.1f})" for gap, se, _ in gaps) + " |")
    for cell, default, rival, gap, error, _, p in comparisons:
        if is_exception(gap, error, p):
            where = f"{cell.data} {cell.ratio:g}, {cell.model}, epsilon {cell.epsilon:g}"
            print(f"* {where}: {default} - {rival} {gap:.1f} ({error:.1f})")


def _text(values, metric, with_deviation):
    digits = 2 if METRICS[metric] == "gradient norm" else 1
    deviation = f" ({values.std(ddof=1):.{digits}f})" if with_deviation else ""
    return f"{values.mean():.{digits}f}{deviation}"


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="two runs, epsilon 1 and 5, ratio .2")
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--model", nargs="+", default=["linear", "network"], choices=["linear", "network"])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="file of runs to go on from and to write to")
    parser.add_argument("--markdown", action="store_true", help="print the tables of a finished study for a page")
    parser.add_argument("--exact", action="store_true", help="only the exact linear solutions, not private")
    options = parser.parse_args()
    if options.exact:
        for data in options.data:
            print_exact(data, options.runs)
        return
    n_runs = 2 if options.quick else options.runs
    budgets = [(0.2, 1.0), (0.2, 5.0)] if options.quick else list(product(RATIOS, EPSILONS))
    runs = Runs(options.keep)
    for kind in options.model:
        family, comparisons = {}, []
        for data in options.data:
            found = {}
            for budget in budgets:
                cell = Cell(kind, data, *budget)
                runs.complete(cell, n_runs, options.jobs)
                size, found[cell] = runs.table(cell, n_runs)
                print_cell(cell, size, found[cell])
            comparisons += print_comparisons(found)
            family |= found
        if options.markdown:
            print_markdown(family, comparisons)


if __name__ == "__main__":
    main()
