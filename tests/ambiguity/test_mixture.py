"""Projections on sets of mixtures against a quadratic programme, the worst mixture against a linear one."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from skdro.ambiguity.mixture import MixtureBall, project_simplex


def quadratic_programme(n):
    """Projection on the ball as a compiled problem: the definition, with slack for nothing."""
    z, nominal, radius = cp.Parameter(n), cp.Parameter(n), cp.Parameter(nonneg=True)
    alpha = cp.Variable(n)
    constraints = [alpha >= 0, cp.sum(alpha) == 1, cp.norm1(alpha - nominal) <= 2 * radius]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(alpha - z)), constraints)

    def solve(z_value, ball):
        z.value, nominal.value, radius.value = z_value, ball.nominal, ball.radius
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        return alpha.value

    return solve


@pytest.mark.parametrize("n", [1, 2, 5, 11])
def test_projection_equals_a_quadratic_programme(n):
    """1000 random points in all, a quarter for each number of clients, on balls from a point to the simplex."""
    rng = np.random.default_rng(n)
    solve = quadratic_programme(n)
    for radius in (0.02, 0.15, 0.5, 0.9, 1.0):
        nominal = rng.dirichlet(np.full(n, 0.7))
        ball = MixtureBall(nominal, radius)
        points = rng.choice([0.1, 1.0, 10.0], size=(50, 1)) * rng.normal(size=(50, n)) + nominal
        exact = np.array([solve(z, ball) for z in points])
        np.testing.assert_allclose(ball.project(points), exact, atol=2e-6)


def test_projection_on_the_simplex_is_the_ball_of_radius_one():
    z = np.random.default_rng(0).normal(size=(200, 6))
    np.testing.assert_array_equal(MixtureBall(np.full(6, 1 / 6), 1.0).project(z), project_simplex(z))


def test_leading_axes_are_one_projection_each():
    rng = np.random.default_rng(1)
    ball = MixtureBall(rng.dirichlet(np.ones(4)), 0.2)
    z = rng.normal(size=(3, 7, 4))
    one_by_one = [[ball.project(point) for point in row] for row in z]
    np.testing.assert_allclose(ball.project(z), one_by_one, atol=1e-15)
    np.testing.assert_array_equal(ball.worst(z), [[ball.worst(point) for point in row] for row in z])


points = arrays(float, 5, elements=st.floats(-5, 5, width=32))
mixtures = arrays(float, 5, elements=st.floats(0.0, 1.0, width=16)).filter(lambda a: a.sum() > 0.1)
radii = st.floats(0.0, 1.0)


@given(z=points, other=points, weights=mixtures, radius=radii)
def test_projection_is_feasible_idempotent_and_nonexpansive(z, other, weights, radius):
    ball = MixtureBall(weights / weights.sum(), radius)
    p, q = ball.project(np.stack([z, other]))
    assert p.min() >= -1e-12
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert np.abs(p - ball.nominal).sum() <= 2 * radius + 1e-9
    np.testing.assert_allclose(ball.project(p), p, atol=1e-9)
    assert np.linalg.norm(p - q) <= np.linalg.norm(z - other) + 1e-9


@given(z=points, inside=points, weights=mixtures, radius=radii)
def test_no_point_of_the_set_is_on_the_far_side_of_the_projection(z, inside, weights, radius):
    """The variational inequality <z - p, a - p> <= 0 for all a of the set characterises the projection."""
    ball = MixtureBall(weights / weights.sum(), radius)
    p, a = ball.project(z), ball.worst(inside)
    assert (z - p) @ (a - p) <= 1e-8


@given(risks=points, weights=mixtures, radius=radii)
def test_worst_mixture_equals_a_linear_programme(risks, weights, radius):
    nominal = weights / weights.sum()
    ball = MixtureBall(nominal, radius)
    alpha = ball.worst(risks)
    assert alpha.min() >= 0
    assert alpha.sum() == pytest.approx(1, abs=1e-12)
    assert np.abs(alpha - nominal).sum() <= 2 * radius + 1e-9
    n = len(risks)
    result = linprog(  # alpha = a0 + up - down
        np.r_[-risks, risks],
        A_ub=np.r_[np.c_[-np.eye(n), np.eye(n)], [np.ones(2 * n)]],
        b_ub=np.r_[nominal, 2 * radius],
        A_eq=[np.r_[np.ones(n), -np.ones(n)]],
        b_eq=[0.0],
    )
    assert ball.value(risks) == pytest.approx(nominal @ risks - result.fun, abs=1e-7)
    assert alpha @ risks == pytest.approx(ball.value(risks), abs=1e-12)


def test_an_infinite_risk_counts_only_where_the_mixture_can_reach_it():
    risks = np.array([1.0, np.inf])
    assert MixtureBall(np.array([1.0, 0.0]), 0.0).value(risks) == 1.0
    assert MixtureBall(np.array([1.0, 0.0]), 0.1).value(risks) == np.inf


def test_the_two_ends_of_the_radius():
    nominal, risks = np.array([0.2, 0.5, 0.3]), np.array([3.0, 1.0, 2.0])
    np.testing.assert_array_equal(MixtureBall(nominal, 0.0).worst(risks), nominal)
    np.testing.assert_allclose(MixtureBall(nominal, 0.0).project(risks), nominal, atol=1e-15)
    np.testing.assert_array_equal(MixtureBall(nominal, 1.0).worst(risks), [1.0, 0.0, 0.0])
