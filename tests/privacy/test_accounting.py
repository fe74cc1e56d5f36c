from math import exp, inf, log, nan, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from skdro.privacy.accounting import (
    ACCOUNTANTS,
    calibrate_multiplier,
    check_budget,
    classical_multiplier,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    moments_epsilon,
)

EPSILONS = st.floats(log(0.05), log(1000.0)).map(exp)
DELTAS = st.floats(log(1e-12), log(0.1)).map(exp)
COUNTS = st.lists(st.integers(1, 10_000), min_size=1, max_size=3)

# T rounds, the pair of one round, its total by the moments bound and exactly
GOLDEN = [
    (50, 0.5, 1e-6, 3.7299, 3.10056),
    (150, 0.05, 1e-5, 0.6145, 0.43971),
    (150, 0.1, 1e-8, 1.2375, 1.02423),
    (150, 0.2, 1e-5, 2.5539, 2.01800),
]


def log_hockey_stick(epsilon, mu):
    """log of  int max(0, p - exp(epsilon) q),  p = N(mu, 1), q = N(0, 1), by numerical integration.

    p = exp(epsilon) q at x = epsilon/mu + mu/2; with t = x - that and a = epsilon/mu - mu/2 the integrand is
    phi(a + t) (1 - exp(-mu t)), of which phi(a) or its peak is taken out of the integral.
    """
    a = epsilon / mu - mu / 2
    peak = max(-a, 0.0)
    scale = a * peak + peak**2 / 2
    value, _ = quad(
        lambda t: exp(scale - a * t - t**2 / 2) * -np.expm1(-mu * t),
        0.0,
        peak + 40.0 / max(1.0, abs(a) if a > 0 else 1.0),
        points=[peak] if peak > 0 else None,
        epsabs=0.0,
        epsrel=1e-11,
        limit=500,
    )
    return -(a**2) / 2 - log(2 * pi) / 2 - scale + log(value)


@pytest.mark.parametrize("mu", [1e-4, 1e-2, 0.3, 1.5, 10.0, 100.0])
@pytest.mark.parametrize("quantile", [-2.0, 0.0, 1.0, 5.0, 20.0])
def test_delta_is_the_hockey_stick_divergence(mu, quantile):
    epsilon = max(0.0, mu * (mu / 2 + quantile))
    np.testing.assert_allclose(log(gaussian_delta(epsilon, mu)), log_hockey_stick(epsilon, mu), atol=2e-9)


@pytest.mark.parametrize("mu", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 1.0, 1e4])
def test_delta_is_a_probability_over_the_whole_range(epsilon, mu):
    assert 0 <= gaussian_delta(epsilon, mu) <= 1


def test_delta_extremes():
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(1.0, 1e3) == 1.0
    assert gaussian_delta(1e4, 1e-4) == 0.0
    assert gaussian_epsilon(0.0, 1e-6) == 0.0
    assert gaussian_epsilon(1e-7, 1e-6) == 0.0


def test_composition_agrees_with_the_convolution_of_privacy_losses():
    """Three rounds of two releases: losses N(m^2/2, m^2) add, delta = E max(0, 1 - exp(epsilon - loss))."""
    multipliers, step = (1.5, 4.0), 1e-3
    grid = np.arange(-12, 12, step)
    mass, start = np.array([1.0]), 0.0
    for m in 3 * [1 / s for s in multipliers]:
        loss = np.exp(-((grid - m**2 / 2) ** 2) / (2 * m**2)) / (sqrt(2 * pi) * m)
        keep = loss > 1e-18
        mass = np.convolve(mass, loss[keep] * step)
        start += grid[keep][0]
    losses = start + step * np.arange(len(mass))
    mu = sqrt(3 * sum(1 / s**2 for s in multipliers))
    for epsilon in (0.5, 2.0, 5.0):
        expected = mass @ np.maximum(0, 1 - np.exp(epsilon - losses))
        np.testing.assert_allclose(gaussian_delta(epsilon, mu), expected, rtol=1e-5)


