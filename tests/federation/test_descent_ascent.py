"""BiDRO-FL and AFL: gradients, the steps by hand, blockings, absence, and convergence to the exact value."""

import numpy as np
import pytest

from skdro.ambiguity.mixture import MixtureBall
from skdro.ambiguity.penalised import Box
from skdro.ambiguity.robust_squares import Squares, penalised_risk, radius_risk
from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.federation import in_process
from skdro.federation.client_data import ClientBlock
from skdro.federation.local_risks import (
    Ascent,
    MarginsRisk,
    MovedClasses,
    MovedResponses,
    RecordsRisk,
    Roots,
    SquaresRisk,
    UnmovedRecords,
)
from skdro.federation.simulation import simulate
from skdro.federation.steps.descent_ascent import DescentAscent, client_stream
from skdro.losses import crammer_singer, softmax, squared
from skdro.solvers.mixture_conic import solve_penalised_squares, solve_radius_squares

SIZES = np.array([12, 5, 8])
WIDE = Box(np.full(3, -50.0), np.full(3, 50.0))
OPEN = Box(np.full(3, -np.inf), np.full(3, np.inf))
PLANE = Box(np.full(2, -np.inf), np.full(2, np.inf))


def block_of(seed, classes=0):
    """Three clients, two features and a constant column; responses, or labels of so many classes."""
    rng = np.random.default_rng(seed)
    n = SIZES.sum()
    index = np.repeat(np.arange(3), SIZES)
    X = np.c_[rng.normal(size=(n, 2)), np.ones(n)]
    slope = np.array([[1.0, 0.2], [-0.4, 0.5], [0.3, -0.6]])[index]
    y = rng.integers(0, classes, n) if classes else (X[:, :2] * slope).sum(axis=1) + 0.2 * rng.normal(size=n)
    settings = {"radius": np.array([0.05, 0.2, 0.1]), "kappa": np.full(3, 0.7), "penalty": np.array([6.0, 4.0, 9.0])}
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    return ClientBlock(X, y, (1 / SIZES)[index], offsets, np.array(["a", "b", "c"]), np.arange(3), settings)


ASCENT = Ascent(OPEN, n_steps=400, step=None, length=0.0)
RISKS = {
    "plain squares": (RecordsRisk(UnmovedRecords(squared), None), 0, 1),
    "plain softmax": (RecordsRisk(UnmovedRecords(softmax), None), 3, 3),
    "plain margins": (RecordsRisk(UnmovedRecords(crammer_singer), None), 3, 3),
    "squares in a ball": (SquaresRisk(2, 1.0), 0, 1),
    "margins in a ball": (MarginsRisk(TRANSPORT_NORMS["l2"], 3, 2), 3, 3),
    "penalised squares, ascent": (RecordsRisk(MovedResponses(2, 1.0, ASCENT), None), 0, 1),
    "penalised squares, roots": (RecordsRisk(MovedResponses(2, 1.0, Roots(WIDE)), None), 0, 1),
    "penalised squares, labels kept": (
        RecordsRisk(MovedResponses(2, 0.0, Roots(Box(np.full(2, -3.0), np.full(2, 3.0)))), None),
        0,
        1,
    ),
    "penalised softmax": (RecordsRisk(MovedClasses(2, Ascent(PLANE, 400, None, 0.0)), None), 3, 3),
}


@pytest.mark.parametrize("name", RISKS)
def test_gradients_match_finite_differences_of_the_values(name):
    risk, classes, outputs = RISKS[name]
    block = block_of(0, classes)
    kept = risk.prepare(block)
    model = 0.4 * np.random.default_rng(1).normal(size=(outputs, 3))
    values, gradients = risk.answer(kept, block, model, None)
    np.testing.assert_allclose(values, risk.bound(kept, block, model), rtol=1e-5)  # converged ascents reach the sup
    for place in np.ndindex(model.shape):
        step = np.zeros_like(model)
        step[place] = 1e-5
        up, down = (risk.bound(kept, block, model + s) for s in (step, -step))
        np.testing.assert_allclose(gradients[(slice(None), *place)], (up - down) / 2e-5, atol=2e-4)


def test_local_risks_are_the_closed_forms():
    block = block_of(2)
    model = np.array([[0.3, -0.2, 0.1]])
    squares = Squares.of([(block.X[block.rows(g)], block.y[block.rows(g)]) for g in range(3)], 2, 1.0)
    mse, stretch = squares.mean_squares(model[0]), squares.stretch(model[0])
    for name, exact in (
        ("plain squares", mse),
        ("squares in a ball", radius_risk(mse, stretch, block.settings["radius"])),
        ("penalised squares, ascent", penalised_risk(mse, stretch, block.settings["penalty"])),
        ("penalised squares, roots", penalised_risk(mse, stretch, block.settings["penalty"])),
    ):
        risk = RISKS[name][0]
        np.testing.assert_allclose(risk.bound(risk.prepare(block), block, model), exact)


