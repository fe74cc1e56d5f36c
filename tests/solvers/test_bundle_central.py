"""The central bundle against the literal conic form of the paper, its certificate, and awkward data."""

import dataclasses
import pickle
import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
from skdro.solvers.bundle_central import solve_central

DUAL_ORDER = {"linf": 1, "l2": 2, "l1": np.inf}


def literal_optimum(problem):
    """Least robust risk: one constraint for every record, label that it may get and rival of that label."""
    X, y, ball = problem.X, problem.y, problem.ball
    n, K, P = len(y), problem.n_classes, problem.n_features
    M, lam, s = cp.Variable((K, X.shape[1])), cp.Variable(nonneg=True), cp.Variable(n, nonneg=True)
    scores = X @ M.T
    constraints = []
    for label in range(K):
        if np.isfinite(ball.kappa):
            rows, price = np.arange(n), ball.kappa * (y != label)
        else:
            rows, price = np.flatnonzero(y == label), 0.0
        if len(rows) == 0:
            continue
        cost = cp.multiply(price, lam) if np.isfinite(ball.kappa) else 0.0
        for rival in set(range(K)) - {label}:
            constraints.append(s[rows] + cost >= 1 + scores[rows, rival] - scores[rows, label])
    present = np.isin(np.arange(K), y[problem.weight > 0])
    for i in range(K):
        for j in range(i):
            if np.isfinite(ball.kappa) or present[i] or present[j]:
                constraints.append(cp.norm(M[i, :P] - M[j, :P], DUAL_ORDER[ball.norm.name]) <= lam)
    tight = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    objective = cp.Minimize(ball.radius * lam + problem.weight @ s)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        return cp.Problem(objective, constraints).solve(solver=cp.CLARABEL, **tight)


def make_problem(
    seed=0, n=60, K=3, P=3, *, norm="linf", kappa=1.0, radius=0.05, intercept=True, skew=0.0, weighted=False
):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < skew, 0, rng.integers(K, size=n))
    X = rng.normal(size=(K, P))[y] + 0.8 * rng.normal(size=(n, P))
    weight = rng.random(n) if weighted else np.ones(n)
    X = np.column_stack([X, np.ones(n)]) if intercept else X
    ball = WassersteinBall(radius, kappa, TRANSPORT_NORMS[norm])
    return RobustRisk(X, y, weight / weight.sum(), K, P, ball)


def assert_solves(problem, solution, best=None):
    best = literal_optimum(problem) if best is None else best
    assert solution.converged
    assert solution.lower <= best + 1e-7
    assert solution.upper <= best + 1.1e-6
    assert solution.upper >= best - 1e-7
    value, lam = problem.value(solution.M)
    assert_allclose([value, lam], [solution.upper, solution.lam], rtol=1e-12)


instances = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "n": st.integers(2, 50),
        "K": st.integers(2, 5),
        "P": st.integers(1, 5),
        "norm": st.sampled_from(["linf", "l2", "l1"]),
        "kappa": st.sampled_from([0.05, 0.5, 2.0, np.inf]),
        "radius": st.sampled_from([1e-3, 1e-2, 0.1, 1.0]),
        "intercept": st.booleans(),
        "skew": st.sampled_from([0.0, 0.7]),
        "weighted": st.booleans(),
    }
)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(instance=instances)
def test_risk_equals_conic_optimum(instance):
    problem = make_problem(**instance)
    assert_solves(problem, solve_central(problem))


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(instance=instances)
def test_risk_equals_conic_optimum_on_many(instance):
    problem = make_problem(**instance)
    assert_solves(problem, solve_central(problem))


@pytest.mark.parametrize("kappa", [0.5, np.inf])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("absent", [False, True])
def test_lower_bound_stays_below_the_optimum_on_the_way(absent, intercept, kappa):
    problem = make_problem(n=40, K=4, kappa=kappa, radius=0.02, intercept=intercept)
    if absent:
        problem = dataclasses.replace(problem, n_classes=5)
    best = literal_optimum(problem)
    bounds = [solve_central(problem, max_iter=n).lower for n in range(5, 90, 6)]
    assert max(bounds) <= best + 1e-8
    assert bounds == sorted(bounds)
    assert bounds[-1] > best - 0.05


def test_gap_is_reported_when_evaluations_run_out():
    problem = make_problem(n=100, K=4, P=5)
    solution = solve_central(problem, max_iter=10)
    assert not solution.converged
    assert solution.n_iter == 10
    assert solution.lower < literal_optimum(problem) < solution.upper


