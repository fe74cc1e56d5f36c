"""Conjugates against brute-force suprema; worst cases against cvxpy's primal problems."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skdro.ambiguity.divergence import KL, Capped, CressieRead, TotalVariation
from skdro.ambiguity.reweighting import KLBall, Penalised

DIVERGENCES = [KL(), CressieRead(2.0), CressieRead(1.5), CressieRead(3.0), TotalVariation()]
CAPPED = [Capped(divergence, cap) for divergence in DIVERGENCES for cap in (1.2, 10.0)]


def psi_by_definition(divergence, t):
    """The table of the specification, written out again."""
    if isinstance(divergence, KL):
        return np.where(t > 0, t * np.log(np.maximum(t, 1e-300)), 0.0) - t + 1
    if isinstance(divergence, TotalVariation):
        return np.abs(t - 1) / 2
    k = divergence.order
    return (t**k - k * t + k - 1) / (k * (k - 1))


@pytest.mark.parametrize("capped", CAPPED, ids=str)
def test_conjugate_is_the_brute_force_supremum(capped):
    t = capped.max_weight * np.linspace(0, 1, 400_001) ** 3  # fine near 0, where psi bends most
    t = np.append(t, 1.0)
    price = psi_by_definition(capped.divergence, t)
    for s in np.concatenate([np.linspace(-6, 6, 25), [capped.edge, -0.5, 0.0, 40.0]]):
        best = (s * t - price).max()
        assert capped.conjugate(s) == pytest.approx(best, rel=1e-8, abs=1e-8)
        attained = s * capped.weight(s) - psi_by_definition(capped.divergence, capped.weight(s))
        assert attained == pytest.approx(best, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("divergence", [KL(), CressieRead(2.0), CressieRead(1.5), CressieRead(3.0)], ids=str)
def test_uncapped_conjugate_is_the_brute_force_supremum(divergence):
    t = 60 * np.linspace(0, 1, 600_001) ** 3
    for s in np.linspace(-5, 3, 17):
        assert divergence.conjugate(s) == pytest.approx(
            (s * t - psi_by_definition(divergence, t)).max(), rel=1e-7, abs=1e-7
        )


def test_kl_with_a_cap_is_the_kl_regularised_cvar_of_the_table():
    a, s = 0.25, np.linspace(-4, 6, 101)
    expected = np.where(s <= np.log(1 / a), np.exp(s) - 1, (s + 1 + np.log(a)) / a - 1)
    np.testing.assert_allclose(Capped(KL(), 1 / a).conjugate(s), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(Capped(KL(), 1 / a).weight(s), np.minimum(np.exp(s), 1 / a), rtol=1e-14)


@pytest.mark.parametrize("capped", CAPPED, ids=str)
def test_nothing_overflows_and_weights_stay_in_their_range(capped):
    s = np.array([-np.inf, -1e300, -1e5, 0.0, 1e5, 1e300, np.inf])
    with np.errstate(over="raise", invalid="raise"):
        weight = capped.weight(s)
        assert np.isfinite(capped.conjugate(s[1:-1])).all()
    assert (weight >= 0).all() and (weight <= capped.max_weight).all()


def cvxpy_price(divergence, w):
    if isinstance(divergence, KL):
        return cp.sum(cp.kl_div(w, 1)) / w.size
    if isinstance(divergence, TotalVariation):
        return cp.norm1(w - 1) / 2 / w.size
    k = divergence.order
    return (cp.sum(cp.power(w, k)) - w.size) / (k * (k - 1)) / w.size  # the mean of w is one


@pytest.mark.parametrize("capped", CAPPED, ids=str)
@pytest.mark.parametrize("penalty", [0.05, 1.0, 20.0])
def test_worst_case_is_the_primal_problem_of_nature(capped, penalty):
    losses = np.random.default_rng(0).exponential(size=40)
    w = cp.Variable(40, nonneg=True)
    problem = cp.Problem(
        cp.Maximize(w @ losses / 40 - penalty * cvxpy_price(capped.divergence, w)),
        [cp.sum(w) == 40, w <= capped.max_weight],
    )
    problem.solve(solver=cp.CLARABEL)
    worst = Penalised(capped, penalty).worst_case(losses)
    assert worst.value == pytest.approx(problem.value, rel=1e-6)
    if capped.smooth:
        np.testing.assert_allclose(worst.weight, w.value, atol=2e-3)
        np.testing.assert_allclose(capped.weight((losses - worst.shift) / penalty), worst.weight, atol=1e-9)


@pytest.mark.parametrize("radius", [0.01, 0.2, 1.0, 50.0])
@pytest.mark.parametrize("max_weight", [1.5, 10.0])
def test_kl_ball_is_the_constrained_primal_problem(radius, max_weight):
    losses, floor = np.random.default_rng(1).exponential(size=40), 0.1
    w = cp.Variable(40, nonneg=True)
    kl = cp.sum(cp.kl_div(w, 1)) / 40
    problem = cp.Problem(
        cp.Maximize(w @ losses / 40 + floor * (radius - kl)), [cp.sum(w) == 40, w <= max_weight, kl <= radius]
    )
    problem.solve(solver=cp.CLARABEL)
    worst = KLBall(radius, floor, max_weight).worst_case(losses)
    assert worst.value == pytest.approx(problem.value, rel=1e-6)
    assert worst.temperature >= floor and KL().psi(worst.weight).mean() <= radius + 1e-9


values = arrays(float, st.integers(1, 30), elements=st.floats(0, 1e3, allow_subnormal=False))


@given(losses=values, capped=st.sampled_from(CAPPED), penalty=st.floats(1e-300, 1e300))
def test_weights_average_one_and_the_value_lies_between_mean_and_capped_worst(losses, capped, penalty):
    worst = Penalised(capped, penalty).worst_case(losses)
    assert worst.weight.mean() == pytest.approx(1.0, abs=1e-12)
    assert (worst.weight >= 0).all() and (worst.weight <= capped.max_weight * (1 + 1e-12)).all()
    tail = np.sort(losses)[::-1]
    full = int(len(tail) // capped.max_weight)
    top = np.zeros(len(tail))
    top[:full] = capped.max_weight
    if full < len(tail):
        top[full] = len(tail) - full * capped.max_weight
    assert losses.mean() - 1e-9 <= worst.value <= (top * tail).mean() + 1e-9 * (1 + tail[0])


@pytest.mark.parametrize("capped", CAPPED, ids=str)
def test_penalty_to_zero_is_the_tail_mean_and_to_infinity_the_mean(capped):
    losses = np.random.default_rng(2).exponential(size=200) * 1e4
    tail, rest = np.sort(losses)[::-1], 200.0
    expected = 0.0
    for loss in tail:
        taken = min(capped.max_weight, rest)
        expected, rest = expected + taken * loss / 200, rest - taken
    for penalty in (1e-6, 1e-30, 1e-300):
        assert Penalised(capped, penalty).worst_case(losses).value == pytest.approx(expected, rel=1e-7)
    for penalty in (1e12, 1e100, 1e300):
        assert Penalised(capped, penalty).worst_case(losses).value == pytest.approx(losses.mean(), rel=1e-7)


@pytest.mark.parametrize("capped", [capped for capped in CAPPED if capped.smooth], ids=str)
def test_weights_are_the_gradient_of_the_value(capped):
    losses, h = np.random.default_rng(3).exponential(size=12), 1e-5
    problem = Penalised(capped, 0.7)
    for i in range(12):
        step = h * np.eye(12)[i]
        slope = (problem.worst_case(losses + step).value - problem.worst_case(losses - step).value) / (2 * h)
        assert slope == pytest.approx(problem.worst_case(losses).weight[i] / 12, abs=1e-6)


@pytest.mark.parametrize("problem", [Penalised(CAPPED[1], 1.0), KLBall(0.1, 1e-3, 10.0)], ids=str)
def test_equal_losses_leave_equal_weights(problem):
    worst = problem.worst_case(np.full(7, 3.0))
    np.testing.assert_allclose(worst.weight, 1.0, rtol=1e-12)
    assert worst.value == pytest.approx(3.0 + getattr(problem, "radius", 0.0) * 1e-3, rel=1e-9)