def test_softmax_bound_is_above_any_move_and_infinite_where_nothing_is_known():
    block = block_of(3, classes=3)
    records = MovedClasses(2, Ascent(PLANE, 30, None, 0.0))
    model = np.random.default_rng(4).normal(size=(3, 3))
    rng = np.random.default_rng(5)
    for factor, known in ((1.2, True), (0.2, False)):
        price = factor * softmax.SMOOTHNESS * np.linalg.norm(model[:, :2], 2) ** 2 / 2
        bound = records.bound(model, block.X, block.y, np.full(25, price))
        assert np.isfinite(bound).all() == known
        for _ in range(200 if known else 0):
            moved = block.X.copy()
            moved[:, :2] += rng.normal(size=(25, 2)) * rng.choice([0.1, 1.0, 3.0])
            cost = ((moved - block.X) ** 2).sum(axis=1)
            assert np.all(softmax.losses(moved @ model.T, block.y) - price * cost <= bound + 1e-9)


def algorithm(risk, n_clients=3, **changes):
    settings = {
        "risk": risk,
        "mixture": MixtureBall(np.array([0.5, 0.3, 0.2]), 1.0),
        "step": 0.05,
        "mixture_step": 0.02,
        "model_bound": 10.0,
        "average": True,
        "seed": 3,
        "monitor": True,
    }
    return DescentAscent(**{**settings, **changes})


def test_two_rounds_written_out():
    """The published Algorithm 1 with one sample a client, its ascent and its perturbation, record by record."""
    block, rho, eta, n_steps, s, length = block_of(6), np.array([6.0, 4.0, 9.0]), 0.05, 4, 0.01, 0.1
    box = Box(np.full(3, -2.5), np.full(3, 2.5))
    risk = RecordsRisk(MovedResponses(2, 1.0, Ascent(box, n_steps, s, length)), batch_size=1)
    method = algorithm(risk, average=False)
    x, alpha = np.zeros(3), np.array([0.5, 0.3, 0.2])
    for t in range(2):
        local, g = [], []
        for i in range(3):
            rng = client_stream(3, i, t)
            n = block.offsets[i] + rng.integers(SIZES[i], size=1)[0]
            zeta = np.append(block.X[n, :2], block.y[n])
            xi = zeta.copy()
            for _ in range(n_steps):
                e = xi[2] - x[:2] @ xi[:2] - x[2]
                xi = np.clip(xi + s * (2 * e * np.array([-x[0], -x[1], 1]) - 2 * rho[i] * (xi - zeta)), -2.5, 2.5)
            u = rng.standard_normal((1, 3))[0]
            xi = np.clip(xi + length * u / np.linalg.norm(u), -2.5, 2.5)
            e = xi[2] - x[:2] @ xi[:2] - x[2]
            local.append(x + eta * 2 * e * np.append(xi[:2], 1.0))
            g.append(e**2 - rho[i] * ((xi - zeta) ** 2).sum())
        x = np.clip(alpha @ np.array(local), -10, 10)
        alpha = method.mixture.project(alpha + 0.02 * np.array(g))
    server = in_process.run(method, block, (1, 3), 2).server
    np.testing.assert_allclose(server.model[0], x, atol=1e-14)
    np.testing.assert_allclose(server.alpha, alpha, atol=1e-14)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_blocking_and_workers_do_not_change_the_model(batch_size):
    block = block_of(7)
    risk = RecordsRisk(MovedResponses(2, 1.0, Ascent(OPEN, 5, None, 0.05)), batch_size)
    runs = [
        in_process.run(algorithm(risk), block, (1, 3), 20, n_jobs, clients_per_task=k)
        for n_jobs, k in ((None, None), (None, 1), (2, 2), (2, 1))
    ]
    for run in runs[1:]:
        np.testing.assert_allclose(run.server.model, runs[0].server.model, atol=1e-12)
        np.testing.assert_allclose(run.history["objective"], runs[0].history["objective"], rtol=1e-10)


def test_an_absent_client_keeps_its_weight_and_its_last_value():
    block, method = block_of(8), algorithm(RISKS["plain squares"][0])
    server = method.server_start(3, (1, 3))
    replies, _ = method.client_step(None, block, method.broadcast(server))
    full = method.server_step(server, replies, [0, 1, 2])
    later, _ = method.client_step(None, block, method.broadcast(full))
    partial = method.server_step(full, later[1:], [1, 2])
    expected = full.alpha[0] * full.model + sum(full.alpha[i] * later[i]["model"] for i in (1, 2))
    np.testing.assert_allclose(partial.model, expected)
    assert partial.values[0] == replies[0]["value"]
    assert np.isfinite(partial.model).all()


