"""Private gradient descent against loops over clients and records, and against finite differences."""

from itertools import combinations

import numpy as np
import pytest

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.federation.batches import FullBatch
from skdro.federation.client_data import prepare
from skdro.federation.doors import GaussianDoor, pass_through
from skdro.federation.frames import ClippedFrame
from skdro.federation.in_process import run
from skdro.federation.steps.gradient import GradientDescent
from skdro.federation.steps.objectives import WorstCaseRisk
from skdro.privacy.noise import StreamNoise
from skdro.privacy.plan import PlannedRelease

K, P = 4, 3
SIZES = [1, 5, 12, 7]
N_COLUMNS = P + 1
RADIUS = np.array([0.1, 0.0, 0.3, 0.05])
KAPPA = np.array([0.7, np.inf, 0.4, 1.5])
ALPHA = np.array([0.1, 0.4, 0.3, 0.2])
DATA_NORM = 1.5
DUAL = {"linf": 1, "l2": 2, "l1": np.inf}


def federation(seed=0):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(SIZES)), SIZES)
    order = rng.permutation(len(groups))
    X, y, index = rng.normal(size=(len(groups), P)), rng.integers(0, K, len(groups)), groups[order]
    block = prepare(X, y, index, np.arange(len(SIZES)), ClippedFrame.as_given(P, True, DATA_NORM))
    block.settings.update(radius=RADIUS, kappa=KAPPA)
    return block, X, y, index


def descent(norm="linf", at_client=pass_through, at_server=pass_through):
    risk = WorstCaseRisk(TRANSPORT_NORMS[norm], K, P, float(ALPHA @ RADIUS), DATA_NORM)
    return GradientDescent(risk, K, ALPHA, 0.8, DATA_NORM, at_client, at_server, FullBatch())


def at(M, norm="linf"):
    """A broadcast of this model."""
    return {"model": M, "round": 0, "spread": spread(M, norm)}


# ---------------------------------------------------------------- the oracle: loops, no code under test


def clipped(x, data_norm=DATA_NORM):
    z = np.append(x, 1.0)
    return z * min(1.0, data_norm / np.sqrt(sum(v * v for v in z)))


def loss(M, z, y):
    return max(M[k] @ z + (k != y) for k in range(K)) - M[y] @ z


def rival(M, z, y):
    """Own label where the loss is zero, otherwise the first of the other classes that attains it."""
    if loss(M, z, y) <= 0:
        return y
    return max((k for k in range(K) if k != y), key=lambda k: (M[k] @ z, -k))


def spread(M, norm):
    pairs = combinations(range(K), 2)
    return max(np.linalg.norm(M[i, :P] - M[j, :P], ord=DUAL[norm]) for i, j in pairs)


def worst(M, z, y, price):
    """Value of the record's worst case at a price of a flip, and the label that attains it."""
    other = max((k for k in range(K) if k != y), key=lambda k: loss(M, z, k))
    if np.isfinite(price) and loss(M, z, other) - price > loss(M, z, y) + 1e-13:
        return loss(M, z, other) - price, other
    return loss(M, z, y), y


def mean_gradient(M, Z, y, price):
    G = np.zeros((K, N_COLUMNS))
    for z, label in zip(Z, y, strict=True):
        _, label = worst(M, z, label, price)
        G[rival(M, z, label)] += z / len(Z)
        G[label] -= z / len(Z)
    return G


def spread_slope(M, norm):
    """(e_i - e_j) v^T of the widest pair; zero at zero."""
    C = np.zeros((K, N_COLUMNS))
    pairs = list(combinations(range(K), 2))
    i, j = max(pairs, key=lambda pair: np.linalg.norm(M[pair[0], :P] - M[pair[1], :P], ord=DUAL[norm]))
    d = M[i, :P] - M[j, :P]
    if not d.any():
        return C
    v = {
        "linf": np.sign(d),
        "l2": d / np.linalg.norm(d),
        "l1": np.where(np.arange(P) == np.abs(d).argmax(), np.sign(d), 0.0),
    }[norm]
    C[i, :P], C[j, :P] = v, -v
    return C


def price(kappa, phi):
    return kappa * phi if np.isfinite(kappa) else np.inf


# ---------------------------------------------------------------- tests


@pytest.mark.parametrize("norm", sorted(DUAL))
def test_client_gradients_are_the_loops(norm):
    block, X, y, index = federation()
    rng = np.random.default_rng(1)
    for scale in (0.3, 1.0, 4.0):
        M = scale * rng.normal(size=(K, N_COLUMNS))
        replies, _ = descent(norm).client_step((), block, at(M, norm))
        for g, reply in enumerate(replies):
            Z = [clipped(x) for x in X[index == g]]
            expected = mean_gradient(M, Z, y[index == g], price(KAPPA[g], spread(M, norm)))
            np.testing.assert_allclose(reply["gradient"], expected, atol=1e-13)


def test_flipped_labels_do_take_part():
    block = federation()[0]
    M = np.random.default_rng(2).normal(size=(K, N_COLUMNS))
    with_flips = descent().client_step((), block, at(M))[0]
    block.settings["kappa"] = np.full(len(SIZES), np.inf)
    without = descent().client_step((), block, at(M))[0]
    changed = [not np.array_equal(a["gradient"], b["gradient"]) for a, b in zip(with_flips, without, strict=True)]
    assert changed[2] and not changed[1]


