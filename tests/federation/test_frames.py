"""Coordinates: rows enter them as the formula says, and a model found in them predicts the same outside."""

import numpy as np
import pytest

from skdro.federation.frames import ROWS_AT_ONCE, ClippedFrame, client_moments, response_frame_of_moments


@pytest.mark.parametrize("constant", [True, False])
def test_a_regression_model_leaves_its_frame_unchanged(constant):
    rng = np.random.default_rng(0)
    X, y = 50 * rng.normal(size=(20, 3)) + 7, 1e-3 * rng.normal(size=20) + 2
    index, alpha = np.arange(20) % 2, np.array([0.3, 0.7])
    rows, responses = (client_moments(values, index, np.ones(20), 2) for values in (X, y[:, None]))
    frame = response_frame_of_moments(rows, responses, alpha, constant)
    model = rng.normal(size=(1, 3 + constant))
    coef, intercept = frame.leave(model)
    inside = frame.enter(X) @ model[0] * frame.scale + frame.centre
    np.testing.assert_allclose(X @ coef[0] + intercept[0], inside, rtol=1e-12)
    assert constant or intercept[0] == 0.0
    share = alpha[index] / 10
    assert share @ frame.enter_response(y) ** 2 == pytest.approx(1.0)
    assert frame.label == pytest.approx(float(frame.affine.scale) / frame.scale)


@pytest.mark.parametrize("n_rows", [0, 1, 31, 64, ROWS_AT_ONCE - 1, 2 * ROWS_AT_ONCE + 37])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_boxed_mapped_and_clipped_whatever_their_number(n_rows, constant, order):
    rng = np.random.default_rng(n_rows)
    lo, hi = np.array([-1.0, 5.0, 0.0]), np.array([1.0, 6.0, 1e6])
    X = np.asarray(lo + (hi - lo) * rng.uniform(-0.5, 1.5, size=(n_rows, 3)), order=order)
    before = X.copy()
    Z = ClippedFrame.of_box(lo, hi, constant, 1.2).enter(X)
    np.testing.assert_array_equal(X, before)
    wide_lo, wide_hi = np.longdouble(lo), np.longdouble(hi)
    rows = np.hstack([(np.clip(X, lo, hi) - wide_lo) / (wide_hi - wide_lo) * 2 - 1, np.ones((n_rows, int(constant)))])
    expected = rows * np.minimum(1, 1.2 / np.sqrt((rows**2).sum(axis=1, keepdims=True)))
    np.testing.assert_allclose(Z, expected, rtol=1e-9, atol=1e-15)
    assert np.sqrt((Z**2).sum(axis=1)).max(initial=0.0) <= 1.2 * (1 + 1e-15)


def test_a_feature_that_overflows_the_map_ends_at_the_edge_of_its_box():
    frame = ClippedFrame.of_box(np.array([-1.7e308, 0.0]), np.array([-1.6e308, 1e-300]), False, 10.0)
    np.testing.assert_array_equal(
        frame.enter(np.array([[1.7e308, 1.0], [-1.8e308 / 1.01, -1e308]])), [[1, 1], [-1, -1]]
    )


def test_a_record_changes_no_bit_of_another():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    frame = ClippedFrame.as_given(4, True, 1.0)
    alone = frame.enter(X)
    for value in (1e200, 1e308, 5e-324, 0.0):
        X[40] = value
        np.testing.assert_array_equal(np.delete(frame.enter(X), 40, axis=0), np.delete(alone, 40, axis=0))
