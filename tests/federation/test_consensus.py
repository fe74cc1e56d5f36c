"""Consensus ADMM against the textbook's iteration with explicit duals, and its behaviour with absent clients."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.federation import in_process
from skdro.federation.client_data import ClientBlock
from skdro.federation.steps.consensus import ConsensusADMM
from skdro.solvers import bundle, conic

ALPHA = np.array([0.5, 0.2, 0.3])
N_CLASSES, SHAPE = 3, (3, 3)


def run(*args, **kwargs):
    """Last server state and history of the loop, one client a task unless told otherwise."""
    result = in_process.run(*args, **{"clients_per_task": 1, **kwargs})
    return result.server, result.history


def solve(problem, centre, rho, warm):
    solution = bundle.solve_prox(problem, centre, rho, warm, tol=1e-9)
    return solution.M, solution.state


@pytest.fixture
def block():
    rng = np.random.default_rng(4)
    offsets = np.array([0, 12, 20, 35])
    X = np.c_[rng.normal(size=(35, 2)), np.ones(35)]
    y = np.where(rng.random(35) < 0.7, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5), rng.integers(0, 3, 35))
    weight = np.concatenate([rng.dirichlet(np.ones(n)) for n in np.diff(offsets)])
    settings = {"radius": np.array([0.02, 0.1, 0.0]), "kappa": np.array([1.0, 0.5, np.inf])}
    return ClientBlock(X, y, weight, offsets, np.arange(3), np.arange(3), settings)


def algorithm(**changes):
    settings = {"solve": solve, "rho": 0.3, "adapt_until": 0, "tol": 0.0, **changes}
    return ConsensusADMM(norm=TRANSPORT_NORMS["linf"], n_classes=3, n_features=2, alpha=ALPHA, **settings)


class Recorder:
    """Keeps the server's state after each round."""

    def __init__(self, stop_after=None):
        self.states, self.stop_after = [], stop_after

    def begin(self):
        pass

    def end(self, state):
        self.states.append(state)
        return len(self.states) == self.stop_after


def pull_to(targets):
    """A client whose risk is s/2 ||M - T||^2, so that its step is known in closed form."""

    def prox(problem, centre, rho, warm):
        target, strength = targets[len(problem.y)]
        return (strength * target + rho * centre) / (strength + rho), warm

    return prox


@pytest.fixture
def quadratic(block):
    """Clients with quadratic risks: the solver, the block, targets and strengths, the consensus optimum."""
    rng = np.random.default_rng(8)
    targets, strengths = rng.normal(size=(3, *SHAPE)), np.array([0.5, 1.0, 2.0])
    sizes = np.diff(block.offsets)
    solver = pull_to({n: (T, s) for n, T, s in zip(sizes, targets, strengths, strict=True)})
    weight = ALPHA * strengths
    optimum = np.tensordot(weight / weight.sum(), targets, axes=1)
    return SimpleNamespace(solve=solver, block=block, targets=targets, strengths=strengths, optimum=optimum)


def test_equals_scaled_dual_admm_with_over_relaxation(block):
    rho, w = 0.3, 1.7
    recorder = Recorder()
    run(algorithm(), block, SHAPE, 6, monitor=recorder)

    problems = [algorithm().risk(block, g) for g in range(3)]
    M, mu = np.zeros(SHAPE), np.zeros((3, *SHAPE))
    for state in recorder.states:
        local = np.array([conic.solve_prox(p, M - mu[g], rho).M for g, p in enumerate(problems)])
        H = w * local + (1 - w) * M
        M_old, M = M, np.tensordot(ALPHA, H + mu, axes=1)
        mu = mu + H - M
        # the oracle's interior-point solver places a minimiser to about 1e-5
        np.testing.assert_allclose(state.local, local, atol=3e-4)
        np.testing.assert_allclose(state.model, M, atol=3e-4)
        np.testing.assert_allclose(state.z - state.model, mu, atol=3e-4)
        primal = np.sqrt(sum(a * ((m - M) ** 2).sum() for a, m in zip(ALPHA, local, strict=True)))
        assert state.primal == pytest.approx(primal, abs=1e-3)
        assert state.dual == pytest.approx(rho / w * np.sqrt(((M - M_old) ** 2).sum()), abs=1e-3)


