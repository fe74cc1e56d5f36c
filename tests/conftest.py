"""Data that several test modules share."""

import numpy as np
import pytest
from hypothesis import settings

# examples are the same in every run, and a slow machine is no failure
settings.register_profile("skdro", deadline=None, derandomize=True)
settings.load_profile("skdro")


@pytest.fixture
def federation():
    """Three noisy classes at four uneven clients: X (90, 3), y, groups."""
    rng = np.random.default_rng(7)
    centres = np.array([[0.0, 0.0, 0.0], [2.5, 0.0, 0.0], [0.0, 2.5, 1.0]])
    y = rng.integers(0, 3, 90)
    X = centres[y] + rng.normal(size=(90, 3))
    y = np.where(rng.random(90) < 0.1, rng.integers(0, 3, 90), y)
    groups = rng.choice(["a", "b", "c", "d"], size=90, p=[0.4, 0.3, 0.2, 0.1])
    return X, y, groups
