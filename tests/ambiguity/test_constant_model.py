"""The best constant model against a grid of constant models."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdro.ambiguity.constant_model import best_constant_model
from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall


@given(seed=st.integers(0, 10_000), radius=st.floats(0, 1), kappa=st.sampled_from([0.3, 1.0, np.inf]))
def test_no_constant_model_is_better(seed, radius, kappa):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=8, p=[0.6, 0.3, 0.1])
    shares = np.bincount(y, minlength=3)[None] / 8
    best = best_constant_model(shares, np.ones(1), np.array([radius]), np.array([kappa]))
    ball = WassersteinBall(radius, kappa, TRANSPORT_NORMS["linf"])
    risk = RobustRisk(np.ones((8, 1)), y, np.full(8, 1 / 8), 3, 0, ball)
    own = np.zeros((3, 1))
    own[best.label] = best.margin
    assert risk.value(own)[0] == pytest.approx(best.risk, abs=1.1e-3)
    for b in rng.normal(size=(200, 3)):
        assert risk.value(b[:, None])[0] >= best.risk - 1e-12
