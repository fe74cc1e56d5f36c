import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from skdro.privacy.audit_statistics import noise_scale_bounds
from skdro.privacy.noise import OSNoise, StreamNoise, noise_source

KEY = {"clients": [0, 1, 2], "round": 0, "release": "gradient"}


def with_bytes(monkeypatch, words):
    """Let the operating system hand out these 64-bit words."""
    monkeypatch.setattr(os, "urandom", lambda n: np.array(words, dtype=np.uint64).tobytes())


def test_os_noise_is_standard_normal():
    draws = OSNoise()((4, 2500), clients=[0], round=0, release="gradient").ravel()
    low, high = noise_scale_bounds(draws.size)
    assert low < np.sqrt(np.mean(draws**2)) < high
    assert kstest(draws, "norm").pvalue > 1e-6


def test_os_noise_uses_magnitude_and_sign_bits(monkeypatch):
    words = [(2**53 // 4 - 1) << 11, ((2**53 // 4 - 1) << 11) + 1]
    with_bytes(monkeypatch, words)
    draws = OSNoise()((2,), clients=[0], round=0, release="gradient")[0]
    np.testing.assert_allclose(draws, [norm.isf(1 / 8), norm.ppf(1 / 8)], rtol=1e-14)


def test_os_noise_is_finite_for_extreme_bytes(monkeypatch):
    with_bytes(monkeypatch, [0, 2**64 - 1, 1, 2**64 - 2])
    draws = OSNoise()((4,), clients=[0], round=0, release="gradient")[0]
    np.testing.assert_allclose(draws, [norm.isf(2.0**-54), 0.0, norm.ppf(2.0**-54), 0.0], atol=1e-15)


@pytest.mark.parametrize("noise", [OSNoise(), StreamNoise(0)])
def test_global_random_state_is_neither_used_nor_changed(noise):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    noise((3,), **KEY)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_seeding_numpy_does_not_repeat_os_noise():
    draws = []
    state = np.random.get_state()  # noqa: NPY002
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        draws.append(OSNoise()((3,), **KEY))
    np.random.set_state(state)  # noqa: NPY002
    assert not np.isclose(draws[0], draws[1]).any()


@settings(deadline=None)
@given(
    order=st.permutations(range(6)),
    cut=st.integers(0, 6),
    round=st.integers(0, 10**6),
    release=st.text(min_size=1, max_size=20),
)
def test_streams_do_not_depend_on_blocks_or_order(order, cut, round, release):
    noise = StreamNoise(7)
    whole = noise((2, 3), clients=range(6), round=round, release=release)
    blocks = [noise((2, 3), clients=part, round=round, release=release) for part in (order[:cut], order[cut:])]
    np.testing.assert_array_equal(np.concatenate(blocks), whole[order])


def test_streams_differ_in_every_part_of_the_key():
    keys = [(client, round, name) for client in (0, 1) for round in (0, 1) for name in ("a", "b", "ab", "ba")]
    draws = [
        StreamNoise(seed)((), clients=[client], round=round, release=name)[0]
        for seed in (0, 1)
        for client, round, name in keys
    ]
    assert len(set(draws)) == 2 * len(keys)


def test_streams_are_standard_normal_across_clients_and_rounds():
    noise = StreamNoise(0)
    draws = np.stack([noise((2,), clients=range(50), round=t, release="gradient") for t in range(100)])
    low, high = noise_scale_bounds(draws.size)
    assert low < np.sqrt(np.mean(draws**2)) < high
    for neighbours in (draws[:, 1:] * draws[:, :-1], draws[1:] * draws[:-1]):
        assert abs(neighbours.mean()) < 5 / np.sqrt(neighbours.size)


@pytest.mark.parametrize("noise", [StreamNoise(3), StreamNoise(np.random.default_rng(3))])
def test_stream_survives_pickling(noise):
    copy = pickle.loads(pickle.dumps(noise))
    np.testing.assert_array_equal(copy((3,), **KEY), noise((3,), **KEY))


def test_generator_gives_a_reproducible_seed_and_advances():
    rng = np.random.default_rng(0)
    first, second = StreamNoise(rng), StreamNoise(rng)
    assert first == StreamNoise(np.random.default_rng(0)) and first != second


@pytest.mark.parametrize("bad", [-1, 1.5, "0", True, np.random.mtrand._rand, [1]])
def test_other_random_states_are_refused(bad):
    with pytest.raises(ValueError, match="random_state"):
        noise_source(bad)


def test_noise_source():
    assert noise_source(None) == OSNoise()
    assert noise_source(np.int64(4)) == StreamNoise(4)
