"""The bound on a search against the exact law of its winner, and the law of the number of trials."""

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import norm

from skdro.privacy.accounting import gaussian_epsilon
from skdro.privacy.random_stopping import TruncatedNegativeBinomial, search_epsilon, search_mu
from skdro.privacy.search_report import trial_mu

LAWS = [(eta, mean) for eta in (-0.5, 0.0, 1.0, 3.0) for mean in (1.5, 5.0, 30.0)]
DELTA = 1e-3  # large enough for the exact delta to be computed to many digits


def pmf_by_definition(eta, gamma, k):
    if eta == 0:
        return (1 - gamma) ** k / (k * np.log(1 / gamma))
    rising = np.exp(gammaln(k + abs(eta)) - gammaln(abs(eta)) - gammaln(k + 1)) if eta > 0 else None
    if eta > 0:
        return (1 - gamma) ** k / (gamma**-eta - 1) * rising
    return (1 - gamma) ** k / (gamma**-eta - 1) * np.prod([(j + eta) / (j + 1) for j in range(k)])


@pytest.mark.parametrize(("eta", "mean"), LAWS)
def test_law_of_the_number_of_trials(eta, mean):
    law = TruncatedNegativeBinomial.with_mean(mean, eta)
    pmf = law.pmf(200_000)
    k = np.arange(1, len(pmf) + 1)
    assert pmf.sum() == pytest.approx(1, abs=1e-9)
    assert pmf @ k == pytest.approx(mean, rel=1e-9) and law.mean == pytest.approx(mean, rel=1e-9)
    for n in (1, 2, 7):
        assert pmf[n - 1] == pytest.approx(pmf_by_definition(eta, law.gamma, n), rel=1e-9)


@pytest.mark.parametrize(("eta", "mean"), LAWS)
def test_sampler_follows_the_law(eta, mean):
    law = TruncatedNegativeBinomial.with_mean(mean, eta)
    cdf = np.cumsum(law.pmf(400))
    u = np.random.default_rng(0).random(3000)
    drawn = np.array([law.quantile(v) for v in u])
    inside = drawn <= 400
    assert np.array_equal(drawn[inside], np.searchsorted(cdf, u[inside]) + 1)
    assert np.array_equal(inside, u <= cdf[-1])
    assert abs(drawn.mean() - mean) < 5 * drawn.std() / np.sqrt(len(drawn))
    assert law.quantile(0.0) == 1 and law.quantile(1 - 2**-53) < 1e5


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: TruncatedNegativeBinomial(-1.0, 0.5), "eta"),
        (lambda: TruncatedNegativeBinomial(np.inf, 0.5), "eta"),
        (lambda: TruncatedNegativeBinomial(0.0, 1.0), "gamma"),
        (lambda: TruncatedNegativeBinomial.with_mean(1.0, 0.0), "mean"),
        (lambda: search_mu(0.0, 1e-5, TruncatedNegativeBinomial(0.0, 0.1)), "epsilon"),
        (lambda: search_mu(1.0, 0.0, TruncatedNegativeBinomial(0.0, 0.1)), "delta"),
    ],
)
def test_bad_laws_and_budgets_are_named(make, named):
    with pytest.raises(ValueError, match=named):
        make()


# ---------------------------------------------------------------- the exact law of the winner on two neighbours


def generating_derivative(law, F):
    """sum_k k P[K = k] F^(k - 1), from the law's definition; `law` may be a fixed number of trials."""
    if isinstance(law, int):
        return law * F ** (law - 1)
    n = np.arange(4000)
    pmf = law.pmf(4001)
    return np.array([((n + 1) * pmf[:-1] * f**n).sum() for f in F])


def winner(law, scores, models, mu_model, grid, outputs):
    """Density of (candidate, noisy score, released model) of the best of K trials.

    Trial: one candidate of len(scores), its score plus N(0, 1), and its model plus N(0, 1).
    """
    density = norm.pdf(grid[None] - scores[:, None]) / len(scores)
    F = norm.cdf(grid[None] - scores[:, None]).mean(axis=0)
    best = generating_derivative(law, F) * density
    return best[:, :, None] * norm.pdf(outputs[None, None] - models[:, None, None])