def test_reported_model_is_the_average_of_the_broadcast_ones():
    block, method = block_of(9), algorithm(RISKS["plain squares"][0])
    server, seen = method.server_start(3, (1, 3)), []
    for _ in range(4):
        message = method.broadcast(server)
        seen.append(message["model"])
        np.testing.assert_allclose(message["reported"], np.mean(seen, axis=0))
        server = method.server_step(server, method.client_step(None, block, message)[0], [0, 1, 2])
    np.testing.assert_allclose(method.reported(server)[0], np.mean(seen, axis=0))
    last = algorithm(RISKS["plain squares"][0], average=False)
    assert last.reported(server)[0] is server.model


@pytest.mark.parametrize("rad", [0.3, 1.0])
@pytest.mark.parametrize("form", ["radius", "penalty"])
def test_rounds_end_at_the_exact_saddle_point(form, rad):
    """Theorem 7 with exact local answers: the objective of the averaged iterate against the conic value."""
    block = block_of(10)
    mixture = MixtureBall(np.array([0.5, 0.3, 0.2]), rad)
    squares = Squares.of([(block.X[block.rows(g)], block.y[block.rows(g)]) for g in range(3)], 2, 1.0)
    if form == "radius":
        risk, exact = RISKS["squares in a ball"][0], solve_radius_squares(squares, block.settings["radius"], mixture)
    else:
        risk = RISKS["penalised squares, roots"][0]
        exact = solve_penalised_squares(squares, block.settings["penalty"], mixture)
    best = mixture.value(risk.bound(risk.prepare(block), block, exact.model[None]))
    run = in_process.run(algorithm(risk, mixture=mixture, step=0.06, mixture_step=0.06), block, (1, 3), 600)
    objective = run.history["objective"]
    assert objective.min() >= best - 1e-6
    assert objective[-1] == pytest.approx(best, rel=0.02)
    assert objective[-1] - best < 0.2 * (objective[40] - best)


def test_the_bound_on_the_model_holds():
    run = in_process.run(algorithm(RISKS["plain squares"][0], step=5.0, model_bound=2.0), block_of(11), (1, 3), 50)
    assert np.abs(run.server.model).max() == 2.0


def padded(blocks):
    """The rows of several blocks as arrays (n_runs, n_clients, n_longest, ...)."""
    X = np.zeros((len(blocks), 3, SIZES.max(), 3))
    y = np.zeros(X.shape[:-1])
    for r, block in enumerate(blocks):
        for g in range(3):
            X[r, g, : SIZES[g]], y[r, g, : SIZES[g]] = block.X[block.rows(g)], block.y[block.rows(g)]
    return X, y


@pytest.mark.parametrize("records", [UnmovedRecords(squared), MovedResponses(2, 1.0, Ascent(WIDE, 6, 0.01, 0.0))])
def test_a_simulation_of_many_runs_is_those_runs(records):
    blocks = [block_of(seed) for seed in (12, 13)]
    mixture = MixtureBall(np.array([0.5, 0.3, 0.2]), 0.4)
    steps = {"step": 0.05, "mixture_step": 0.02, "model_bound": 10.0}
    X, y = padded(blocks)
    path = simulate(
        records,
        X,
        y,
        SIZES,
        blocks[0].settings["penalty"],
        mixture,
        checkpoints=[1, 30],
        batch_size=None,
        rng=np.random.default_rng(0),
        **steps,
    )
    for r, block in enumerate(blocks):
        method = algorithm(RecordsRisk(records, None), mixture=mixture, **steps)
        run = in_process.run(method, block, (1, 3), 30)
        np.testing.assert_allclose(path.model[-1, r], run.server.model, atol=1e-12)
        np.testing.assert_allclose(path.average[-1, r], run.server.model_sum / 30, atol=1e-12)
        np.testing.assert_allclose(path.alpha[-1, r], run.server.alpha, atol=1e-12)
        np.testing.assert_allclose(path.alpha[0, r], run.history["mixture_weights"][0], atol=1e-12)


def test_a_simulation_samples_real_rows_only():
    """Padding is NaN here; one that is drawn would show."""
    X, y = padded([block_of(14)])
    for g in range(3):
        X[0, g, SIZES[g] :] = np.nan
    path = simulate(
        MovedResponses(2, 1.0, Ascent(WIDE, 3, 0.01, 0.01)),
        X,
        y,
        SIZES,
        np.full(3, 5.0),
        MixtureBall(np.full(3, 1 / 3), 1.0),
        checkpoints=[300],
        step=0.01,
        mixture_step=0.01,
        model_bound=10.0,
        batch_size=2,
        rng=np.random.default_rng(0),
    )
    assert np.isfinite(path.model).all()