def test_no_record_gains_more_by_a_flip_than_the_public_bound():
    block, reached = federation()[0], []
    block.settings["kappa"] = np.full(len(SIZES), 1e3)
    risk, rng = descent().objective, np.random.default_rng(4)
    for scale in 10.0 ** rng.uniform(-1, 2, size=40):
        M = scale * rng.normal(size=(K, N_COLUMNS))
        rows = list(zip(block.X, block.y, strict=True))
        gains = [max(loss(M, z, k) for k in range(K)) - loss(M, z, y) for z, y in rows]
        reached.append(max(gains) / risk.largest_gain(M))
        # such a price is above the bound: nobody looks for a flip, and the rivals are those of the own labels
        label, rivals = risk.worst(block.X @ M.T, block, at(M))
        assert label is block.y and rivals.tolist() == [rival(M, z, y) for z, y in rows]
    assert 0.6 < max(reached) <= 1


def test_client_gradient_is_the_slope_of_the_data_term_at_fixed_lam():
    block, X, y, index = federation()
    M = np.random.default_rng(3).normal(size=(K, N_COLUMNS))
    lam, h = spread(M, "linf"), 1e-6
    replies, _ = descent().client_step((), block, at(M))
    for g in range(len(SIZES)):
        Z = [clipped(x) for x in X[index == g]]

        def mean_worst(M, Z=Z, g=g):
            cost = price(KAPPA[g], lam)
            return np.mean([worst(M, z, label, cost)[0] for z, label in zip(Z, y[index == g], strict=True)])

        slope = np.zeros((K, N_COLUMNS))
        for k, q in np.ndindex(slope.shape):
            step = np.zeros_like(M)
            step[k, q] = h
            slope[k, q] = (mean_worst(M + step) - mean_worst(M - step)) / (2 * h)
        np.testing.assert_allclose(replies[g]["gradient"], slope, atol=1e-8)


def known_noise(T, n_draws, scale):
    table = scale * np.random.default_rng(5).normal(size=(T, n_draws, K, N_COLUMNS))

    def door(exact, ledger, *, index, round, bound):
        return exact + table[round, index], ledger

    return table, door


@pytest.mark.parametrize("norm", sorted(DUAL))
@pytest.mark.parametrize("where", ["nowhere", "client", "server"])
def test_rounds_are_the_published_recursion(norm, where):
    T, (block, X, y, index) = 6, federation()
    at_clients, client_door = known_noise(T, len(SIZES), 0.2 * (where == "client"))
    at_server, server_door = known_noise(T, 1, 0.2 * (where == "server"))
    result = run(descent(norm, client_door, server_door), block, (K, N_COLUMNS), T)
    M = np.zeros((K, N_COLUMNS))
    for t in range(T):
        phi, total = spread(M, norm), at_server[t, 0].copy()
        for g in range(len(SIZES)):
            Z = [clipped(x) for x in X[index == g]]
            total += ALPHA[g] * (mean_gradient(M, Z, y[index == g], price(KAPPA[g], phi)) + at_clients[t, g])
        total += sum(ALPHA * RADIUS) * spread_slope(M, norm)
        M = M - 0.8 / np.sqrt(t + 1) * total
        assert result.history["model_norm"][t] == pytest.approx(np.sqrt((M**2).sum()), abs=1e-11)
        assert result.history["spread"][t] == pytest.approx(spread(M, norm), abs=1e-11)
    np.testing.assert_allclose(result.server.model, M, atol=1e-11)
    assert result.server.round == T


@pytest.mark.parametrize("where", ["client", "server"])
def test_blocks_of_any_size_agree(where):
    block = federation()[0]
    sensitivity = np.array([0.3, 0.1, 0.05, 0.1])
    drawn = sensitivity if where == "client" else sensitivity.max(keepdims=True)
    door = GaussianDoor(PlannedRelease("gradient", 8, 2.0, sensitivity, drawn), StreamNoise(3))
    doors = (door, pass_through) if where == "client" else (pass_through, door)
    models = [
        run(descent("linf", *doors), block, (K, N_COLUMNS), 8, clients_per_task=size).server.model
        for size in (1, 2, 3, None)
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model, models[0], atol=1e-12)
    assert np.abs(models[0]).max() > 0.1


def test_the_bound_given_to_the_door_holds():
    block, seen = federation()[0], []

    def door(exact, ledger, *, index, round, bound):
        seen.append(np.abs(exact).max() / bound)
        return exact, ledger

    rng = np.random.default_rng(0)
    for scale in (0.0, 1.0, 1e6):
        descent(at_client=door).client_step((), block, at(scale * rng.normal(size=(K, N_COLUMNS))))
    assert 0.1 < max(seen) <= 1


def test_the_ledger_lists_the_releases_of_both_ends():
    algorithm = descent()
    server = algorithm.server_start(4, (K, N_COLUMNS))
    assert algorithm.ledger(server, [("a", "b"), ("c",)]) == ["a", "b", "c"]
    assert not algorithm.finished(server)
