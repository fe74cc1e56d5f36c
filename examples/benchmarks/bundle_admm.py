"""Algorithm 1 of the Fed DRO paper with four ways to solve or replace a client's problem, timed side by side.

    python examples/benchmarks/bundle_admm.py            scenarios A and B, all opponents (minutes)
    python examples/benchmarks/bundle_admm.py --fast     without the conic solver

* bundle        exact client solves, cuts kept between rounds (`skdro.solvers.bundle`)
* forgetful     the same, cuts thrown away after each round
* conic         cvxpy, compiled once with parameters (DPP), and Clarabel; one run of `--conic-rounds` rounds,
                scaled up to all rounds if that is fewer
* linearised    one linearised private step of Algorithm 2 instead of an exact solve, client by client

One thread; CPU time; median of alternating runs.  Data: Gaussian classes (sd 0.6) at the vertices of a hypercube
in the leading features, noise in the others, largest row of l_2 norm 1, 10 % label noise, 80 % of a client's
records from one class, no intercept.
"""

import argparse
import importlib.metadata
import os
import time
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cvxpy as cp
import numpy as np

from skdro.ambiguity.transport import TRANSPORT_NORMS, widest_pair
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
from skdro.solvers.bundle import solve_prox

LINF = TRANSPORT_NORMS["linf"]


@dataclass(frozen=True)
class Scenario:
    clients: int
    records: int
    classes: int
    features: int
    rounds: int
    rho: float
    kappa: float
    radius: float


SCENARIOS = {
    "A": Scenario(4, 1600, 4, 13, 150, 0.8, 2.0, 0.01),
    "B": Scenario(30, 2400, 4, 10, 120, 0.5, 0.25, 1e-5),
}


def make_clients(scenario, seed):
    rng = np.random.default_rng(seed)
    K, P, n = scenario.classes, scenario.features, scenario.records // scenario.clients
    n_bits = int(np.ceil(np.log2(K)))
    vertices = np.zeros((K, P))
    vertices[:, :n_bits] = 2.0 * ((np.arange(K)[:, None] >> np.arange(n_bits)) & 1) - 1.0
    ball = WassersteinBall(scenario.radius, scenario.kappa, LINF)
    problems = []
    for g in range(scenario.clients):
        y = np.where(rng.random(n) < 0.8, g % K, rng.integers(K, size=n))
        X = vertices[y] + 0.6 * rng.normal(size=(n, P))
        X /= np.linalg.norm(X, axis=1).max()
        y = np.where(rng.random(n) < 0.1, rng.integers(K, size=n), y)
        problems.append(RobustRisk(X, y, np.full(n, 1.0 / n), K, P, ball))
    return problems


class Bundle:
    """Exact solves by cutting planes; remembers the cuts unless told not to."""

    def __init__(self, problem, scenario, keep=True):
        self.problem, self.rho, self.keep = problem, scenario.rho, keep
        self.state, self.worst_gap, self.evaluations = None, 0.0, 0

    def __call__(self, model, dual):
        solution = solve_prox(self.problem, model - dual, self.rho, self.state)
        self.state = solution.state if self.keep else None
        gap = (solution.upper - solution.lower) / max(1.0, abs(solution.upper))
        self.worst_gap = max(self.worst_gap, gap)
        self.evaluations += solution.n_iter
        return solution.M


class Conic:
    """The compact conic form, compiled once."""

    def __init__(self, problem, scenario):
        X, y, kappa = problem.X, problem.y, problem.ball.kappa
        n, K = len(y), problem.n_classes
        self.M, self.centre = cp.Variable((K, X.shape[1])), cp.Parameter((K, X.shape[1]))
        lam, s, top = cp.Variable(nonneg=True), cp.Variable(n, nonneg=True), cp.Variable(n)
        scores = X @ self.M.T
        own = cp.sum(cp.multiply(np.eye(K)[y], scores), axis=1)
        constraints = []
        for k in range(K):
            wrong = np.flatnonzero(y != k)
            constraints += [
                top >= scores[:, k],
                s[wrong] >= 1 + scores[wrong, k] - own[wrong],
                s[wrong] + kappa * lam >= 1 + top[wrong] - scores[wrong, k],
            ]
            constraints += [cp.norm1(self.M[k] - self.M[j]) <= lam for j in range(k)]
        risk = problem.ball.radius * lam + cp.sum(s) / n
        proximal = scenario.rho / 2 * cp.sum_squares(self.M - self.centre)
        self.program = cp.Problem(cp.Minimize(risk + proximal), constraints)

    def __call__(self, model, dual):
        self.centre.value = model - dual
        self.program.solve(solver=cp.CLARABEL)
        return self.M.value


