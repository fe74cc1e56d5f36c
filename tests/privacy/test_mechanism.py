from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdro.privacy.audit_statistics import noise_scale_bounds
from skdro.privacy.mechanism import noise_grid, release
from skdro.privacy.noise import OSNoise, StreamNoise

NOISE = StreamNoise(0)


def ones(shape, *, clients, round, release):
    return np.ones((len(clients), *shape))


def released(exact, **changes):
    options = dict(name="gradient", sensitivity=0.1, multiplier=5.0, bound=2.0, round=0, noise=NOISE, ledger=[])
    return release(exact, **options | changes)


@settings(deadline=None)
@given(sigma=st.floats(1e-250, 1e250))
def test_grid_is_the_largest_power_of_two_below_the_noise(sigma):
    grid = Fraction(float(noise_grid(sigma)))
    assert grid.numerator == 1 or grid.denominator == 1
    assert (grid.numerator * grid.denominator).bit_count() == 1
    assert grid <= Fraction(sigma) / 2**20 < 2 * grid


@settings(deadline=None)
@given(value=st.floats(-2.0, 2.0), sensitivity=st.floats(1e-8, 1e3))
def test_released_values_lie_on_the_grid_and_close_to_the_noisy_ones(value, sensitivity):
    out = released(np.array([value]), sensitivity=sensitivity, noise=ones)[0]
    sigma = 5.0 * sensitivity
    grid = Fraction(float(noise_grid(sigma)))
    assert (Fraction(out) / grid).denominator == 1
    assert abs(Fraction(out) - Fraction(value) - Fraction(sigma)) <= grid * Fraction(51, 100)


def test_each_client_gets_noise_of_its_own_scale():
    sensitivity = np.array([0.1, 0.4, 2.0])
    out = released(np.zeros((3, 2, 2)), sensitivity=sensitivity, noise=ones)
    np.testing.assert_allclose(out, np.broadcast_to(5 * sensitivity[:, None, None], (3, 2, 2)), rtol=1e-6)


def test_one_number_a_client():
    out = released(np.array([1.0, 2.0]), noise=ones)
    np.testing.assert_allclose(out, [1.5, 2.5], rtol=1e-6)


def test_blocking_does_not_change_a_bit():
    exact = np.random.default_rng(0).uniform(-1, 1, size=(5, 3, 2))
    sensitivity = np.linspace(0.1, 0.5, 5)
    whole = released(exact, sensitivity=sensitivity)
    for part in (np.array([3, 1]), np.array([4, 0, 2])):
        block = released(exact[part], sensitivity=sensitivity[part], clients=part)
        np.testing.assert_array_equal(block, whole[part])


def test_exact_values_are_left_alone():
    exact = np.ones((2, 3))
    released(exact)
    np.testing.assert_array_equal(exact, np.ones((2, 3)))


def test_ledger_line():
    ledger = []
    released(np.zeros((2, 3)), sensitivity=np.array([0.1, 0.2]), clients=[4, 7], ledger=ledger)
    (line,) = ledger
    assert (line.name, line.count, list(line.clients)) == ("gradient", 1, [4, 7])
    np.testing.assert_array_equal(line.sensitivity, [0.1, 0.2])
    np.testing.assert_array_equal(line.sigma, [0.5, 1.0])


@pytest.mark.parametrize(("fault", "sound"), [(1.0, True), (0.5, False), (2.0, False)])
def test_noise_scale_audit(fault, sound):
    exact = np.full((1, 100), 0.3)
    errors = [released(exact, round=t, multiplier=5.0 * fault) - exact for t in range(100)]
    low, high = noise_scale_bounds(10_000)
    assert (low < np.sqrt(np.mean(np.square(errors))) / 0.5 < high) == sound


def test_noise_scale_audit_of_operating_system_noise():
    exact = np.full((1, 10_000), 0.3)
    low, high = noise_scale_bounds(10_000)
    assert low < np.sqrt(np.mean((released(exact, noise=OSNoise()) - exact) ** 2)) / 0.5 < high


def test_tiny_noise_of_a_huge_epsilon_works():
    # epsilon = 1e5 in one round, a client of a million rows
    out = released(np.array([1.0]), sensitivity=2.83e-6, multiplier=1 / 443)
    assert 0 < abs(out[0] - 1.0) < 1e-7


@pytest.mark.parametrize("multiplier", [0.0, -1.0, np.nan, np.inf])
def test_noise_must_be_positive_and_finite(multiplier):
    ledger = []
    with pytest.raises(ValueError, match="positive"):
        released(np.zeros((2, 2)), multiplier=multiplier, ledger=ledger)
    assert ledger == []


def test_noise_below_the_spacing_of_the_values_is_refused_before_it_is_drawn():
    def never(*args, **kwargs):
        raise AssertionError("noise was drawn")

    at_limit = partial(released, np.zeros((1, 2)), sensitivity=1.0, multiplier=2.0**-32)
    at_limit(bound=1.0)  # grid and spacing are both 2**-52
    with pytest.raises(ValueError, match="epsilon"):
        at_limit(bound=2.0, noise=never)
