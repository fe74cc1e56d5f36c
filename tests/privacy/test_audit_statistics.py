import numpy as np
import pytest
from scipy.stats import binom, norm

from skdro.privacy.audit_statistics import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    mu_lower_bound,
    noise_scale_bounds,
)
from skdro.privacy.mechanism import release
from skdro.privacy.noise import StreamNoise

CLAIMED_MU, ROUNDS, RUNS = 1.5, 3, 200


@pytest.mark.parametrize("n", [1, 10, 100])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.999])
def test_clopper_pearson_bounds_solve_their_tail_equations(n, confidence):
    k = np.arange(n + 1)
    lower, upper = clopper_pearson_lower(k, n, confidence), clopper_pearson_upper(k, n, confidence)
    assert lower[0] == 0 and upper[-1] == 1
    np.testing.assert_allclose(binom.sf(k[1:] - 1, n, lower[1:]), 1 - confidence, rtol=1e-8)
    np.testing.assert_allclose(binom.cdf(k[:-1], n, upper[:-1]), 1 - confidence, rtol=1e-8)


def test_clopper_pearson_covers():
    p, n = 0.3, 50
    k = np.arange(n + 1)
    assert binom.pmf(k, n, p)[clopper_pearson_lower(k, n) <= p].sum() >= 0.95
    assert binom.pmf(k, n, p)[clopper_pearson_upper(k, n) >= p].sum() >= 0.95


def test_mu_bound_of_separated_scores():
    """All of 100 held-out scores on the right side: the bound is 2 Phi^-1(.05^(1/100))."""
    low, high = np.zeros(200), np.ones(200)
    assert abs(mu_lower_bound(low, high) - 2 * norm.ppf(0.05 ** (1 / 100))) < 1e-9
    assert mu_lower_bound(high, low) < 0


def test_threshold_is_not_chosen_on_the_scores_that_judge_it():
    """Halves that disagree: a difference in the first half only must not count."""
    first = np.r_[np.zeros(100), np.tile([0.0, 1.0], 50)]
    second = np.r_[np.ones(100), np.tile([0.0, 1.0], 50)]
    assert mu_lower_bound(first, second) < 0


@pytest.mark.parametrize("seed", range(20))
def test_sound_scores_rarely_refute_a_true_claim(seed):
    rng = np.random.default_rng(seed)
    assert mu_lower_bound(rng.normal(size=200), CLAIMED_MU + rng.normal(size=200)) < CLAIMED_MU


def distinguishing_game(noise_factor, seed):
    """Bound on mu from both neighbours' scores: all releases projected on the known difference."""
    difference = np.array([0.6, -0.8])
    multiplier = np.sqrt(ROUNDS) / CLAIMED_MU
    scores = []
    for world, exact in enumerate((0 * difference, difference)):
        noise = StreamNoise(2 * seed + world)
        runs = np.broadcast_to(exact, (RUNS, 2))
        total = sum(
            release(
                runs,
                name="gradient",
                sensitivity=1.0,
                multiplier=multiplier * noise_factor,
                bound=1.0,
                round=t,
                noise=noise,
                ledger=[],
            )
            @ difference
            for t in range(ROUNDS)
        )
        scores.append(total)
    return mu_lower_bound(*scores)


@pytest.mark.parametrize("seed", range(5))
def test_distinguishing_game_accepts_the_claimed_noise(seed):
    assert distinguishing_game(1.0, seed) < CLAIMED_MU


@pytest.mark.parametrize("seed", range(5))
def test_distinguishing_game_flags_half_the_noise(seed):
    assert distinguishing_game(0.5, seed) > CLAIMED_MU


@pytest.mark.parametrize("n_draws", [10, 10_000])
def test_noise_scale_bounds_leave_out_the_stated_probability(n_draws):
    rng = np.random.default_rng(0)
    low, high = noise_scale_bounds(n_draws, level=0.2)
    means = np.sqrt(rng.chisquare(n_draws, size=20_000) / n_draws)
    for share in ((means < low).mean(), (means > high).mean()):
        assert abs(share - 0.1) < 5 * np.sqrt(0.1 * 0.9 / 20_000)
