"""Exact divergence DRO of linear models against cvxpy's literal problems, and the certificate against the optimum."""

import warnings

import cvxpy as cp
import numpy as np
import pytest

from skdro.ambiguity.divergence import KL, Capped, CressieRead
from skdro.ambiguity.reweighting import KLBall, Penalised
from skdro.losses.models import LinearModel, Records, TanhNetwork
from skdro.solvers.reweighted import lower_bound, minimise

# the quick lane takes the first few of the fifty instances of each divergence
SEEDS = [seed if seed < 6 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(50)]
RISKS = {
    "chi2": lambda rng: Penalised(Capped(CressieRead(2.0), rng.choice([1.5, 10.0])), 10 ** rng.uniform(-1, 1)),
    "kl": lambda rng: Penalised(Capped(KL(), rng.choice([1.5, 10.0])), 10 ** rng.uniform(-1, 1)),
    "kl_cvar": lambda rng: Penalised(Capped(KL(), 1 / rng.uniform(0.1, 0.9)), 10 ** rng.uniform(-1, 1)),
    "cressie_read": lambda rng: Penalised(
        Capped(CressieRead(1.5), rng.choice([1.5, 10.0])), 10 ** rng.uniform(-1, 1)
    ),
    "kl_ball": lambda rng: KLBall(10 ** rng.uniform(-2, 0), 0.1, rng.choice([1.5, 10.0])),
}


def instance(seed):
    rng = np.random.default_rng(seed)
    n, p, K, intercept = int(rng.integers(12, 30)), int(rng.integers(1, 4)), int(rng.integers(2, 4)), seed % 2 == 0
    X = rng.normal(size=(n, p))
    y = np.concatenate([np.arange(K), rng.integers(K, size=n - K)])
    if intercept:
        X = np.column_stack([X, np.ones(n)])
    return rng, LinearModel(K, X.shape[1], intercept), Records.of(X, y), 10 ** rng.uniform(-2, 0)


def conic_optimum(model, data, risk, reg):
    """The dual of the worst case in (W, eta[, lam]) as cvxpy understands it: no code shared with the package."""
    n, K = len(data.y), model.n_classes
    W = cp.Variable((1 if K == 2 else K, model.n_columns))
    scores = data.X @ W.T
    if K == 2:
        scores = cp.hstack([np.zeros((n, 1)), scores])
    own = cp.sum(cp.multiply(scores, np.eye(K)[data.y]), axis=1)
    loss = cp.log_sum_exp(scores, axis=1) - own
    free = W[:, :-1] if model.intercept else W
    penalty = reg / 2 * cp.sum_squares(free)
    # nature's problem in its epigraph: for each record  z_i >= sup_{0 <= t <= S0} t (l_i - eta) - lam psi(t)
    eta, z = cp.Variable(), cp.Variable(n)
    constraints, gain = [], loss - eta
    if isinstance(risk, KLBall):
        lam, cap, rest = cp.Variable(), risk.max_weight, risk.radius
        constraints.append(lam >= risk.min_temperature)
        divergence = KL()
    else:
        lam, cap, rest, divergence = risk.penalty, risk.divergence.max_weight, 0.0, risk.divergence.divergence
    # sup with the cap = inf over r >= 0 of  lam psi*((gain - r) / lam) + S0 r
    r, a = cp.Variable(n, nonneg=True), cp.Variable(n)
    constraints.append(a >= gain - r)
    if isinstance(divergence, KL):
        constraints.append(cp.ExpCone(a, np.ones(n) * lam, z + lam))
    else:
        # psi*(s) = (((k-1) s + 1)_+^q - 1) / k with q = k / (k-1) is nondecreasing, so a may be any upper bound
        k = divergence.order
        q = k / (k - 1)
        constraints.append(z >= lam * (cp.power(cp.pos((k - 1) * a / lam + 1), q) - 1) / k)
    objective = eta + cp.sum(z + cap * r) / n + lam * rest + penalty
    problem = cp.Problem(cp.Minimize(objective), constraints)
    for tol in (1e-9, 1e-8, 1e-7):  # the oracle stalls on a few instances; 1e-7 still decides at 1e-6
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
        if problem.status == cp.OPTIMAL:
            return problem.value
    raise AssertionError(f"the oracle failed: {problem.status}")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", RISKS)
