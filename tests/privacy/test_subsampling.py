"""Poisson sampling: golden values, an independent bound, calibration, coins."""

import sys
from math import exp, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, norm

import skdro
from skdro.privacy.accounting import ACCOUNTANTS, classical_multiplier, gaussian_epsilon, gaussian_mu
from skdro.privacy.ledger import Release, check_ledger
from skdro.privacy.noise import OSNoise, StreamNoise
from skdro.privacy.plan import AGGREGATIONS, ReleaseKind
from skdro.privacy.report import privacy_report
from skdro.privacy.sampled_plan import Batches, poisson_plan
from skdro.privacy.sensitivity import ADJACENCIES
from skdro.privacy.subsampling import PoissonSampling, check_extra

REPLACE, ZERO = ADJACENCIES["replace_one"], ADJACENCIES["zero_out"]


@pytest.fixture
def extra():
    return pytest.importorskip("dp_accounting")


def plan(rate=0.2, count=30, sensitivity=(0.1, 0.3, 0.2), **changes):
    options = dict(epsilon=1.0, delta=1e-6, adjacency=REPLACE, aggregation=AGGREGATIONS["local"])
    batches = [Batches("round", PoissonSampling(rate), count, {"gradient": 1})]
    kind = ReleaseKind("gradient", count)
    return poisson_plan([kind], {"gradient": np.array(sensitivity)}, batches, **options | changes)


# ---------------------------------------------------------------- the accountant


@pytest.mark.parametrize(
    # sigma over the norm of one record is 2: over the sensitivity it is 1 if the record is replaced
    ("adjacency", "multiplier", "expected"),
    [(REPLACE, 1.0, 19.42366), (ZERO, 2.0, 8.306)],
)
def test_golden_values_of_the_full_batch(extra, adjacency, multiplier, expected):
    found = PoissonSampling(1.0).epsilon(multiplier, 10, 1e-6, adjacency)
    assert found == pytest.approx(expected, abs=6e-4)
    # and that is the closed form, seen from above
    exact = gaussian_epsilon(sqrt(10) / multiplier, 1e-6)
    assert exact <= found + 1e-4 and found == pytest.approx(exact, rel=1e-3)


def test_golden_calibration(extra):
    sampling = PoissonSampling(0.01)
    multiplier = sampling.multiplier(1.0, 1e-6, 1000, REPLACE)
    assert 2 * multiplier <= 2.6794 * 1.001  # sigma / C
    assert 0.999 < sampling.epsilon(multiplier, 1000, 1e-6, REPLACE) <= 1.0


def hockey_stick(p, q, epsilon):
    """Integral of max(0, p - e^epsilon q) on a fine grid."""
    z = np.linspace(-60, 60, 600_001)
    return np.maximum(0, p(z) - exp(epsilon) * q(z)).sum() * (z[1] - z[0])


@pytest.mark.parametrize("rate", [0.05, 0.5])
@pytest.mark.parametrize("adjacency", [REPLACE, ZERO])
def test_one_round_against_numerical_integration(extra, rate, adjacency):
    """The record's term is +1, -1 (replaced) or 0 (zeroed out) if it takes part, and 0 if not; noise N(0, s^2)."""
    s, delta = 1.2, 1e-4

    def mixture(term):
        return lambda z: rate * norm.pdf(z, term, s) + (1 - rate) * norm.pdf(z, 0, s)

    here, there = mixture(1.0), mixture(-1.0 if adjacency is REPLACE else 0.0)
    multiplier = s / adjacency.ball
    found = PoissonSampling(rate).epsilon(multiplier, 1, delta, adjacency)
    worst = max(hockey_stick(here, there, found), hockey_stick(there, here, found))
    assert worst <= delta * (1 + 1e-3)  # the claim holds
    tighter = max(hockey_stick(here, there, 0.99 * found), hockey_stick(there, here, 0.99 * found))
    assert tighter > delta  # and little is given away


@pytest.mark.parametrize("adjacency", [REPLACE, ZERO])
@pytest.mark.parametrize(
    ("rate", "count", "epsilon"), [(0.5, 4, 1.0), (0.1, 30, 0.05), (0.01, 1000, 5.0), (0.9, 2, 1.0)]
)
def test_calibration_spends_the_budget_and_never_more(extra, rate, count, epsilon, adjacency):
    sampling = PoissonSampling(rate)
    multiplier = sampling.multiplier(epsilon, 1e-6, count, adjacency)
    assert 0.999 * epsilon < sampling.epsilon(multiplier, count, 1e-6, adjacency) <= epsilon
    assert multiplier < sqrt(count) / gaussian_mu(epsilon, 1e-6)  # sampling amplifies