def test_equals_admm_to_rounding_where_steps_are_exact(quadratic):
    rho, w = 0.3, 1.7
    recorder = Recorder()
    run(algorithm(solve=quadratic.solve), quadratic.block, SHAPE, 6, monitor=recorder)
    M, mu = np.zeros(SHAPE), np.zeros((3, *SHAPE))
    s = quadratic.strengths[:, None, None]
    for state in recorder.states:
        local = (s * quadratic.targets + rho * (M - mu)) / (s + rho)
        H = w * local + (1 - w) * M
        M_old, M = M, np.tensordot(ALPHA, H + mu, axes=1)
        mu = mu + H - M
        np.testing.assert_allclose(state.model, M, atol=1e-13)
        np.testing.assert_allclose(state.local, local, atol=1e-13)
        assert state.primal == pytest.approx(np.sqrt(ALPHA @ ((local - M) ** 2).sum(axis=(1, 2))), abs=1e-13)
        assert state.dual == pytest.approx(rho / w * np.linalg.norm(M - M_old), abs=1e-13)
        largest = max(np.linalg.norm(M), np.sqrt(ALPHA @ (local**2).sum(axis=(1, 2))))
        assert state.primal_scale == pytest.approx(largest, abs=1e-13)
        assert state.dual_scale == pytest.approx(max(rho * np.sqrt(ALPHA @ (mu**2).sum(axis=(1, 2))), 0.1), abs=1e-13)
    assert not np.allclose(M, quadratic.optimum, atol=1e-6)  # six rounds are no convergence: the path counts


def test_objective_is_the_risk_of_the_broadcast_model(block):
    recorder = Recorder()
    _, history = run(algorithm(), block, SHAPE, 4, monitor=recorder)
    broadcast = [np.zeros(SHAPE)] + [state.model for state in recorder.states[:-1]]
    risks = [sum(a * algorithm().risk(block, g).value(M)[0] for g, a in enumerate(ALPHA)) for M in broadcast]
    assert risks[0] == pytest.approx(1.0)
    np.testing.assert_allclose(history["objective"], risks, rtol=1e-12)


@pytest.mark.parametrize("factor", [4.0, 0.25])
def test_a_change_of_rho_keeps_the_unscaled_dual(quadratic, factor):
    centres = []

    def spy(problem, centre, rho, warm):
        centres.append(centre)
        return quadratic.solve(problem, centre, rho, warm)

    step = algorithm(solve=spy)
    states, server = step.client_start(quadratic.block), step.server_start(3, SHAPE)
    for _ in range(2):
        replies, states = step.client_step(states, quadratic.block, step.broadcast(server))
        server = step.server_step(server, replies, range(3))
    unscaled = server.rho * (server.z - server.model)  # y_g = rho mu_g
    server = replace(server, rho=factor * server.rho)
    centres.clear()
    replies, states = step.client_step(states, quadratic.block, step.broadcast(server))
    for g in range(3):
        np.testing.assert_allclose(server.rho * (server.model - centres[g]), unscaled[g], atol=1e-14)


def test_rho_is_balanced_by_relative_residuals_every_few_rounds_and_then_frozen(quadratic):
    # rho is far too large, so that the dual residual dominates while rho is being balanced
    _, history = run(algorithm(solve=quadratic.solve, rho=500.0, adapt_until=30), quadratic.block, SHAPE, 40)
    rho = history["rho"]
    assert np.flatnonzero(rho[1:] != rho[:-1]).tolist() == [8, 18]  # after rounds 10 and 20, not 30
    assert rho[[9, 19, -1]].tolist() == [250.0, 125.0, 125.0]
    # and far too small
    _, history = run(algorithm(solve=quadratic.solve, rho=1e-4, adapt_until=30), quadratic.block, SHAPE, 40)
    assert history["rho"][[9, 19, -1]].tolist() == [2e-4, 4e-4, 4e-4]


def test_a_fixed_rho_stays(block):
    _, history = run(algorithm(rho=5.0), block, SHAPE, 12)
    assert set(history["rho"]) == {5.0}


def test_average_is_over_the_clients_heard_of(quadratic):
    turns = [[1], [1], [0, 1], [2], [0]]
    recorder = Recorder()
    run(algorithm(solve=quadratic.solve), quadratic.block, SHAPE, 5, participants=turns.__getitem__, monitor=recorder)
    rho, w, M = 0.3, 1.7, np.zeros(SHAPE)
    z = {}
    for seen, state in zip(turns, recorder.states, strict=True):
        for g in seen:
            mu = z[g] - M if g in z else np.zeros(SHAPE)
            s = quadratic.strengths[g]
            local = (s * quadratic.targets[g] + rho * (M - mu)) / (s + rho)
            z[g] = w * local + (1 - w) * M + mu
        M = sum(ALPHA[g] * z[g] for g in z) / sum(ALPHA[g] for g in z)
        np.testing.assert_allclose(state.model, M, atol=1e-13)
        assert np.flatnonzero(np.isnan(state.rho_of)).tolist() == [g for g in range(3) if g not in z]


def test_residuals_leave_out_clients_never_heard_of(quadratic):
    recorder = Recorder()
    _, history = run(
        algorithm(solve=quadratic.solve), quadratic.block, SHAPE, 1, participants=lambda t: [0, 2], monitor=recorder
    )
    state = recorder.states[0]
    share = ALPHA[[0, 2]] / ALPHA[[0, 2]].sum()
    primal = np.sqrt(share @ ((state.local[[0, 2]] - state.model) ** 2).sum(axis=(1, 2)))
    assert state.primal == pytest.approx(primal, rel=1e-12)
    assert history["objective"][0] == pytest.approx(1.0)  # M = 0 at both


