"""The bound of the one-run audit: its check value, its formula written out, and what it promises on a mechanism."""

import numpy as np
import pytest
from scipy.stats import binom

from skdro.privacy.one_run import one_run_epsilon, one_run_p_value


def test_check_value():
    assert one_run_epsilon(100, 100, 100) == pytest.approx(3.49297, abs=1e-5)
    # all right: q^r = alpha in closed form
    assert one_run_epsilon(100, 100, 100) == pytest.approx(-np.log(0.05**-0.01 - 1))


@pytest.mark.parametrize(("v", "r", "m"), [(0, 0, 5), (0, 5, 5), (3, 5, 9), (60, 80, 200), (80, 80, 200)])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-2])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_p_value_is_the_formula(v, r, m, delta, epsilon):
    q = 1 / (1 + np.exp(-epsilon))
    beta = binom.sf(v - 1, r, q)
    slack = max((binom.sf(v - i - 1, r, q) - beta) / i for i in range(1, m + 1))
    assert one_run_p_value(epsilon, v, r, m, delta) == pytest.approx(min(beta + 2 * m * delta * slack, 1.0))


def test_bound_refutes_up_to_itself_and_no_further():
    for v, r, m, delta in [(80, 100, 100, 0.0), (95, 100, 1000, 1e-5), (500, 700, 20_000, 1e-6)]:
        bound = one_run_epsilon(v, r, m, delta)
        assert bound > 0
        assert one_run_p_value(bound * 0.999, v, r, m, delta) < 0.05 < one_run_p_value(bound * 1.001, v, r, m, delta)
    assert one_run_epsilon(50, 100, 100) == 0 and one_run_epsilon(0, 0, 100) == 0
    assert one_run_epsilon(95, 100, 1000, 1e-3) < one_run_epsilon(95, 100, 1000, 1e-5)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_bound_is_right_for_randomised_response(epsilon):
    """Each coin is told truly with probability q: the bound exceeds epsilon in at most 5 % of all runs."""
    right = np.arange(101)
    law = binom.pmf(right, 100, 1 / (1 + np.exp(-epsilon)))
    exceeds = np.array([one_run_epsilon(v, 100, 100) > epsilon for v in right])
    assert 0.01 < law[exceeds].sum() <= 0.05


@pytest.mark.parametrize("numbers", [(3, 2, 5), (2, 6, 5), (-1, 2, 5)])
def test_impossible_numbers_are_refused(numbers):
    with pytest.raises(ValueError, match="n_right"):
        one_run_epsilon(*numbers)


def test_bad_probabilities_are_refused():
    with pytest.raises(ValueError, match="delta"):
        one_run_epsilon(1, 1, 1, delta=1.0)
    with pytest.raises(ValueError, match="confidence"):
        one_run_epsilon(1, 1, 1, confidence=1.0)
