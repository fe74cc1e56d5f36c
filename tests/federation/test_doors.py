"""Doors add exactly the planned noise and write it down."""

import numpy as np
import pytest

from skdro.federation.doors import GaussianDoor, pass_through
from skdro.privacy.ledger import Release
from skdro.privacy.mechanism import noise_grid
from skdro.privacy.noise import StreamNoise
from skdro.privacy.plan import PlannedRelease

SENSITIVITY = np.array([0.1, 0.2, 0.4, 0.8])
PLANNED = PlannedRelease("gradient", 3, 5.0, SENSITIVITY, SENSITIVITY)


@pytest.mark.parametrize("index", [[0, 1, 2, 3], [2], [1, 3]])
def test_each_client_gets_its_planned_noise_by_its_place_in_the_federation(index):
    exact = np.random.default_rng(0).uniform(-1, 1, size=(len(index), 2, 3))
    noisy, ledger = GaussianDoor(PLANNED, StreamNoise(4))(exact, (), index=np.array(index), round=2, bound=1.0)
    for k, client in enumerate(index):
        sigma = 5.0 * SENSITIVITY[client]
        expected = exact[k] + sigma * StreamNoise(4)((2, 3), clients=[client], round=2, release="gradient")[0]
        assert np.abs(noisy[k] - expected).max() <= noise_grid(sigma) / 2
    (line,) = ledger
    assert line.name == "gradient" and line.clients.tolist() == index and line.count == 1
    np.testing.assert_array_equal(line.sensitivity, SENSITIVITY[index])
    np.testing.assert_array_equal(line.sigma, 5.0 * SENSITIVITY[index])


def test_the_ledger_grows_and_the_old_one_stays_as_it_was():
    door, old = GaussianDoor(PLANNED, StreamNoise(0)), (Release("earlier", np.zeros(1, int), np.ones(1), np.ones(1)),)
    _, ledger = door(np.zeros((4, 1)), old, index=np.arange(4), round=0, bound=1.0)
    assert len(old) == 1 and ledger[:1] == old and len(ledger) == 2


def test_pass_through_adds_and_writes_nothing():
    exact, ledger = np.ones((2, 3)), ()
    out, lines = pass_through(exact, ledger, index=np.arange(2), round=0, bound=1.0)
    assert out is exact and lines is ledger


def test_the_scale_of_a_round_multiplies_sensitivity_and_noise():
    planned = PlannedRelease("gradient change", 3, 5.0, SENSITIVITY, SENSITIVITY, relative=True)
    door, exact = GaussianDoor(planned, StreamNoise(4)), np.zeros((4, 2))
    full, _ = door(exact, (), index=np.arange(4), round=0, bound=1.0)
    scaled, (line,) = door(exact, (), index=np.arange(4), round=0, bound=0.25, scale=0.25)
    np.testing.assert_array_equal(line.sensitivity, 0.25 * SENSITIVITY)
    np.testing.assert_array_equal(line.sigma, 5.0 * line.sensitivity)
    np.testing.assert_allclose(scaled, full / 4, atol=1e-5)
    assert pass_through(exact, (), index=np.arange(4), round=0, bound=1.0, scale=0.25)[0] is exact
