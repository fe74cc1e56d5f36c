"""Coordinates of a regression: a model found in them predicts the same in the user's units."""

import numpy as np
import pytest

from skdro.federation.frames import client_moments, response_frame_of_moments


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