@pytest.mark.parametrize(("T", "epsilon", "delta", "moments", "exact"), GOLDEN)
def test_golden_totals_of_the_papers_rounds(T, epsilon, delta, moments, exact):
    mu = sqrt(T) / classical_multiplier(epsilon, delta)
    assert abs(moments_epsilon(mu, delta) - moments) < 6e-5
    assert abs(gaussian_epsilon(mu, delta) - exact) < 6e-6
    split = T * sum((sqrt(share) / classical_multiplier(epsilon, delta)) ** 2 for share in (0.95, 0.05))
    assert abs(split - mu**2) < 1e-12


@settings(deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS, mu=st.floats(1e-3, 30.0))
def test_epsilon_inverts_delta_from_above(epsilon, delta, mu):
    found = gaussian_epsilon(mu, delta)
    assert gaussian_delta(found, mu) <= delta
    if found > 1e-6:
        assert gaussian_delta(found * (1 - 1e-6), mu) > delta


@settings(deadline=None)
@given(mu=st.floats(1e-3, 30.0), delta=DELTAS, factor=st.floats(1.001, 3.0))
def test_epsilon_grows_with_mu_and_falls_with_delta(mu, delta, factor):
    for accountant in ACCOUNTANTS.values():
        assert accountant.epsilon(mu * factor, delta) >= accountant.epsilon(mu, delta)
        assert accountant.epsilon(mu, delta / factor) >= accountant.epsilon(mu, delta)


@settings(deadline=None)
@given(mu=st.floats(1e-3, 30.0), delta=DELTAS)
def test_moments_bound_is_never_below_the_exact_epsilon(mu, delta):
    assert moments_epsilon(mu, delta) > gaussian_epsilon(mu, delta)


@pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=ACCOUNTANTS)
@settings(deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS)
def test_mu_inverts_epsilon_from_below(accountant, epsilon, delta):
    mu = accountant.mu(epsilon, delta)
    assert accountant.epsilon(mu, delta) <= epsilon
    assert accountant.epsilon(mu * (1 + 1e-6), delta) > epsilon


@pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=ACCOUNTANTS)
@settings(deadline=None)
@given(
    epsilon=st.one_of(EPSILONS, st.sampled_from([1e-3, 0.05, 1.0, 1e4, 1e5])),
    delta=DELTAS,
    counts=COUNTS,
    sensitivity=st.floats(1e-9, 1e3),
)
def test_calibration_never_exceeds_the_request(accountant, epsilon, delta, counts, sensitivity):
    shares = np.arange(1, len(counts) + 1) / (len(counts) * (len(counts) + 1) / 2)
    base = calibrate_multiplier(epsilon, delta, counts, shares, accountant)
    spent = 0.0
    for count, share in zip(counts, shares, strict=True):
        sigma = base / sqrt(share) * sensitivity
        spent += sum([(sensitivity / sigma) ** 2] * count)
    assert accountant.epsilon(sqrt(spent), delta) <= epsilon
    assert accountant.epsilon(sqrt(spent), delta) > 0.999 * epsilon


def test_smallest_epsilon_and_delta():
    for delta in (5e-324, 1e-12, 0.5, 0.999999):
        mu = gaussian_mu(1e-9, delta)
        assert mu > 0 and gaussian_epsilon(mu, delta) <= 1e-9


@pytest.mark.parametrize("bad", [0, -1.0, nan, inf, "1", None, True, 1e-10])
def test_bad_epsilon(bad):
    for function in (check_budget, gaussian_mu, classical_multiplier, ACCOUNTANTS["moments"].mu):
        with pytest.raises(ValueError, match="epsilon"):
            function(bad, 1e-5)


@pytest.mark.parametrize("bad", [0, -1e-5, 1.0, 2.0, nan, "x", None, True])
def test_bad_delta(bad):
    for function in (check_budget, gaussian_mu, classical_multiplier, ACCOUNTANTS["moments"].mu):
        with pytest.raises(ValueError, match="delta"):
            function(1.0, bad)