def test_a_returning_client_restarts_from_its_last_message_whatever_rho_became(quadratic):
    centres = {}

    def spy(problem, centre, rho, warm):
        centres[len(problem.y)] = centre
        return quadratic.solve(problem, centre, rho, warm)

    step = algorithm(solve=spy)
    block, server = quadratic.block, step.server_start(3, SHAPE)
    blocks = [block.subset(g, g + 1) for g in range(3)]
    states = [step.client_start(part) for part in blocks]

    def play(server, clients):
        replies = []
        for g in clients:
            answer, states[g] = step.client_step(states[g], blocks[g], step.broadcast(server))
            replies += answer
        return step.server_step(server, replies, clients)

    server = play(server, [0, 1, 2])
    z, rho = server.z[0], server.rho
    server = play(replace(server, rho=4 * rho), [1, 2])
    server = play(server, [1, 2])
    model = server.model
    play(server, [0, 1, 2])
    expected = model - (z - model) * rho / (4 * rho)  # centre M - mu_g with rho mu_g kept
    np.testing.assert_allclose(centres[12], expected, atol=1e-13)


def test_server_weighs_an_old_message_by_the_penalty_it_was_formed_with(quadratic):
    step = algorithm(solve=quadratic.solve)
    parts = [quadratic.block.subset(g, g + 1) for g in range(3)]
    server = step.server_start(3, SHAPE)
    replies = [step.client_step(step.client_start(part), part, step.broadcast(server))[0][0] for part in parts]
    server = replace(step.server_step(server, replies, [0, 1, 2]), rho=1.2)
    M = server.model
    new = step.client_step(step.client_start(parts[1]), parts[1], step.broadcast(server))[0]
    after = step.server_step(server, new, [1])
    old = [M + (0.3 / 1.2) * (server.z[g] - M) for g in (0, 2)]  # mu shrinks as rho grows
    expected = ALPHA[0] * old[0] + ALPHA[1] * new[0]["z"] + ALPHA[2] * old[1]
    np.testing.assert_allclose(after.model, expected, atol=1e-14)


def test_converges_though_a_client_is_away_for_some_rounds(quadratic):
    def away(t):
        return [0, 2] if 3 <= t < 12 or t in (20, 22, 24) else [0, 1, 2]

    server, _ = run(algorithm(solve=quadratic.solve), quadratic.block, SHAPE, 150, participants=away)
    np.testing.assert_allclose(server.model, quadratic.optimum, atol=1e-8)
    for g in range(3):
        np.testing.assert_allclose(server.local[g], quadratic.optimum, atol=1e-8)


def test_robust_clients_converge_though_one_is_away(block):
    whole, _ = run(algorithm(rho=0.1), block, SHAPE, 400)
    away, _ = run(algorithm(rho=0.1), block, SHAPE, 400, participants=lambda t: [0, 2] if t % 7 < 2 else [0, 1, 2])

    def objective(M):
        return sum(a * algorithm().risk(block, g).value(M)[0] for g, a in enumerate(ALPHA))

    assert objective(away.model) == pytest.approx(objective(whole.model), rel=1e-3)


def test_a_client_of_no_weight_does_not_move_the_model(quadratic):
    alpha = np.array([0.5, 0.0, 0.5])
    step = replace(algorithm(solve=quadratic.solve), alpha=alpha)
    server, _ = run(step, quadratic.block, SHAPE, 200)
    weight = alpha * quadratic.strengths
    np.testing.assert_allclose(
        server.model, np.tensordot(weight / weight.sum(), quadratic.targets, axes=1), atol=1e-8
    )


def test_finished_needs_both_residuals_and_a_positive_tolerance(block):
    step = algorithm(tol=0.01)
    server = step.server_start(3, SHAPE)
    assert not step.finished(server)
    good = replace(server, primal=0.019, dual=0.029, primal_scale=2.0, dual_scale=3.0)
    assert step.finished(good)
    assert not step.finished(replace(good, primal=0.021))
    assert not step.finished(replace(good, dual=0.031))
    assert not algorithm(tol=0.0).finished(replace(good, primal=0.0, dual=0.0))


def test_run_ends_in_the_first_round_that_meets_the_tolerance(quadratic):
    step = algorithm(solve=quadratic.solve, tol=1e-3)
    recorder = Recorder()
    _, history = run(step, quadratic.block, SHAPE, 500, monitor=recorder)
    assert 1 < len(recorder.states) < 500
    met = [s.primal <= 1e-3 * s.primal_scale and s.dual <= 1e-3 * s.dual_scale for s in recorder.states]
    assert met == [False] * (len(met) - 1) + [True]
    assert {len(column) for column in history.values()} == {len(met)}


def test_iterates_keep_zero_column_means(block):
    # cuts have zero column sums, so a run that starts at zero never leaves that subspace
    server, _ = run(algorithm(), block, SHAPE, 10)
    assert np.abs(server.local.sum(axis=1)).max() < 1e-12
    assert np.abs(server.model).max() > 0.01