def test_epsilon_falls_with_the_noise_and_grows_with_rate_and_rounds(extra):
    def epsilon(rate=0.2, multiplier=2.0, count=20):
        return PoissonSampling(rate).epsilon(multiplier, count, 1e-6, REPLACE)

    assert epsilon(multiplier=2.2) < epsilon() < epsilon(multiplier=1.8)
    assert epsilon(rate=0.18) < epsilon() < epsilon(rate=0.22)
    assert epsilon(count=18) < epsilon() < epsilon(count=22)


def test_a_large_budget_costs_a_coarser_grid_only(extra):
    multiplier = PoissonSampling(0.05).multiplier(500.0, 1e-6, 5, REPLACE)
    assert 499 < PoissonSampling(0.05).epsilon(multiplier, 5, 1e-6, REPLACE) <= 500.0


@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"epsilon": np.nan}, {"delta": 1.0}, {"delta": 0.0}])
def test_bad_budgets(extra, bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        plan(**bad)


def test_without_the_extra_the_message_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    for call in (check_extra, plan):
        with pytest.raises(ImportError, match=r"pip install .skdro\[subsampling\]"):
            call()


# ---------------------------------------------------------------- plan, ledger, report


def carried_out(plan, count):
    planned = plan.releases["gradient"]
    return [Release("gradient", np.arange(len(planned.drawn)), planned.drawn, planned.sigma, count)]


@pytest.mark.parametrize("aggregation", sorted(AGGREGATIONS))
def test_plan_and_report_agree(extra, aggregation):
    made = plan(
        aggregation=AGGREGATIONS[aggregation], sensitivity=[0.1, 0.3, 0.0 if aggregation == "trusted" else 0.2]
    )
    assert 0.999 < made.epsilon <= 1.0 and made.mu is None
    check_ledger(made, carried_out(made, 30))
    with pytest.raises(RuntimeError):
        check_ledger(made, carried_out(made, 29))
    report = privacy_report(made, clients=["a", "b", "c"], noise=OSNoise(), public=[])
    assert report.rederive_epsilon() == report.epsilon == made.epsilon
    epsilons = [each.epsilon for each in report.per_client.values()]
    np.testing.assert_array_equal(epsilons, made.client_epsilons)
    assert max(epsilons) == report.epsilon
    if aggregation == "trusted":
        assert epsilons[2] == 0.0 < epsilons[0] < epsilons[1]


def test_the_papers_pair_of_a_round_fixes_the_noise(extra):
    made = plan(budget="per_round", epsilon=0.5)
    assert made.releases["gradient"].multiplier == classical_multiplier(0.5, 1e-6)
    full = ACCOUNTANTS["gdp"].epsilon(sqrt(30) / classical_multiplier(0.5, 1e-6), 1e-6)
    assert 0.1 < made.epsilon < full / 2


# ---------------------------------------------------------------- the coins


@pytest.mark.parametrize("noise", [OSNoise(), StreamNoise(3)], ids=["os", "seeded"])
@pytest.mark.parametrize("rate", [0.003, 0.3, 0.95])
def test_each_record_takes_part_with_the_stated_probability(noise, rate):
    sampling, sizes = PoissonSampling(rate), np.array([70_000, 30_000])
    taken = sampling.mask(noise, sizes, clients=[0, 1], round=0)
    low, high = binom.ppf([1e-7, 1 - 1e-7], 100_000, rate)
    assert taken.shape == (100_000,) and low <= taken.sum() <= high


def test_coins_are_fresh_in_every_round_and_client_and_independent_of_blocks():
    sampling, noise, sizes = PoissonSampling(0.5), StreamNoise(0), np.array([50, 50])
    both = sampling.mask(noise, sizes, clients=[0, 1], round=0)
    assert not np.array_equal(both[:50], both[50:])
    assert not np.array_equal(both, sampling.mask(noise, sizes, clients=[0, 1], round=1))
    np.testing.assert_array_equal(both[50:], sampling.mask(noise, [50], clients=[1], round=0))
    # padding at the end of a client changes no coin
    np.testing.assert_array_equal(both[:50], sampling.mask(noise, [80], clients=[0], round=0)[:50])
    # the noise of the round tells nothing of its coins
    gradient = noise((50,), clients=[0], round=0, release="gradient")[0] <= 0
    assert not np.array_equal(gradient, both[:50])


def test_coins_without_a_seed_come_from_the_operating_system(monkeypatch):
    asked = []

    def urandom(n):
        asked.append(n)
        return bytes(n)

    monkeypatch.setattr("skdro.privacy.noise.os.urandom", urandom)
    PoissonSampling(0.5).mask(OSNoise(), [3, 5], clients=[0, 1], round=0)
    assert sum(asked) == 64


def test_only_the_adapter_calls_the_accountant():
    sources = Path(skdro.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "import dp_accounting" in path.read_text()] == ["subsampling.py"]
