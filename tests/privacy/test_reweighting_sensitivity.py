"""Sums that a reweighted descent releases: no record moves them further than the table says, and some reach it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdro.privacy.reweighting_sensitivity import capped_sum, clipped_sum, entropy_sum, mixed_sum
from skdro.privacy.sensitivity import ADJACENCIES

EACH_ADJACENCY = pytest.mark.parametrize("adjacency", ADJACENCIES.values(), ids=ADJACENCIES)
CAPS = [1.05, 1.3, np.e, 10.0]
CLIP, CHANGE, BETA = 1.7, 0.04, 0.3


def clip(vector, bound):
    norm = np.sqrt(sum(value * value for value in vector))
    return vector if norm <= bound else [value * bound / norm for value in vector]


def weight(raw, cap):
    return [min(max(raw[0], 0.0), cap)]


def entropy(raw, cap):
    a = min(raw[0], np.log(cap))
    return [a * np.exp(a)]


def vector(raw, cap):
    return clip(raw[:3], CLIP)


def change_of_vectors(raw, cap):
    return clip(np.subtract(clip(raw[:3], CLIP), clip(raw[3:6], CLIP)), CHANGE)


def change_of_weights(raw, cap):
    return clip(np.subtract(weight(raw, cap), weight(raw[1:], cap)), CHANGE)


def mixed_vectors(raw, cap):
    return BETA * np.array(vector(raw, cap)) + (1 - BETA) * np.array(change_of_vectors(raw, cap))


def mixed_weights(raw, cap):
    return BETA * np.array(weight(raw, cap)) + (1 - BETA) * np.array(change_of_weights(raw, cap))


def _mixed(of_terms, adjacency):
    return mixed_sum(BETA, of_terms, 1 - BETA, clipped_sum(CHANGE, adjacency))


ROWS = {
    "weights": (weight, lambda cap, adjacency: capped_sum(cap, adjacency)),
    "entropies": (entropy, lambda cap, adjacency: entropy_sum(cap, adjacency)),
    "vectors": (vector, lambda cap, adjacency: clipped_sum(CLIP, adjacency)),
    "changes of vectors": (change_of_vectors, lambda cap, adjacency: clipped_sum(CHANGE, adjacency)),
    "changes of weights": (change_of_weights, lambda cap, adjacency: clipped_sum(CHANGE, adjacency)),
    "mixed vectors": (mixed_vectors, lambda cap, adjacency: _mixed(clipped_sum(CLIP, adjacency), adjacency)),
    "mixed weights": (mixed_weights, lambda cap, adjacency: _mixed(capped_sum(cap, adjacency), adjacency)),
}


def moved(term, cap, one, other, adjacency):
    """How far the sum moves: the record is replaced by the other, or its term left out."""
    here = np.array(term(one, cap))
    return np.linalg.norm(here - (term(other, cap) if adjacency.name == "replace_one" else 0.0))


raws = st.lists(st.floats(-1e3, 1e3) | st.floats(-3, 3), min_size=6, max_size=6)


@EACH_ADJACENCY
@pytest.mark.parametrize("row", ROWS)
@given(one=raws, other=raws, cap=st.sampled_from(CAPS))
def test_no_record_moves_a_sum_further(row, adjacency, one, other, cap):
    term, bound = ROWS[row]
    assert moved(term, cap, one, other, adjacency) <= bound(cap, adjacency) * (1 + 1e-12)


@EACH_ADJACENCY
@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("row", ROWS)
def test_some_record_moves_a_sum_as_far(row, cap, adjacency):
    term, bound = ROWS[row]
    rng, best = np.random.default_rng(0), 0.0
    extremes = [np.array([100.0, 0, 0, -100.0, 0, 0]), np.array([-100.0, 100.0, 0, 100.0, 0, 0]), -np.ones(6)]
    extremes += [np.array([100.0, -100.0, 0, 0, 0, 0]), np.array([100.0, 0, 0, 99.0, 0, 0])]
    for raw in extremes:
        for other in [*extremes, -raw, *rng.normal(scale=5.0, size=(20, 6))]:
            best = max(best, moved(term, cap, raw, other, adjacency))
    assert 0.9 * bound(cap, adjacency) <= best <= bound(cap, adjacency) * (1 + 1e-12)


def test_golden_values_of_the_table():
    replace, zero = ADJACENCIES["replace_one"], ADJACENCIES["zero_out"]
    assert capped_sum(10.0, replace) == capped_sum(10.0, zero) == 10.0
    assert clipped_sum(2.0, replace) == 4.0 and clipped_sum(2.0, zero) == 2.0
    assert entropy_sum(10.0, zero) == pytest.approx(10 * np.log(10), rel=1e-15)
    assert entropy_sum(10.0, replace) == pytest.approx(10 * np.log(10) + np.exp(-1), rel=1e-15)
    assert entropy_sum(1.05, zero) == pytest.approx(np.exp(-1), rel=1e-15)
    assert entropy_sum(1.05, replace) == pytest.approx(1.05 * np.log(1.05) + np.exp(-1), rel=1e-15)
    # STORM under replace_one: 2 (beta C + (1 - beta) ct)
    assert mixed_sum(0.6, clipped_sum(1.0, replace), 0.4, clipped_sum(0.1, replace)) == pytest.approx(1.28)
