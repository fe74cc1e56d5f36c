"""The compact conic form against the literal one, written here pair by pair."""

import cvxpy as cp
import numpy as np
import pytest

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
from skdro.solvers.conic import solve_prox

DUAL = {"linf": 1, "l2": 2, "l1": "inf"}


def literal_prox(X, y, weight, n_classes, radius, kappa, dual, centre, rho):
    """All label flips and all rivals, with the intercept kept apart from the features."""
    n, p = X.shape
    W, b, lam, s = cp.Variable((n_classes, p)), cp.Variable(n_classes), cp.Variable(), cp.Variable(n)
    constraints = [s >= 0]
    for r in range(n):
        score = [W[k] @ X[r] + b[k] for k in range(n_classes)]
        for label in range(n_classes):
            if label != y[r] and not np.isfinite(kappa):
                continue
            price = 0 if label == y[r] else kappa * lam
            constraints += [s[r] + price >= 1 + score[k] - score[label] for k in range(n_classes) if k != label]
            constraints.append(s[r] + price >= 0)
    counted = [(i, j) for i in range(n_classes) for j in range(i) if np.isfinite(kappa) or i in set(y) or j in set(y)]
    constraints += [lam >= cp.norm(W[i] - W[j], dual) for i, j in counted]
    model = cp.hstack([W, b[:, None]])
    objective = radius * lam + weight @ s + rho / 2 * cp.sum_squares(model - centre)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, model.value


def instance(seed, n_classes, n=12, p=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = rng.integers(0, n_classes, n)
    return X, y, rng.dirichlet(np.ones(n)), 0.3 * rng.normal(size=(n_classes, p + 1))


@pytest.mark.parametrize("norm", sorted(TRANSPORT_NORMS))
@pytest.mark.parametrize("kappa", [0.25, 1.0, np.inf])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_prox_equals_the_literal_problem(norm, kappa, n_classes):
    for seed, (radius, rho) in enumerate([(0.0, 0.5), (0.05, 0.1), (0.4, 1.0)]):
        X, y, weight, centre = instance(seed, n_classes)
        ball = WassersteinBall(radius, kappa, TRANSPORT_NORMS[norm])
        problem = RobustRisk(np.c_[X, np.ones(len(X))], y, weight, n_classes, X.shape[1], ball)
        value, model = literal_prox(X, y, weight, n_classes, radius, kappa, DUAL[norm], centre, rho)
        found = solve_prox(problem, centre, rho)
        assert found.value == pytest.approx(value, rel=1e-7)
        np.testing.assert_allclose(found.M, model, atol=2e-4)


def test_one_compilation_serves_other_labels_and_data():
    problems = []
    for seed in (0, 1):
        X, y, weight, centre = instance(seed, 3)
        ball = WassersteinBall(0.1, 1.0, TRANSPORT_NORMS["linf"])
        problems.append((RobustRisk(X, y, weight, 3, 3, ball), centre[:, :3]))
    first = solve_prox(*problems[0], 0.5)
    solve_prox(*problems[1], 0.5)
    again = solve_prox(*problems[0], 0.5)
    assert np.array_equal(first.M, again.M)


@pytest.mark.parametrize("norm", ["linf", "l1"])
def test_zero_model_is_optimal_exactly_from_r_max_on(norm):
    """Without intercept M = 0 is optimal iff r >= r_max, a linear programme in a direction D (phi(D) <= 1)."""
    X, y, _, _ = instance(5, 3, n=15)
    kappa, n = 0.7, len(X)
    D, gain = cp.Variable((3, 3)), cp.Variable(n)
    constraints = [cp.norm(D[i] - D[j], DUAL[norm]) <= 1 for i in range(3) for j in range(i)]
    for r in range(n):
        for k in range(3):
            if k != y[r]:
                constraints.append(gain[r] <= (D[y[r]] - D[k]) @ X[r])
                constraints += [gain[r] <= kappa - (D[j] - D[k]) @ X[r] for j in range(3) if j != k]
    r_max = cp.Problem(cp.Maximize(cp.sum(gain) / n), constraints).solve(solver=cp.CLARABEL)
    assert r_max > 0.01
    for factor, optimal in ((1.02, True), (0.98, False)):
        ball = WassersteinBall(factor * r_max, kappa, TRANSPORT_NORMS[norm])
        problem = RobustRisk(X, y, np.full(n, 1 / n), 3, 3, ball)
        value = solve_prox(problem, np.zeros((3, 3)), 0.0).value
        assert (value >= 1 - 1e-7) == optimal
