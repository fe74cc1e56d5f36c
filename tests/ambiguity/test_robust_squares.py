"""Worst expected squared losses: moments against rows, duality against discretised linear programmes."""

import numpy as np
import pytest
from scipy.optimize import linprog

from skdro.ambiguity.robust_squares import Squares, penalised_risk, radius_risk


def clients(seed, sizes=(7, 30, 2), p=3):
    rng = np.random.default_rng(seed)
    return [(np.c_[rng.normal(size=(n, p)), np.ones(n)], rng.normal(size=n)) for n in sizes]


def test_mean_squares_need_the_factor_only():
    data = clients(0)  # the last client has fewer rows than columns
    squares = Squares.of(data, n_features=3, label=1.0)
    models = np.random.default_rng(1).normal(size=(5, 4))
    by_hand = [[np.mean((y - X @ model) ** 2) for X, y in data] for model in models]
    np.testing.assert_allclose(squares.mean_squares(models), by_hand)
    np.testing.assert_allclose(squares.mean_squares(models[0]), by_hand[0])


def test_the_factor_is_as_accurate_as_the_rows():
    """Residuals of 1e-8 survive: squaring the rows into a moment matrix would lose them."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 2))
    y = X @ [1.0, 2.0] + 1e-8 * rng.normal(size=100)
    found = Squares.of([(X, y)], 2, 1.0).mean_squares(np.array([1.0, 2.0]))[0]
    assert found == pytest.approx(np.mean((y - X @ [1.0, 2.0]) ** 2), rel=1e-6)


def test_gradient_of_the_mean_squares():
    squares = Squares.of(clients(3), 3, 1.0)
    model = np.array([0.3, -1.0, 0.2, 0.5])
    steps = 1e-6 * np.eye(4)
    slope = (squares.mean_squares(model + steps) - squares.mean_squares(model - steps)) / 2e-6
    np.testing.assert_allclose(squares.mean_squares_gradient(model), slope.T, atol=1e-7)


def test_stretch_leaves_the_intercept_out():
    squares = Squares.of(clients(4), n_features=3, label=0.5)
    assert squares.stretch(np.array([1.0, 2.0, 2.0, 100.0])) == 9.25


def test_least_squares_of_a_mixture():
    data = clients(5)
    alpha = np.array([0.2, 0.7, 0.1])
    weight = np.concatenate([np.full(len(y), a / len(y)) for (_, y), a in zip(data, alpha, strict=True)])
    X, y = np.vstack([X for X, _ in data]), np.concatenate([y for _, y in data])
    exact = np.linalg.solve(X.T @ (weight[:, None] * X), X.T @ (weight * y))
    np.testing.assert_allclose(Squares.of(data, 3, 1.0).least_squares(alpha), exact, atol=1e-10)


def transport(label_moves, seed, reach):
    """Four records, squared distances to a grid of places up to `reach` around each, squared residuals there."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-1, 1, 4), rng.uniform(-1, 1, 4)
    model = np.array([0.7, 0.2])
    axis = np.linspace(-reach, reach, 61)
    dx, dy = (
        (grid.ravel() for grid in np.meshgrid(axis, axis)) if label_moves else (np.linspace(-reach, reach, 2001), 0.0)
    )
    residual = (y[:, None] + dy) - model[0] * (x[:, None] + dx) - model[1]
    squares = Squares.of([(np.c_[x, np.ones(4)], y)], 1, float(label_moves))
    return squares, model, np.broadcast_to(dx**2 + dy**2, residual.shape), residual**2


@pytest.mark.parametrize("label_moves", [True, False])
@pytest.mark.parametrize("radius", [0.1, 0.5])
def test_radius_form_is_the_value_of_the_transport_problem(label_moves, radius):
    """sup over couplings of mean cost <= eps^2, discretised: never above the closed form, and close to it."""
    squares, model, cost, loss = transport(label_moves, seed=7, reach=4 * radius)
    n, places = cost.shape
    rows = np.kron(np.eye(n), np.ones((1, places)))
    worst = linprog(-loss.ravel() / n, cost.reshape(1, -1) / n, [radius**2], rows, np.ones(n), method="highs")
    closed = radius_risk(squares.mean_squares(model), squares.stretch(model), radius)[0]
    assert -worst.fun <= closed + 1e-9
    assert -worst.fun == pytest.approx(closed, rel=0.01)


@pytest.mark.parametrize("label_moves", [True, False])
@pytest.mark.parametrize("factor", [1.5, 4.0])
def test_penalised_form_is_the_value_of_the_pointwise_problem(label_moves, factor):
    squares, model, cost, loss = transport(label_moves, seed=8, reach=4.0)
    rho = factor * squares.stretch(model)
    worst = (loss - rho * cost).max(axis=1).mean()
    closed = penalised_risk(squares.mean_squares(model), squares.stretch(model), rho)[0]
    assert worst <= closed + 1e-9
    assert worst == pytest.approx(closed, rel=0.02)


def test_radius_form_is_the_least_penalised_bound():
    """min over rho of pen(rho) + rho eps^2: strong duality between the two forms."""
    squares = Squares.of(clients(9), 3, 1.0)
    model = np.array([0.5, -0.2, 0.1, 0.0])
    mse, stretch = squares.mean_squares(model), squares.stretch(model)
    rho = stretch + np.geomspace(1e-3, 1e3, 20001)[:, None]
    least = (penalised_risk(mse, stretch, rho) + rho * 0.3**2).min(axis=0)
    np.testing.assert_allclose(least, radius_risk(mse, stretch, 0.3), rtol=1e-5)