class Linearised:
    """One step of Algorithm 2: gradient of the penalised risk at the noisy local model, noise on M and lam."""

    eta, nu, gamma, noise = 0.1, 0.05, 0.1, 1e-3

    def __init__(self, problem, scenario):
        self.problem, self.rho, self.rng = problem, scenario.rho, np.random.default_rng(0)
        self.M = np.zeros((problem.n_classes, problem.n_features))
        self.lam = self.tau = 0.0

    def __call__(self, model, dual):
        ball = self.problem.ball
        gradient, h, _ = self.problem.data_cut(self.M, max(self.lam, 0.0))
        phi, i, j = widest_pair(self.M, ball.norm)
        pull = max(0.0, self.tau + self.gamma * (phi - self.lam))
        direction = pull * ball.norm.direction(self.M[i] - self.M[j])
        gradient[i] += direction
        gradient[j] -= direction
        M = (self.M / self.eta + self.rho * (model - dual) - gradient) / (self.rho + 1.0 / self.eta)
        lam = self.lam - self.nu * (ball.radius + h - pull)
        self.M = M + self.noise * self.rng.normal(size=M.shape)
        self.lam = lam + self.noise * self.rng.normal()
        self.tau = max(0.0, self.tau + self.gamma * (widest_pair(self.M, ball.norm)[0] - self.lam))
        return self.M


def run(solvers, scenario, rounds):
    """Consensus ADMM; CPU seconds without the set-up, and the last consensus."""
    shape = (len(solvers), scenario.classes, scenario.features)
    local, dual, model = np.zeros(shape), np.zeros(shape), np.zeros(shape[1:])
    start = time.process_time()
    for _ in range(rounds):
        for g, solver in enumerate(solvers):
            local[g] = solver(model, dual[g])
        model = (local + dual).mean(axis=0)
        dual += local - model
    return time.process_time() - start, model


def compare(name, scenario, options):
    problems = make_clients(scenario, options.seed)
    kinds = {
        "linearised": lambda problem: Linearised(problem, scenario),
        "bundle": lambda problem: Bundle(problem, scenario),
        "forgetful": lambda problem: Bundle(problem, scenario, keep=False),
    }
    seconds, objective = {kind: [] for kind in kinds}, {}
    for repeat in range(options.repeats):
        for kind, make in kinds.items():
            if kind == "forgetful" and repeat:
                continue
            solvers = [make(problem) for problem in problems]
            spent, model = run(solvers, scenario, scenario.rounds)
            seconds[kind].append(spent)
            objective[kind] = np.mean([problem.value(model)[0] for problem in problems])
            if kind == "bundle":
                worst_gap = max(solver.worst_gap for solver in solvers)
                per_solve = sum(s.evaluations for s in solvers) / (scenario.rounds * scenario.clients)
    if not options.fast:
        rounds = min(options.conic_rounds or scenario.rounds, scenario.rounds)
        spent, model = run([Conic(problem, scenario) for problem in problems], scenario, rounds)
        seconds["conic"] = [spent * scenario.rounds / rounds]
        objective["conic"] = np.mean([problem.value(model)[0] for problem in problems])
    median = {kind: float(np.median(values)) for kind, values in seconds.items()}
    print(f"\nscenario {name}, seed {options.seed}: {scenario}")
    print(f"  {'':12} {'CPU s':>9} {'/ bundle':>9} {'/ linearised':>13} {'objective':>12}")
    for kind, value in median.items():
        ratios = value / median["bundle"], value / median["linearised"]
        print(f"  {kind:12} {value:9.3f} {ratios[0]:9.2f} {ratios[1]:13.2f} {objective[kind]:12.8f}")
    print(f"  worst certified gap of a client solve {worst_gap:.1e}; {per_solve:.2f} evaluations a solve")
    if not options.fast and rounds < scenario.rounds:
        print(f"  conic: {rounds} rounds run, time scaled to {scenario.rounds}; its objective is that of the last")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="leave the conic solver out")
    parser.add_argument("--conic-rounds", type=int, help="rounds of the conic solver (default: all)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    packages = ("skdro", "numpy", "scipy", "cvxpy", "clarabel")
    print(", ".join(f"{package} {version(package)}" for package in packages))
    for name, scenario in SCENARIOS.items():
        compare(name, scenario, options)


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(source)"


if __name__ == "__main__":
    main()
