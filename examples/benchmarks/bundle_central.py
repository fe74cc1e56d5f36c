"""Central robust problem: the bundle to a certified gap, a conic solver and a plain multiclass SVM, timed.

    python examples/benchmarks/bundle_central.py            five sizes (minutes; 2 GB for the last)
    python examples/benchmarks/bundle_central.py --fast     the first three, without the conic solver

* bundle      `skdro.solvers.bundle_central.solve_central` to a certified gap of 1e-4 (last size: 1e-3)
* conic       the compact conic form by cvxpy and Clarabel, compilation included; small sizes only
* HiGHS       the same form as a linear programme, without the flips that cannot matter (screening)
* LinearSVC   scikit-learn's Crammer-Singer SVM (liblinear), which is not robust: a scale, not an opponent

One thread; CPU time; median of alternating runs.  Data: Gaussian classes (sd 0.6) at the vertices of a hypercube
in the leading features, noise in the others, largest row of l_2 norm 1, 10 % label noise; transport cost l_inf,
kappa = 1, no intercept.
"""

import argparse
import importlib.metadata
import multiprocessing
import os
import threading
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
from skdro.solvers.bundle_central import solve_central

SIZES = [(500, 3, 10), (2000, 5, 10), (2000, 9, 10), (20000, 5, 50), (100000, 10, 100)]
CONIC_UP_TO = 2000 * 9
SLOW_FROM = 10**6


def make_problem(n, K, P, radius, seed):
    rng = np.random.default_rng(seed)
    n_bits = int(np.ceil(np.log2(K)))
    vertices = np.zeros((K, P))
    vertices[:, :n_bits] = 2.0 * ((np.arange(K)[:, None] >> np.arange(n_bits)) & 1) - 1.0
    y = rng.integers(K, size=n)
    X = rng.normal(size=(n, P))
    X *= 0.6
    X += vertices[y]
    X /= np.sqrt(np.einsum("np,np->n", X, X).max())
    y = np.where(rng.random(n) < 0.1, rng.integers(K, size=n), y)
    ball = WassersteinBall(radius, 1.0, TRANSPORT_NORMS["linf"])
    return RobustRisk(X, y, np.full(n, 1.0 / n), K, P, ball)


def compact(problem, solver, may_flip):
    """Least risk by cvxpy and the given solver; only the rows in the mask `may_flip` can be relabelled."""
    import cvxpy as cp

    X, y, kappa = problem.X, problem.y, problem.ball.kappa
    n, K = len(y), problem.n_classes
    M, lam, s = cp.Variable((K, X.shape[1])), cp.Variable(nonneg=True), cp.Variable(n, nonneg=True)
    top, scores = cp.Variable(n), X @ M.T
    own = cp.sum(cp.multiply(np.eye(K)[y], scores), axis=1)
    constraints = []
    for k in range(K):
        wrong = np.flatnonzero(y != k)
        flips = np.flatnonzero((y != k) & may_flip)
        constraints += [
            top >= scores[:, k],
            s[wrong] >= 1 + scores[wrong, k] - own[wrong],
            s[flips] + kappa * lam >= 1 + top[flips] - scores[flips, k],
        ]
        constraints += [cp.norm1(M[k] - M[j]) <= lam for j in range(k)]
    risk = problem.ball.radius * lam + cp.sum(s) / n
    return cp.Problem(cp.Minimize(risk), constraints).solve(solver=solver)


def conic(problem):
    return compact(problem, "CLARABEL", np.ones(len(problem.y), dtype=bool))


def screened_lp(problem):
    # without an intercept a row's flips never matter where kappa >= 2 ||x||
    return compact(problem, "HIGHS", 2 * problem.ball.norm.length(problem.X) > problem.ball.kappa)


def linear_svc(problem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        LinearSVC(multi_class="crammer_singer", fit_intercept=False, random_state=0).fit(problem.X, problem.y)


def timed(function, *arguments, **options):
    start = time.process_time()
    result = function(*arguments, **options)
    return time.process_time() - start, result


def memory_growth(function, *arguments, **options):
    """Largest rise of the resident memory in bytes while the function runs, by sampling (Linux)."""

    def resident():
        with open("/proc/self/statm") as pages:
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    samples, done = [resident()], threading.Event()

    def watch():
        while not done.wait(0.005):
            samples.append(resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    function(*arguments, **options)
    done.set()
    watcher.join()
    return max(samples) - samples[0]


def compare(size, options):
    n, K, P = size
    problem = make_problem(n, K, P, options.radius, options.seed)
    large = n * K >= SLOW_FROM
    tol, repeats = (1e-3, 1) if large else (1e-4, options.repeats)
    solve_central(make_problem(50, 2, 2, options.radius, 0), tol=tol)  # whatever is loaded on first use
    bundle, svc = [], []
    for _ in range(repeats):
        spent, solution = timed(solve_central, problem, tol=tol)
        bundle.append(spent)
        svc.append(timed(linear_svc, problem)[0])
    if large:
        growth = memory_growth(solve_central, problem, tol=tol, max_iter=50) / problem.X.nbytes
    line = f"  {size!s:17} {np.median(bundle):8.3f} {solution.upper - solution.lower:9.1e} {solution.n_iter:6d}"
    line += f" {np.median(svc):10.3f} {np.median(bundle) / np.median(svc):9.2f}"
    if n * K <= CONIC_UP_TO and not options.fast:
        spent, value = timed(conic, problem)
        line += f" {spent:8.2f} {spent / np.median(bundle):8.1f}"
        spent, _ = timed(screened_lp, problem)
        line += f" {spent:8.2f} {spent / np.median(bundle):8.1f}   excess {solution.upper - value:.1e}"
    elif large:
        line += f"   memory grew by {growth:.2f} times the data"
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="three small sizes, no conic solver")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--radius", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scipy", "scikit-learn")]
    versions += [f"{name} {importlib.metadata.version(name)}" for name in ("cvxpy", "clarabel")]
    print(", ".join(versions) + f"; radius {options.radius}, seed {options.seed}")
    print(f"  {'(n, K, P)':17} {'bundle s':>8} {'gap':>9} {'evals':>6} {'LinearSVC':>10} {'ratio':>9}", end="")
    print("" if options.fast else f" {'conic s':>8} {'ratio':>8} {'HiGHS s':>8} {'ratio':>8}")
    for size in SIZES[:3] if options.fast else SIZES:
        # a process for each size, so that memory left by one does not hide the growth of the next
        worker = multiprocessing.get_context("spawn").Process(target=compare, args=(size, options))
        worker.start()
        worker.join()


if __name__ == "__main__":
    main()
