"""The round loop: the same model whatever the workers, who takes part, who watches."""

import warnings

import joblib
import numpy as np
import pytest

from skdro import FedDROClassifier
from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.federation import in_process
from skdro.federation.client_data import prepare
from skdro.federation.frames import AffineFrame
from skdro.federation.steps.consensus import ConsensusADMM
from skdro.solvers import bundle


def run(*args, **kwargs):
    """Last server state and history of the loop, one client a task unless told otherwise."""
    result = in_process.run(*args, **{"clients_per_task": 1, **kwargs})
    return result.server, result.history


class Counting:
    """An algorithm that adds up who was asked: the model counts rounds, each client counts its own."""

    def __init__(self, finish=np.inf):
        self.finish = finish

    def client_start(self, block):
        return [0] * block.n_clients

    def client_step(self, state, block, broadcast):
        state = [count + 1 for count in state]
        replies = [
            {"client": block.clients[g], "count": np.asarray(state[g]), "model": broadcast["model"]}
            for g in range(block.n_clients)
        ]
        return replies, state

    def server_start(self, n_clients, shape):
        return {"round": 0, "model": np.zeros(shape), "replies": [], "asked": [], "counts": np.zeros(n_clients)}

    def server_step(self, server, replies, clients):
        counts = server["counts"].copy()
        counts[list(clients)] = [int(reply["count"]) for reply in replies]
        return {
            "round": server["round"] + 1,
            "model": server["model"] + 1,
            "asked": [*server["asked"], list(clients)],
            "replies": [str(reply["client"]) for reply in replies],
            "seen": [float(reply["model"].max()) for reply in replies],
            "counts": counts,
        }

    def broadcast(self, server):
        return {"model": server["model"]}

    def finished(self, server):
        return server["round"] >= self.finish

    def report(self, server):
        return {"round": float(server["round"]), "clients": float(len(server["replies"]))}


class Watcher:
    def __init__(self, stop_after=None):
        self.log, self.stop_after = [], stop_after

    def begin(self):
        self.log.append("begin")

    def end(self, server):
        self.log.append(server["round"])
        return server["round"] == self.stop_after


@pytest.fixture
def block():
    index = np.repeat(np.arange(5), [3, 1, 2, 4, 2])
    frame = AffineFrame(np.zeros(2), 1.0, False)
    return prepare(np.ones((12, 2)), np.zeros(12, int), index, np.array(list("abcde")), frame)


@pytest.mark.parametrize("clients_per_task", [1, 2, 3, 5, 9])
def test_replies_reach_the_server_in_client_order(block, clients_per_task):
    server, history = run(Counting(), block, (2,), 3, clients_per_task=clients_per_task)
    assert server["replies"] == list("abcde")
    assert server["asked"] == [[0, 1, 2, 3, 4]] * 3
    assert server["counts"].tolist() == [3] * 5  # states come back to their own client
    assert server["seen"] == [2.0] * 5  # the broadcast of the last round
    assert server["model"].tolist() == [3.0, 3.0]
    assert history["round"].tolist() == [1.0, 2.0, 3.0]
    assert history["clients"].tolist() == [5.0] * 3


def test_only_participants_are_asked_and_absent_states_wait(block):
    turns = [[0, 3], [1], [0, 1, 2, 3, 4], [4]]
    server, _ = run(Counting(), block, (2,), 4, participants=turns.__getitem__)
    assert server["asked"] == turns
    assert server["counts"].tolist() == [2, 2, 1, 2, 2]


def test_participants_are_tasks(block):
    # tasks of two clients: (a, b), (c, d), (e)
    server, _ = run(Counting(), block, (2,), 2, clients_per_task=2, participants=[[1], [0, 2]].__getitem__)
    assert server["asked"] == [[2, 3], [0, 1, 4]]


