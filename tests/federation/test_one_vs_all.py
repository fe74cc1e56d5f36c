"""One-vs-all rounds against one consensus run a class, and what a finished class costs."""

from dataclasses import replace

import numpy as np
import pytest

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.federation import in_process
from skdro.federation.client_data import ClientBlock
from skdro.federation.steps.consensus import ConsensusADMM
from skdro.federation.steps.one_vs_all import OneVsAll
from skdro.solvers import bundle

SHAPE = (2, 3)  # of one problem's model


def solve(problem, centre, rho, warm):
    solution = bundle.solve_prox(problem, centre, rho, warm, tol=1e-7)
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


def binary(**changes):
    settings = {"solve": solve, "rho": 0.1, "adapt_until": 60, "tol": 1e-2, **changes}
    alpha = np.array([0.5, 0.2, 0.3])
    return ConsensusADMM(norm=TRANSPORT_NORMS["linf"], n_classes=2, n_features=2, alpha=alpha, **settings)


def separate(block, admm, n_rounds, **kwargs):
    """A run of its own for each class, with labels made here."""
    blocks = [replace(block, y=np.where(block.y == k, 1, 0)) for k in range(3)]
    return [in_process.run(admm, part, SHAPE, n_rounds, clients_per_task=1, **kwargs) for part in blocks]


def together(block, admm, n_rounds, **kwargs):
    kwargs = {"clients_per_task": 1, **kwargs}
    return in_process.run(OneVsAll(admm, 3), block, (3, *SHAPE), n_rounds, **kwargs)


def assert_same(states, others):
    for state, other in zip(states, others, strict=True):
        for name, value in vars(state).items():
            assert np.asarray(getattr(other, name)).tobytes() == np.asarray(value).tobytes(), name


def test_equals_a_run_of_its_own_for_each_class_bit_for_bit(block):
    alone = separate(block, binary(), 300)
    rounds = [run.server.round for run in alone]
    assert len(set(rounds)) == 3  # the classes converge at different times ...
    assert max(rounds) < 300
    run = together(block, binary(), 300)
    assert_same(run.server, [other.server for other in alone])
    assert len(run.history["rho"]) == max(rounds)  # ... and the last one ends the rounds
    for k, other in enumerate(alone):
        for name, column in other.history.items():
            assert np.array_equal(run.history[name][: rounds[k], k], column), name
            assert set(run.history[name][rounds[k] - 1 :, k]) == {column[-1]}, name


def test_classes_differ(block):
    models = [state.model for state in together(block, binary(), 20).server]
    assert min(np.abs(models[i] - models[j]).max() for i in range(3) for j in range(i)) > 0.1


def test_clients_that_are_away(block):
    turns = [[0, 2], [1], [0, 1, 2], [2], [0, 1, 2]]
    alone = separate(block, binary(), 5, participants=turns.__getitem__)
    run = together(block, binary(), 5, participants=turns.__getitem__)
    assert_same(run.server, [other.server for other in alone])


@pytest.mark.parametrize("clients_per_task", [2, 3])
def test_model_does_not_depend_on_how_clients_are_blocked(block, clients_per_task):
    assert OneVsAll(binary(), 3).clients_per_task == 1
    one, other = together(block, binary(), 15), together(block, binary(), 15, clients_per_task=clients_per_task)
    for a, b in zip(one.server, other.server, strict=True):
        np.testing.assert_allclose(a.model, b.model, atol=1e-12)
        np.testing.assert_allclose(a.local, b.local, atol=1e-12)


def test_two_classes_are_one_problem(block):
    block = replace(block, y=np.minimum(block.y, 1))
    plain = in_process.run(binary(), block, SHAPE, 40, clients_per_task=1)
    run = in_process.run(OneVsAll(binary(), 2), block, (1, *SHAPE), 40, clients_per_task=1)
    assert_same(run.server, [plain.server])
    assert run.history["objective"].shape == (plain.server.round, 1)


def test_a_finished_class_costs_neither_work_nor_communication(block):
    solved = []

    def counting(problem, centre, rho, warm):
        solved.append(problem.y.sum())
        return solve(problem, centre, rho, warm)

    run = together(block, binary(solve=counting), 300)
    rounds = [state.round for state in run.server]
    assert len(solved) == 3 * sum(rounds) < 3 * 3 * max(rounds)
    # one more round with one class left running
    algorithm = OneVsAll(binary(), 3)
    server = (run.server[0], replace(run.server[1], primal=np.inf), run.server[2])
    assert algorithm.finished(run.server)
    assert not algorithm.finished(server)
    message = algorithm.broadcast(server)
    assert message["problem"].tolist() == [1]
    assert message["model"].shape == (1, *SHAPE)
    before = algorithm.client_start(block)
    replies, states = algorithm.client_step(before, block, message)
    assert [reply["z"].shape for reply in replies] == [(1, *SHAPE)] * 3
    for old, new in zip(before, states, strict=True):
        assert (new[0] is old[0], new[1] is old[1], new[2] is old[2]) == (True, False, True)
    after = algorithm.server_step(server, replies, range(3))
    assert (after[0] is server[0], after[1] is server[1], after[2] is server[2]) == (True, False, True)


def test_nothing_is_sent_when_all_classes_have_finished(block):
    algorithm = OneVsAll(binary(), 3)
    server = together(block, binary(), 300).server
    message = algorithm.broadcast(server)
    assert {name: value.size for name, value in message.items()} == {"problem": 0}
    replies, _ = algorithm.client_step(algorithm.client_start(block), block, message)
    assert [list(reply) for reply in replies] == [["problem"]] * 3
    assert_same(algorithm.server_step(server, replies, range(3)), server)


def test_messages_are_arrays(block):
    algorithm = OneVsAll(binary(), 3)
    message = algorithm.broadcast(algorithm.server_start(3, (3, *SHAPE)))
    replies, states = algorithm.client_step(algorithm.client_start(block), block, message)
    assert {type(value) for part in (message, *replies) for value in part.values()} == {np.ndarray}
    assert len(states) == 3


def test_no_tolerance_never_finishes(block):
    run = together(block, binary(tol=0.0), 4)
    assert [state.round for state in run.server] == [4] * 3
    assert not OneVsAll(binary(tol=0.0), 3).finished(run.server)


def test_rows_are_not_copied(block):
    algorithm = OneVsAll(binary(), 3)
    for k in range(3):
        part = algorithm.against_rest(block, k)
        assert part.X is block.X
        assert part.y.tolist() == [int(label == k) for label in block.y]
