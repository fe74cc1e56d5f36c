"""Padding that makes clients equally long changes no product over a client's rows."""

import numpy as np
import pytest

from skdro.federation.client_data import prepare, stacked
from skdro.federation.frames import AffineFrame


def block_of(sizes, seed=0):
    rng = np.random.default_rng(seed)
    index = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X, y = rng.normal(size=(len(index), 3)), rng.integers(0, 4, len(index))
    return prepare(X, y, index, np.arange(len(sizes)), AffineFrame(np.zeros(3), 1.0, True))


@pytest.mark.parametrize("sizes", [[5, 5, 5], [7, 4, 1, 6], [3]])
def test_products_are_those_of_the_clients_rows(sizes):
    block, rng = block_of(sizes), np.random.default_rng(1)
    even = stacked(block)
    assert len(set(even.sizes.tolist())) == 1
    models = rng.normal(size=(len(sizes), 4, 4))
    for g in range(len(sizes)):
        np.testing.assert_allclose(
            even.scores(models)[even.rows(g)][: sizes[g]], block.X[block.rows(g)] @ models[g].T, atol=1e-14
        )
    # a sum over rows of weight zero adds nothing
    sums = even.sums(np.repeat(even.weight[:, None], 4, axis=1))
    for g in range(len(sizes)):
        rows = block.rows(g)
        expected = np.repeat(block.weight[rows], 4).reshape(-1, 4).T @ block.X[rows]
        np.testing.assert_allclose(sums[g], expected, atol=1e-14)
        np.testing.assert_allclose(block.sums(np.repeat(block.weight[:, None], 4, axis=1))[g], expected, atol=1e-14)


def test_weights_still_sum_to_one_within_a_client():
    even = stacked(block_of([7, 4, 1, 6]))
    np.testing.assert_allclose(np.add.reduceat(even.weight, even.offsets[:-1]), 1.0)


def test_very_uneven_clients_are_left_as_they_are():
    block = block_of([100, 1, 1, 1])
    assert stacked(block) is block