def exact_delta(epsilon, law, move_score, move_model, n_candidates=3):
    """Largest hockey-stick divergence over neighbours whose scores and models move by at most these."""
    grid = np.linspace(-8, 9, 300)
    outputs = np.linspace(-7, 8, 121) if move_model else np.array([0.0])
    width = outputs[1] - outputs[0] if move_model else 1 / norm.pdf(0)
    cell = (grid[1] - grid[0]) * width
    scores, models, worst = np.linspace(0, 0.4, n_candidates), np.zeros(n_candidates), 0.0
    for moves in (
        np.ones(n_candidates),
        np.r_[1.0, -np.ones(n_candidates - 1)],
        np.r_[-np.ones(n_candidates - 1), 1],
    ):
        p = winner(law, scores, models, move_model, grid, outputs)
        q = winner(law, scores + move_score * moves, models + move_model, move_model, grid, outputs)
        assert p.sum() * cell == pytest.approx(1, abs=1e-3)
        worst = max(worst, *((np.maximum(a - np.exp(epsilon) * b, 0).sum() * cell) for a, b in ((p, q), (q, p))))
    return worst


TOYS = [(-0.5, 10.0, 0.3), (0.0, 2.0, 1.0), (0.0, 10.0, 0.3), (1.0, 2.0, 0.3), (1.0, 10.0, 1.0)]


@pytest.mark.parametrize(("eta", "mean", "mu"), TOYS)
def test_bound_covers_the_exact_law_of_the_winner(eta, mean, mu):
    law = TruncatedNegativeBinomial.with_mean(mean, eta)
    epsilon = search_epsilon(mu, DELTA, law)
    assert exact_delta(epsilon, law, mu, 0.0) <= DELTA
    half = mu * np.sqrt(0.5)  # model and score share the trial
    assert exact_delta(epsilon, law, half, half) <= DELTA
    # the bound is not so loose that anything would pass
    assert exact_delta(epsilon / 6, law, mu, 0.0) > DELTA


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_one_trials_cost_for_the_search_is_caught(mu):
    """Planted fault: the number of trials is fixed, and not paid for."""
    claimed = gaussian_epsilon(mu, DELTA)
    assert exact_delta(claimed, 1, mu, 0.0) == pytest.approx(DELTA, rel=0.02)  # a single trial keeps to it
    assert exact_delta(claimed, 10, mu, 0.0) > 2 * DELTA
    assert exact_delta(claimed, TruncatedNegativeBinomial.with_mean(10.0, 0.0), mu, 0.0) > 1.2 * DELTA


@pytest.mark.parametrize(("left_out", "moves"), [("score", (2.0, 0.5)), ("model", (0.5, 2.0))])
def test_noise_left_out_of_mu_is_caught(left_out, moves):
    """Planted fault: a trial is charged for its model and not for its score, or the other way round."""
    law = TruncatedNegativeBinomial.with_mean(2.0, 0.0)
    charged = min(moves)
    assert exact_delta(search_epsilon(charged, DELTA, law), law, *moves) > 2 * DELTA
    both = trial_mu(moves[1], moves[0], disjoint=False)
    assert exact_delta(search_epsilon(both, DELTA, law), law, *moves) <= DELTA


@pytest.mark.parametrize(("eta", "mean"), LAWS)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1.0, 1e-5), (3.73, 1e-6), (20.0, 1e-5)])
def test_calibrated_mu_uses_the_budget_and_never_exceeds_it(eta, mean, epsilon, delta):
    law = TruncatedNegativeBinomial.with_mean(mean, eta)
    mu = search_mu(epsilon, delta, law)
    assert search_epsilon(mu, delta, law) <= epsilon < search_epsilon(mu * (1 + 1e-6), delta, law)


@pytest.mark.parametrize(("eta", "mean"), LAWS)
@pytest.mark.parametrize("mu", [0.01, 0.5, 4.0])
def test_orders_are_the_best_ones(eta, mean, mu):
    """Brute force over both orders, the theorem written out."""
    law = TruncatedNegativeBinomial.with_mean(mean, eta)
    order = 1 + np.geomspace(1e-3, 1e5, 3000)
    hidden = np.concatenate([[1.0], 1 + np.geomspace(1e-4, 1e5, 3000)])
    second = ((1 - 1 / hidden) * hidden * mu**2 / 2 + np.log(1 / law.gamma) / hidden).min() * (1 + eta)
    renyi = order * mu**2 / 2 + second + np.log(law.mean) / (order - 1)
    converted = renyi + np.log((order - 1) / order) - (np.log(1e-6) + np.log(order)) / (order - 1)
    assert search_epsilon(mu, 1e-6, law) == pytest.approx(converted.min(), rel=1e-4)
    assert search_epsilon(mu, 1e-6, law) <= converted.min() * (1 + 1e-9)
