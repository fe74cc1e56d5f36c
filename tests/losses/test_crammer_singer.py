"""The Crammer-Singer loss against its definition, written out record by record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skdro.losses.crammer_singer import GRADIENT_NORM, gradient_sum, margin_violations

finite = st.floats(-5, 5)


def by_definition(scores, y):
    return max(s + 1.0 - (k == y) for k, s in enumerate(scores)) - scores[y]


@st.composite
def scored_records(draw):
    n, n_classes = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    scores = draw(arrays(float, (n, n_classes), elements=finite))
    y = draw(arrays(int, n, elements=st.integers(0, n_classes - 1)))
    return scores, y


@given(scored_records())
def test_loss_is_the_definition(case):
    scores, y = case
    loss, rival = margin_violations(scores, y)
    np.testing.assert_allclose(
        loss, [by_definition(s, label) for s, label in zip(scores, y, strict=True)], atol=1e-12
    )
    assert np.array_equal(rival == y, loss == 0.0)


@given(scored_records())
def test_rival_attains_the_loss(case):
    scores, y = case
    loss, rival = margin_violations(scores, y)
    rows = np.arange(len(y))
    attained = scores[rows, rival] - scores[rows, y] + (rival != y)
    np.testing.assert_allclose(attained, loss, atol=1e-12)


def test_gradient_matches_finite_differences():
    rng = np.random.default_rng(0)
    X, y, weight, M = rng.normal(size=(7, 3)), rng.integers(0, 4, 7), rng.random(7), rng.normal(size=(4, 3))

    def risk(M):
        return weight @ margin_violations(X @ M.T, y)[0]

    G = gradient_sum(X, y, margin_violations(X @ M.T, y)[1], weight, 4)
    step = 1e-6
    for k in range(4):
        for p in range(3):
            E = np.zeros_like(M)
            E[k, p] = step
            assert (risk(M + E) - risk(M - E)) / (2 * step) == pytest.approx(G[k, p], abs=1e-8)


def test_gradient_norm_of_a_record_is_root_two_times_its_norm():
    x = np.array([[3.0, 4.0]])
    G = gradient_sum(x, np.array([0]), np.array([1]), np.ones(1), 3)
    assert np.linalg.norm(G) == pytest.approx(GRADIENT_NORM * 5.0)


def test_ties_go_to_the_own_label_then_to_the_lowest_index():
    loss, rival = margin_violations(np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), np.array([0, 1]))
    assert loss.tolist() == [0.0, 1.0]
    assert rival.tolist() == [0, 0]
