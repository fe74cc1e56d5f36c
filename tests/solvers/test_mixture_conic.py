"""Least worst mixtures against Nelder-Mead, linear programmes and facts known in closed form."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from skdro.ambiguity.mixture import MixtureBall
from skdro.ambiguity.robust_squares import Squares, penalised_risk, radius_risk
from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
from skdro.solvers.conic import solve_prox
from skdro.solvers.mixture_conic import solve_margins, solve_penalised_squares, solve_radius_squares

NOMINAL = np.array([0.5, 0.3, 0.2])


def squares_of(seed, label=1.0):
    """Three clients with slopes of their own, two features and an intercept."""
    rng = np.random.default_rng(seed)
    data = []
    for n, slope in ((30, 1.0), (20, -0.5), (9, 0.3)):
        x = rng.normal(size=(n, 2))
        data.append((np.c_[x, np.ones(n)], x @ [slope, 0.5] + 0.3 * rng.normal(size=n) + slope))
    return Squares.of(data, 2, label)


def searched(objective, start):
    """Best of Nelder-Mead restarts from its own result."""
    options = {"maxiter": 4000, "xatol": 1e-10, "fatol": 1e-12}
    for _ in range(6):
        start = minimize(objective, start, method="Nelder-Mead", options=options).x
    return objective(start)


@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("rad", [0.0, 0.25, 1.0])
def test_radius_form_equals_a_search(rad, label):
    squares, mixture, eps = squares_of(0, label), MixtureBall(NOMINAL, rad), np.array([0.1, 0.2, 0.4])

    def objective(model):
        return mixture.value(radius_risk(squares.mean_squares(model), squares.stretch(model), eps))

    found = solve_radius_squares(squares, eps, mixture)
    assert objective(found.model) == pytest.approx(searched(objective, found.model + 0.1), abs=2e-6)
    assert objective(found.model) <= searched(objective, np.zeros(3)) + 1e-6


@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("rad", [0.0, 0.25, 1.0])
def test_penalised_form_equals_a_search(rad, label):
    squares, mixture, rho = squares_of(1, label), MixtureBall(NOMINAL, rad), np.array([3.0, 2.0, 5.0])

    def objective(model):
        return mixture.value(penalised_risk(squares.mean_squares(model), squares.stretch(model), rho))

    found = solve_penalised_squares(squares, rho, mixture)
    assert objective(found.model) == pytest.approx(searched(objective, np.zeros(3)), abs=2e-6)


@pytest.mark.parametrize("rad", [0.0, 0.25, 1.0])
def test_the_mixture_is_worst_and_the_model_is_best_against_it(rad):
    """The two halves of a saddle point."""
    squares, ball, eps = squares_of(2), MixtureBall(NOMINAL, rad), np.full(3, 0.2)
    found = solve_radius_squares(squares, eps, ball)
    risks = radius_risk(squares.mean_squares(found.model), squares.stretch(found.model), eps)
    assert found.alpha @ risks == pytest.approx(ball.value(risks), rel=1e-5)
    reply = searched(
        lambda model: found.alpha @ radius_risk(squares.mean_squares(model), squares.stretch(model), eps),
        found.model + 0.1,
    )
    assert reply == pytest.approx(ball.value(risks), rel=1e-5)


def test_a_client_that_no_mixture_reaches_cannot_make_the_problem_infeasible():
    squares, rho = squares_of(3), np.array([4.0, 4.0, 0.5])  # ||v|| is at least 1
    mixture = MixtureBall(np.array([0.6, 0.4, 0.0]), 0.0)
    found = solve_penalised_squares(squares, rho, mixture)
    two = Squares(squares.factors[:2], 2, 1.0)
    alone = solve_penalised_squares(two, rho[:2], MixtureBall(np.array([0.6, 0.4]), 0.0))
    np.testing.assert_allclose(found.model, alone.model, atol=1e-4)
    assert found.alpha[2] == 0


def test_more_freedom_for_nature_never_lowers_the_value():
    squares, eps = squares_of(4), np.full(3, 0.1)
    values = []
    for rad in (0.0, 0.1, 0.3, 0.6, 1.0):
        mixture = MixtureBall(NOMINAL, rad)
        model = solve_radius_squares(squares, eps, mixture).model
        values.append(mixture.value(radius_risk(squares.mean_squares(model), squares.stretch(model), eps)))
    assert np.all(np.diff(values) >= -1e-7)
    assert values[-1] > values[0] + 0.05


def margin_problems(seed, radius, kappa):
    rng = np.random.default_rng(seed)
    ball = WassersteinBall(radius, kappa, TRANSPORT_NORMS["l1"])
    problems = []
    for n, shift in ((8, 0.0), (6, 1.0), (5, -0.7)):
        y = rng.integers(0, 3, n)
        X = rng.normal(size=(n, 2)) + np.array([[1.5, 0], [-1, 1], [0, -1.5]])[y] + shift
        problems.append(RobustRisk(np.c_[X, np.ones(n)], y, np.full(n, 1 / n), 3, 2, ball))
    return problems


def literal_programme(problems, mixture):
    """Every label, every rival and every pair of classes, as a linear programme (l1 transport, finite kappa).

    Unknowns: M, then per client lam, F and its records' losses, then top, tau and the raised risks.
    """
    K, d = problems[0].n_classes, problems[0].X.shape[1]
    starts, size = [], K * d
    for problem in problems:
        starts.append(size)
        size += 2 + len(problem.y)
    n, top = len(problems), size
    tau, raised = top + 1, top + 2
    size += 2 + n
    A, b = [], []

    def add(entries, bound):  # sum of entries <= bound
        row = np.zeros(size)
        for column, value in entries:
            row[column] += value
        A.append(row)
        b.append(bound)

    for i, (problem, lam) in enumerate(zip(problems, starts, strict=True)):
        F, first = lam + 1, lam + 2
        for r, (x, y) in enumerate(zip(problem.X, problem.y, strict=True)):
            for label, k in itertools.product(range(K), range(K)):
                scores = [(k * d + c, x[c]) for c in range(d)] + [(label * d + c, -x[c]) for c in range(d)]
                price = 0.0 if label == y else problem.ball.kappa
                add([*scores, (first + r, -1.0), (lam, -price)], -float(k != label))
        for k, j in itertools.permutations(range(K), 2):
            for c in range(problem.n_features):  # the dual of l1 is the largest coordinate
                add([(k * d + c, 1.0), (j * d + c, -1.0), (lam, -1.0)], 0.0)
        losses = [(first + r, w) for r, w in enumerate(problem.weight)]
        add([(lam, problem.ball.radius), *losses, (F, -1.0)], 0.0)
        add([(F, 1.0), (top, -1.0)], 0.0)
        add([(F, 1.0), (raised + i, -1.0)], 0.0)
        add([(tau, 1.0), (raised + i, -1.0)], 0.0)
    add([(tau, 1.0), (top, -1.0)], 0.0)
    cost = np.zeros(size)
    cost[raised : raised + n] = mixture.nominal
    cost[top], cost[tau] = mixture.radius, -mixture.radius
    bounds = [(None, None)] * size
    for lam in starts:
        bounds[lam] = (0, None)
    return cost, np.array(A), np.array(b), bounds


@pytest.mark.parametrize("rad", [0.25, 1.0])
@pytest.mark.parametrize(("radius", "kappa"), [(0.0, 1.0), (0.1, 0.5), (0.3, 2.0)])
def test_margins_equal_the_literal_linear_programme(rad, radius, kappa):
    problems, mixture = margin_problems(5, radius, kappa), MixtureBall(NOMINAL, rad)
    cost, A, b, bounds = literal_programme(problems, mixture)
    optimum = linprog(cost, A, b, bounds=bounds, method="highs").fun
    model = solve_margins(problems, mixture).model
    value = mixture.value(np.array([problem.value(model)[0] for problem in problems]))
    assert value == pytest.approx(optimum, abs=2e-6)


def test_one_client_of_margins_is_the_central_problem():
    problem = margin_problems(6, 0.1, 1.0)[0]
    model = solve_margins([problem], MixtureBall(np.ones(1), 1.0)).model
    central = solve_prox(problem, np.zeros((3, 3)), 0.0)
    assert problem.value(model)[0] == pytest.approx(central.value, abs=1e-6)


def test_margins_of_a_fixed_mixture_weigh_the_records():
    """Radius 0 and fixed weights: the pooled problem with each record's share of its client's weight."""
    problems, mixture = margin_problems(7, 0.0, np.inf), MixtureBall(NOMINAL, 0.0)
    model = solve_margins(problems, mixture).model
    pooled = RobustRisk(
        np.vstack([p.X for p in problems]),
        np.concatenate([p.y for p in problems]),
        np.concatenate([a * p.weight for a, p in zip(NOMINAL, problems, strict=True)]),
        3,
        2,
        problems[0].ball,
    )
    assert pooled.value(model)[0] == pytest.approx(solve_prox(pooled, np.zeros((3, 3)), 0.0).value, abs=1e-6)


def test_the_smallest_of_many_margin_models_is_taken():
    """Separable records and no radius: every model with margin 1 is optimal."""
    X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    problem = RobustRisk(X, y, np.full(2, 0.5), 2, 1, WassersteinBall(0.0, np.inf, TRANSPORT_NORMS["l2"]))
    model = solve_margins([problem], MixtureBall(np.ones(1), 1.0)).model
    np.testing.assert_allclose(model, [[-0.5], [0.5]], atol=1e-3)
