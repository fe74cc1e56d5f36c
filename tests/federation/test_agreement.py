"""What parties agree on: who is refused and why, and frames that are functions of the clients' moments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdro import DPFedDROClassifier, FedDROClassifier
from skdro.federation.agreement import Schema, agree
from skdro.federation.frames import client_moments, frame_of_moments


def schema(n_features=3, names=None, classes=(0, 1), **parameters):
    return Schema(n_features, names, None if classes is None else np.array(classes), parameters)


def test_classes_are_all_that_occur():
    agreed, refused = agree({"a": schema(classes=(0, 2)), "b": schema(classes=(1, 2))}, {})
    assert agreed.classes.tolist() == [0, 1, 2]
    assert not refused


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (schema(n_features=4), "has 4 features, the others 3"),
        (schema(names=("x", "z", "y")), "feature names"),
        (schema(classes=("no", "yes")), "labels of another type"),
        (schema(classes=None), "labels of another type"),
        (schema(data_norm="2.0"), "other settings than the server: data_norm"),
        (schema(classes=(0, 7)), "outside the public classes"),
    ],
)
def test_the_odd_one_is_refused(odd, reason):
    names = ("x", "y", "z") if odd.feature_names else None
    usual = schema(names=names)
    agreed, refused = agree({"a": odd, "b": usual, "c": usual}, {}, np.array([0, 1]))
    assert list(refused) == ["a"]
    assert reason in refused["a"]
    assert agreed.feature_names == names


def test_a_tie_goes_to_the_site_that_sorts_first():
    agreed, refused = agree({"b": schema(4), "a": schema(3)}, {})
    assert agreed.n_features == 3
    assert list(refused) == ["b"]


def test_nobody_is_left():
    agreed, refused = agree({"a": schema(kappa="1")}, {"kappa": "2"})
    assert agreed.n_features == 0
    assert list(refused) == ["a"]


@given(seed=st.integers(0, 10_000), constant=st.booleans())
def test_the_common_frame_is_a_function_of_moments(seed, constant):
    rng = np.random.default_rng(seed)
    index = np.concatenate([np.arange(4), rng.integers(0, 4, 30)])
    X, weight = rng.normal(3.0, 2.0, size=(34, 2)), rng.random(34) + 0.1
    alpha = rng.dirichlet(np.ones(4))
    each = [client_moments(X[index == g], np.zeros((index == g).sum(), int), weight[index == g], 1) for g in range(4)]
    together = {name: np.concatenate([one[name] for one in each]) for name in each[0]}
    frame = frame_of_moments(together["mean"], together["deviation"], alpha, constant)
    # oracle: the moments of the rows, each weighted by its client's weight
    share = weight * (alpha / np.bincount(index, weights=weight))[index]
    centre = share @ X if constant else np.zeros(2)
    np.testing.assert_allclose(frame.centre, centre, atol=1e-12)
    np.testing.assert_allclose(frame.scale**2, share @ ((X - centre) ** 2).sum(axis=1), rtol=1e-12)
    # one process and four sites: the same numbers
    pooled = client_moments(X, index, weight, 4)
    assert all((pooled[name] == together[name]).all() for name in together)


@pytest.mark.parametrize(
    "model",
    [FedDROClassifier(radius=0.1), DPFedDROClassifier(classes=[0, 1, 2], delta=1e-3, client_weights="uniform")],
)
def test_one_client_blocks_are_the_slices_of_the_whole(model, federation):
    X, y, groups = federation
    clients = np.unique(groups)
    sites = {}
    for name in clients:
        model.classes_ = np.arange(3)
        sites[name] = model._records_of_site(X[groups == name], y[groups == name])
    facts = [model._facts(records) for records in sites.values()]
    terms = model._terms(clients, {name: np.concatenate([one[name] for one in facts]) for name in facts[0]})
    agreed = model._federation(terms)
    for g, records in enumerate(sites.values()):
        block = model._site_block(agreed, records, g)
        assert block.clients.tolist() == [clients[g]]
        assert block.index.tolist() == [g]
        assert block.weight.sum() == pytest.approx(1.0)
        assert all(value.shape == (1,) for value in block.settings.values())
        np.testing.assert_allclose(agreed.frame.enter(records.X)[block.X.shape[0] // 2], block.X[len(block.X) // 2])


def test_a_private_site_trusts_its_own_count_only(federation):
    X, y, _ = federation
    model = DPFedDROClassifier(classes=[0, 1, 2], delta=1e-3)
    records = model._records_of_site(X, y)
    agreed = model._federation({"clients": np.array(["a"]), "n_records": np.array([91])})
    with pytest.raises(ValueError, match="another number of records"):
        model._site_block(agreed, records, 0)