def test_optimum_equals_cvxpy_and_the_certificate_is_below_it(name, seed):
    rng, model, data, reg = instance(seed)
    risk, ridge = RISKS[name](rng), reg * model.penalised()
    solution = minimise(model, data, risk, ridge, np.zeros(model.n_parameters), tol=1e-9, max_iter=2000)
    expected = conic_optimum(model, data, risk, reg)
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    bound = lower_bound(model, solution.parameters, data, solution.worst, ridge)
    assert bound <= min(expected, solution.objective) + 1e-9
    assert bound == pytest.approx(solution.objective, rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_certificate_is_valid_far_from_the_optimum(seed):
    rng, model, data, reg = instance(seed)
    risk, ridge = RISKS["chi2"](rng), reg * model.penalised()
    best = minimise(model, data, risk, ridge, np.zeros(model.n_parameters), tol=1e-10, max_iter=2000).objective
    for scale in (0.0, 0.3, 3.0):
        parameters = scale * rng.normal(size=model.n_parameters)
        worst = risk.worst_case(model.evaluate(parameters, data).losses)
        assert lower_bound(model, parameters, data, worst, ridge) <= best + 1e-9


def test_no_certificate_without_a_ridge():
    _, model, data, _ = instance(0)
    risk, zero = Penalised(Capped(KL(), 10.0), 1.0), np.zeros(model.n_parameters)
    worst = risk.worst_case(model.evaluate(zero, data).losses)
    assert lower_bound(model, zero, data, worst, zero) == -np.inf


def test_reported_gradient_is_that_of_the_objective():
    _, _, data, _ = instance(4)
    model = TanhNetwork(int(data.y.max()) + 1, data.X.shape[1], 3, True)
    risk, ridge = KLBall(0.3, 0.1, 10.0), 0.01 * model.penalised()
    start = model.start(np.random.default_rng(0))
    solution = minimise(model, data, risk, ridge, start, tol=1e-12, max_iter=3)
    h = 1e-6

    def objective(theta):
        return risk.worst_case(model.evaluate(theta, data).losses).value + 0.5 * ridge @ theta**2

    numeric = [
        (objective(solution.parameters + h * e) - objective(solution.parameters - h * e)) / (2 * h)
        for e in np.eye(model.n_parameters)
    ]
    np.testing.assert_allclose(solution.gradient, numeric, atol=1e-7)
    assert solution.objective == pytest.approx(objective(solution.parameters), rel=1e-12)
    assert solution.objective < objective(start)


def test_large_penalty_is_the_average_and_small_penalty_the_worst_tail():
    _, model, data, reg = instance(6)
    ridge, zero = reg * model.penalised(), np.zeros(model.n_parameters)
    solve = dict(tol=1e-9, max_iter=2000)
    values = [
        minimise(model, data, Penalised(Capped(KL(), 4.0), penalty), ridge, zero, **solve).objective
        for penalty in (1e-2, 1e-1, 1.0, 10.0, 1e9)
    ]
    assert values == sorted(values, reverse=True)
    W = cp.Variable((model.n_parameters // model.n_columns, model.n_columns))
    scores = data.X @ W.T if model.n_classes > 2 else cp.hstack([np.zeros((len(data.y), 1)), data.X @ W.T])
    loss = cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(scores, np.eye(model.n_classes)[data.y]), axis=1)
    free = W[:, :-1] if model.intercept else W
    erm = cp.Problem(cp.Minimize(cp.sum(loss) / len(data.y) + reg / 2 * cp.sum_squares(free)))
    erm.solve(solver=cp.CLARABEL)
    assert values[-1] == pytest.approx(erm.value, rel=1e-6)