@pytest.mark.parametrize("intercept", [False, True])
def test_radius_zero_is_the_plain_risk(intercept):
    problem = make_problem(n=100, radius=0.0, intercept=intercept)
    solution = solve_central(problem)
    assert solution.lower == 0.0
    assert solution.converged
    assert_allclose(solution.upper, literal_optimum(problem), atol=1.1e-6)


def test_radius_zero_finds_a_separating_model():
    y = np.arange(60) % 3
    X = 4.0 * np.eye(3)[y] + 0.1 * np.random.default_rng(0).normal(size=(60, 3))
    problem = RobustRisk(X, y, np.full(60, 1 / 60), 3, 3, WassersteinBall(0.0, 1.0, TRANSPORT_NORMS["l2"]))
    solution = solve_central(problem)
    assert solution.converged
    assert solution.upper <= 1e-6
    assert (problem.X @ solution.M.T).argmax(axis=1).tolist() == y.tolist()


def test_large_radius_gives_the_constant_model():
    solution = solve_central(make_problem(radius=10.0, kappa=1.0))
    assert solution.converged
    assert_allclose(solution.upper, 1.0)
    assert_allclose(solution.M[:, :-1], 0.0, atol=1e-6)


@pytest.mark.parametrize("kappa", [0.5, np.inf])
def test_a_single_label(kappa):
    problem = make_problem(K=3, kappa=kappa, radius=1e-3)
    problem = dataclasses.replace(problem, y=np.ones_like(problem.y))
    assert_solves(problem, solve_central(problem))


def test_rows_sum_to_zero():
    assert_allclose(solve_central(make_problem(K=4)).M.sum(axis=0), 0.0, atol=1e-9)


SHIFTS = {
    "uncentred": (lambda X: X + 50.0, 1.0),
    "large": (lambda X: X * 1e5, 1e5),
    "small": (lambda X: X * 1e-4, 1e-4),
    "both": (lambda X: (X + 50.0) * 1e5, 1e5),
}


@pytest.mark.parametrize("norm", sorted(TRANSPORT_NORMS))
@pytest.mark.parametrize("shift", sorted(SHIFTS))
def test_risk_does_not_depend_on_origin_and_unit(shift, norm):
    plain = make_problem(norm=norm)
    change, unit = SHIFTS[shift]
    X = np.column_stack([change(plain.X[:, :-1]), np.ones(len(plain.y))])
    ball = WassersteinBall(0.05 * unit, 1.0 * unit, TRANSPORT_NORMS[norm])
    solution = solve_central(dataclasses.replace(plain, X=X, ball=ball))
    assert solution.converged
    # the oracle solves the plain problem, which has the same optimum
    assert_allclose([solution.upper, solution.lower], literal_optimum(plain), atol=1.1e-6)


AWKWARD = {
    "constant column": lambda X: np.column_stack([np.full(len(X), 3.0), X[:, 1:]]),
    "all constant": lambda X: np.ones_like(X),
    "zero": lambda X: 0.0 * X,
    "duplicates": lambda X: X[np.arange(len(X)) // 10],
    "one row": lambda X: np.tile(X[:1], (len(X), 1)),
}


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("awkward", sorted(AWKWARD))
def test_awkward_features(awkward, intercept):
    problem = make_problem(intercept=intercept)
    X = AWKWARD[awkward](problem.X[:, :3])
    X = np.column_stack([X, np.ones(len(X))]) if intercept else X
    problem = dataclasses.replace(problem, X=X)
    assert_solves(problem, solve_central(problem))


def test_thirty_classes():
    solution = solve_central(make_problem(n=150, K=30, P=3), tol=1e-4)
    assert solution.converged
    assert 0.0 < solution.upper - solution.lower <= 1e-4


@pytest.mark.parametrize("intercept", [False, True])
def test_sparse_features(intercept):
    problem = make_problem(n=200, P=6, intercept=intercept)
    X = problem.X.copy()
    X[:, :6] *= np.random.default_rng(1).random((200, 6)) < 0.4
    dense = dataclasses.replace(problem, X=X)
    solution = solve_central(dataclasses.replace(problem, X=csr_array(X)))
    assert solution.converged
    assert_allclose(solution.upper, solve_central(dense).upper, atol=1.1e-6)


def test_kept_cuts_serve_another_radius():
    problem = make_problem(n=150, K=4, P=5)
    first = solve_central(problem)
    state = pickle.loads(pickle.dumps(first.state))
    near = dataclasses.replace(problem, ball=dataclasses.replace(problem.ball, radius=0.055))
    warm = solve_central(near, state=state)
    assert_solves(near, warm)
    assert warm.n_iter < solve_central(near).n_iter
    assert solve_central(problem, state=first.state).n_iter <= 10