def test_monitor_sees_each_round_begin_and_end(block):
    watcher = Watcher()
    run(Counting(), block, (2,), 3, monitor=watcher)
    assert watcher.log == ["begin", 1, "begin", 2, "begin", 3]


def test_a_round_of_several_exchanges_is_one_round_to_the_monitor_and_in_the_history(block):
    watcher = Watcher()
    server, history = run(Counting(), block, (2,), 3, exchanges=2, monitor=watcher)
    assert watcher.log == ["begin", 2, "begin", 4, "begin", 6]
    assert server["counts"].tolist() == [6] * 5  # states are handed on between exchanges
    assert server["seen"] == [5.0] * 5  # and each exchange has a broadcast of its own
    assert history["round"].tolist() == [2.0, 4.0, 6.0]


def test_monitor_stops_the_rounds(block):
    watcher = Watcher(stop_after=2)
    server, history = run(Counting(), block, (2,), 10, monitor=watcher)
    assert watcher.log == ["begin", 1, "begin", 2]
    assert server["round"] == 2
    assert history["round"].tolist() == [1.0, 2.0]


def test_algorithm_stops_the_rounds_and_its_last_round_is_reported(block):
    watcher = Watcher()
    server, history = run(Counting(finish=4), block, (2,), 10, monitor=watcher)
    assert server["round"] == 4
    assert watcher.log[-1] == 4
    assert {len(column) for column in history.values()} == {4}


def test_error_at_a_client_reaches_the_caller(block):
    class Broken(Counting):
        def client_step(self, state, block, broadcast):
            raise ArithmeticError("client failed")

    with pytest.raises(ArithmeticError, match="client failed"):
        run(Broken(), block, (2,), 2, n_jobs=2)


def fitted(federation, n_jobs):
    X, y, groups = federation
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 25 rounds do not converge; equality is what counts
        return FedDROClassifier(0.05, 2.0, n_rounds=25, n_jobs=n_jobs).fit(X, y, groups)


BACKENDS = [
    pytest.param({}, 1, id="one worker"),
    pytest.param({}, 2, id="two workers"),
    pytest.param({"backend": "threading"}, 2, id="threads"),
    pytest.param({"backend": "threading"}, 4, id="more threads than cores"),
    pytest.param({"backend": "loky"}, 2, id="processes"),
]


@pytest.mark.parametrize(("config", "n_jobs"), BACKENDS)
def test_model_does_not_depend_on_workers_bit_for_bit(federation, config, n_jobs):
    reference = fitted(federation, None)
    with joblib.parallel_config(**config):
        model = fitted(federation, n_jobs)
    for name in ("coef_", "intercept_", "client_coef_"):
        assert getattr(model, name).tobytes() == getattr(reference, name).tobytes(), name
    for name, column in reference.history_.items():
        assert model.history_[name].tobytes() == column.tobytes(), name
    assert model.worst_case_risk_ == reference.worst_case_risk_


def exact(problem, centre, rho, warm):
    solution = bundle.solve_prox(problem, centre, rho, warm, tol=1e-9)
    return solution.M, solution.state


def test_model_does_not_depend_on_how_clients_are_blocked(federation):
    X, y, groups = federation
    clients, index = np.unique(groups, return_inverse=True)
    block = prepare(X, y, index, clients, AffineFrame(X.mean(axis=0), 2.0, True))
    block.settings.update(radius=np.full(4, 0.02), kappa=np.array([1.0, 0.5, np.inf, 2.0]))
    admm = ConsensusADMM(TRANSPORT_NORMS["l2"], 3, 3, np.full(4, 0.25), exact, 0.1, 20, 0.0)
    servers = [run(admm, block, (3, 4), 25, clients_per_task=size)[0] for size in (1, 2, 3, 4)]
    assert np.abs(servers[0].model).max() > 0.1
    for other in servers[1:]:
        np.testing.assert_allclose(other.model, servers[0].model, atol=1e-12)
        np.testing.assert_allclose(other.local, servers[0].local, atol=1e-12)
