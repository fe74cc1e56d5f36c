"""What attacks may reach: curves and areas against the best test of the mechanism that attains the guarantee."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from skdro import DPFedDROClassifier
from skdro.privacy.limits import (
    auc_of_one_target,
    auc_of_pooled_records,
    claim,
    largest_true_positive_rate,
    replace_one_claim,
)

RATES = np.linspace(0, 1, 100_001)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_gaussian_curve_is_that_of_the_likelihood_ratio_test(mu):
    for threshold in (-1.0, 0.3, 2.0):
        false, true = norm.sf(threshold), norm.sf(threshold - mu)
        assert largest_true_positive_rate(false, 1.0, 1e-5, mu) == pytest.approx(true)
    area = np.trapezoid(largest_true_positive_rate(RATES, 1e3, 0.0, mu), RATES)
    assert auc_of_one_target(1e3, 0.0, mu) == pytest.approx(area, abs=1e-5)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-5), (1.0, 0.1), (4.0, 0.01)])
def test_pair_curve_is_the_two_lines_and_has_its_area(epsilon, delta):
    curve = largest_true_positive_rate(RATES, epsilon, delta, None)
    lines = [delta + np.exp(epsilon) * RATES, 1 - np.exp(-epsilon) * (1 - delta - RATES), np.ones_like(RATES)]
    np.testing.assert_allclose(curve, np.min(lines, axis=0), atol=1e-12)
    assert auc_of_one_target(epsilon, delta, None) == pytest.approx(np.trapezoid(curve, RATES), abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_pooled_area_is_attained_by_randomised_response_on_a_pair(epsilon):
    """Of two records one is a member, and the release names it with probability e^eps / (1 + e^eps)."""
    q = np.exp(epsilon) / (1 + np.exp(epsilon))
    assert auc_of_pooled_records(epsilon, 0.0, None) == pytest.approx(q)


def test_pooled_area_is_attained_by_a_gaussian_on_a_pair():
    """Release of +-mu/2 + N(0, 1): the pair is ordered rightly with probability Phi(mu / 2)."""
    rng = np.random.default_rng(0)
    mu = 1.3
    assert auc_of_pooled_records(9.0, 1e-5, mu) == pytest.approx(
        np.mean(mu / 2 + rng.normal(size=200_000) > 0), abs=5e-3
    )


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_a_replaced_record_is_two_steps_under_zero_out(adjacency):
    model = DPFedDROClassifier(epsilon=1.0, classes=[0, 1], adjacency=adjacency)
    plan = model.privacy_plan(np.zeros((50, 2)))
    epsilon, delta, mu = claim(plan)
    assert epsilon == pytest.approx(1.0) and delta == 1e-5 and mu == plan.mu
    steps = {"replace_one": 1, "zero_out": 2}[adjacency]
    assert replace_one_claim(plan)[2] == steps * mu
    sampled = replace(plan, events=tuple(replace(event, q=0.5) for event in plan.events))
    epsilon, delta, mu = replace_one_claim(sampled)
    assert mu is None and epsilon == pytest.approx(steps * 1.0)
    assert delta == pytest.approx(1e-5 * (1 if steps == 1 else 1 + np.exp(claim(plan)[0])))
