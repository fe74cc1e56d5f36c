"""Absent clients, and clients that come back: from the server's memory they go on as if never moved."""

import numpy as np
import pytest

from skdro import DPFedDROClassifier, FedDROClassifier, FedOvADROClassifier
from skdro.federation.protocol import Resumable

MODELS = [
    FedDROClassifier(radius=0.05, solver="bundle"),
    FedOvADROClassifier(radius=0.05),
    DPFedDROClassifier(epsilon=5.0, delta=1e-3, classes=[0, 1, 2], variant="paper", random_state=0),
    # steps that are set: those of c_model="auto" are planned for the noise of all clients, absent or not
    DPFedDROClassifier(epsilon=5.0, delta=1e-3, classes=[0, 1, 2], c_model=3.0, random_state=0),
]


class Clients:
    """The one-client blocks of a federation and their states."""

    def __init__(self, model, X, y, groups):
        names = np.unique(groups)
        model.classes_ = np.unique(y)
        records = [model._records_of_site(X[groups == name], y[groups == name]) for name in names]
        facts = [model._facts(one) for one in records]
        terms = model._terms(names, {key: np.concatenate([one[key] for one in facts]) for key in facts[0]})
        self.federation = model._federation(terms)
        self.algorithm = self.federation.algorithm
        self.blocks = [model._site_block(self.federation, one, g) for g, one in enumerate(records)]
        self.states = [self.algorithm.client_start(block) for block in self.blocks]
        self.server = self.algorithm.server_start(len(names), self.federation.shape)

    def step(self, g):
        broadcast = self.algorithm.broadcast(self.server)
        (reply,), self.states[g] = self.algorithm.client_step(self.states[g], self.blocks[g], broadcast)
        return reply

    def round(self, taking_part):
        self.server = self.algorithm.server_step(self.server, [self.step(g) for g in taking_part], taking_part)

    def resume(self, g):
        memory = self.algorithm.memory(self.server, g)
        self.states[g] = self.algorithm.resume(self.states[g], self.blocks[g], memory)


@pytest.mark.parametrize("model", MODELS[:2], ids=["joint", "one-vs-all"])
@pytest.mark.parametrize("heard", [True, False])
def test_a_lost_reply_is_undone(model, heard, federation):
    usual, other = Clients(model, *federation), Clients(model, *federation)
    assert isinstance(usual.algorithm, Resumable)
    everybody, without_b = [0, 1, 2, 3], [0, 2, 3]
    for clients in (usual, other):
        clients.round(everybody if heard else without_b)
        clients.round(without_b)
    other.step(1)  # its reply is lost, but its state has moved
    other.resume(1)
    for clients in (usual, other):
        clients.round(everybody)
    for name, value in usual.algorithm.broadcast(usual.server).items():
        # cuts survive, so the solver ends elsewhere within its gap
        np.testing.assert_allclose(other.algorithm.broadcast(other.server)[name], value, atol=1e-3)


def test_a_private_client_goes_on_from_its_last_release_that_arrived(federation):
    clients = Clients(MODELS[2], *federation)
    clients.round([0, 1, 2, 3])
    kept = clients.states[1]
    clients.step(1)
    assert not np.array_equal(clients.states[1].model, kept.model)
    clients.resume(1)
    np.testing.assert_array_equal(clients.states[1].model, kept.model)
    np.testing.assert_array_equal(clients.states[1].mu, kept.mu)
    assert len(clients.states[1].ledger) == 4  # what was lost was released all the same


def test_without_the_memory_the_dual_would_be_another(federation):
    clients = Clients(MODELS[0], *federation)
    clients.round([0, 1, 2, 3])
    clients.round([0, 2, 3])
    kept = clients.states[1]
    clients.step(1)
    moved = clients.states[1]
    clients.resume(1)
    assert not np.array_equal(moved[0].z, kept[0].z)
    np.testing.assert_array_equal(clients.states[1][0].z, kept[0].z)


def test_nobody_remembers_a_client_that_was_never_heard_of(federation):
    for model in MODELS[:3]:
        clients = Clients(model, *federation)
        clients.round([0, 2, 3])
        assert clients.algorithm.memory(clients.server, 1) is None
        clients.resume(1)
        clients.round([0, 1, 2, 3])
        assert np.isfinite(clients.algorithm.broadcast(clients.server)["model"]).all()


@pytest.mark.parametrize("model", MODELS, ids=["joint", "one-vs-all", "paper", "global"])
def test_a_partial_round_is_that_of_the_weights_of_those_present(model, federation):
    """With client d never there, the first model is that of the other three alone."""
    X, y, groups = federation
    present = groups != "d"
    four, three = Clients(model, X, y, groups), Clients(model, X[present], y[present], groups[present])
    for clients in (four, three):
        clients.round([0, 1, 2])
    if model._is_private():  # the same frame, so the same numbers
        np.testing.assert_allclose(
            four.algorithm.broadcast(four.server)["model"],
            three.algorithm.broadcast(three.server)["model"],
            rtol=1e-6,
            atol=1e-6,
        )
    assert np.isfinite(four.algorithm.broadcast(four.server)["model"]).all()
