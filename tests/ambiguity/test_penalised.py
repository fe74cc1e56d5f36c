"""Nature's move of one record: the exact form against brute force and many-start ascent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from skdro.ambiguity.penalised import Box, ascend, perturb, worst_in_box
from skdro.ambiguity.robust_squares import penalised_risk


def gain(xi, zeta, v, e, rho):
    return (e + (xi - zeta) @ v) ** 2 - rho * ((xi - zeta) ** 2).sum(axis=-1)


def test_exact_form_equals_a_grid():
    """Two coordinates, a box that cuts, penalties on both sides of ||v||^2."""
    rng = np.random.default_rng(0)
    axis = np.linspace(-1, 1, 401)
    grid = np.stack(np.meshgrid(axis, 1.5 * axis, indexing="ij"), axis=-1).reshape(-1, 2)
    box = Box(np.array([-1.0, -1.5]), np.array([1.0, 1.5]))
    for _ in range(60):
        zeta, v = rng.uniform(-1, 1, 2), rng.normal(size=2)
        e, rho = rng.normal(), (v @ v) * rng.choice([0.3, 0.9, 1.0, 1.1, 3.0])
        xi = worst_in_box(zeta, v, np.array(e), np.array(rho), box)
        best = gain(grid, zeta, v, e, rho).max()
        assert np.all(xi >= box.lo - 1e-12)
        assert np.all(xi <= box.hi + 1e-12)
        assert gain(xi, zeta, v, e, rho) >= best - 1e-12
        assert gain(xi, zeta, v, e, rho) == pytest.approx(best, abs=0.02)


def test_exact_form_is_not_beaten_by_search_from_many_starts():
    rng = np.random.default_rng(1)
    box = Box(np.full(5, -1.0), np.array([1.0, 2.0, 0.5, 1.0, 3.0]))
    for _ in range(20):
        zeta, v = rng.uniform(box.lo, box.hi), rng.normal(size=5)
        v[rng.integers(5)] = 0.0
        e, rho = rng.normal(), (v @ v) * rng.uniform(0.1, 2)
        found = gain(worst_in_box(zeta, v, np.array(e), np.array(rho), box), zeta, v, e, rho)
        starts = [*rng.uniform(box.lo, box.hi, size=(10, 5)), np.where(v > 0, box.hi, box.lo)]
        searched = max(
            -minimize(
                lambda xi: -gain(xi, zeta, v, e, rho),  # noqa: B023
                start,
                bounds=list(zip(box.lo, box.hi, strict=True)),
                method="L-BFGS-B",
            ).fun
            for start in starts
        )
        assert found >= searched - 1e-6
        assert found == pytest.approx(searched, abs=1e-5)


def test_many_records_are_one_problem_each():
    rng = np.random.default_rng(2)
    box = Box(np.full(3, -1.0), np.full(3, 1.0))
    zeta, v, e, rho = rng.uniform(-1, 1, (4, 6, 3)), rng.normal(size=3), rng.normal(size=(4, 6)), rng.uniform(1, 5, 6)
    together = worst_in_box(zeta, v, e, np.broadcast_to(rho, (4, 6)), box)
    one_by_one = [[worst_in_box(zeta[i, j], v, e[i, j], rho[j], box) for j in range(6)] for i in range(4)]
    np.testing.assert_allclose(together, one_by_one, atol=1e-14)


@given(slack=st.floats(1.2, 10.0), e=st.floats(-3, 3), seed=st.integers(0, 1000))
def test_far_from_the_box_all_three_forms_agree(slack, e, seed):
    """Closed form, roots, and projected ascent run to convergence."""
    rng = np.random.default_rng(seed)
    zeta, v = rng.normal(size=4), rng.normal(size=4)
    rho = slack * (v @ v)
    closed = penalised_risk(e**2, v @ v, rho)
    wide = Box(np.full(4, -1e4), np.full(4, 1e4))
    exact = worst_in_box(zeta, v, np.array(e), np.array(rho), wide)
    assert gain(exact, zeta, v, e, rho) == pytest.approx(float(closed), rel=1e-6, abs=1e-9)
    climbed = ascend(lambda xi: 2 * (e + (xi - zeta) @ v) * v, zeta, np.array(rho), wide, 150, 0.5 / rho)
    assert gain(climbed, zeta, v, e, rho) == pytest.approx(float(closed), rel=1e-6, abs=1e-9)


def test_ascent_stays_in_the_box_and_stops_short():
    """The published setting: 30 steps of .003 end far below the supremum."""
    zeta, v, e, rho = np.zeros(2), np.array([1.0, -1.2]), 1.0, np.array(2.5)
    box = Box(np.full(2, -0.2), np.full(2, 500.0))
    xi = ascend(lambda xi: 2 * (e + xi @ v) * v, zeta, rho, box, 30, 0.003)
    assert xi[1] == -0.2
    wide = Box(np.full(2, -500.0), np.full(2, 500.0))
    short = ascend(lambda xi: 2 * (e + xi @ v) * v, zeta, rho, wide, 30, 0.003)
    far = worst_in_box(zeta, v, np.array(e), rho, wide)
    assert gain(short, zeta, v, e, rho) < 0.2 * gain(far, zeta, v, e, rho)


def test_perturbation_has_its_length_inside_the_box_and_none_beyond():
    rng = np.random.default_rng(3)
    box = Box(np.full(3, -1.0), np.full(3, 1.0))
    xi = np.zeros((50, 3))
    moved = perturb(xi, rng.normal(size=xi.shape), 0.01, box)
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), 0.01)
    assert np.abs(perturb(np.ones((50, 3)), rng.normal(size=xi.shape), 0.01, box)).max() <= 1.0


def test_a_box_knows_whether_it_is_bounded():
    assert Box(np.zeros(2), np.ones(2)).bounded
    assert not Box(np.zeros(2), np.array([1.0, np.inf])).bounded
