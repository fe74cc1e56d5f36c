"""Softmax loss against scikit-learn's log loss and finite differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import log_loss

from skdro.losses import softmax

scores = arrays(float, (3, 4), elements=st.floats(-20, 20))
labels = arrays(int, 3, elements=st.integers(0, 3))


def test_value_is_the_log_loss():
    rng = np.random.default_rng(0)
    s, y = rng.normal(size=(50, 3)), rng.integers(0, 3, 50)
    p = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
    assert softmax.losses(s, y).mean() == pytest.approx(log_loss(y, p, labels=[0, 1, 2]))


@given(s=scores, y=labels)
def test_gradient_is_the_slope_of_the_loss(s, y):
    gradient = softmax.score_gradient(s, y)
    for k in range(4):
        step = 1e-5 * np.eye(4)[k]
        slope = (softmax.losses(s + step, y) - softmax.losses(s - step, y)) / 2e-5
        np.testing.assert_allclose(gradient[:, k], slope, atol=1e-6)


@given(s=scores)
def test_curvature_is_at_most_the_smoothness(s):
    for row in s:
        p = np.exp(row - row.max())
        p /= p.sum()
        assert np.linalg.eigvalsh(np.diag(p) - np.outer(p, p)).max() <= softmax.SMOOTHNESS + 1e-12


def test_smoothness_is_attained():
    p = np.array([0.5, 0.5])
    assert np.linalg.eigvalsh(np.diag(p) - np.outer(p, p)).max() == pytest.approx(softmax.SMOOTHNESS)


def test_large_scores_do_not_overflow():
    assert softmax.losses(np.array([[1e4, 0.0]]), np.array([1]))[0] == 1e4
