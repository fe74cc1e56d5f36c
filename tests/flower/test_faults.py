"""What can go wrong between sites, each fault planted in the grid or in one site."""

import numpy as np
import pytest

from skdro import AFLRegressor, DPFedDROClassifier, FedDROClassifier
from skdro.privacy.accounting import gaussian_epsilon

flwr = pytest.importorskip("flwr")

from flwr.app import Message  # noqa: E402

from skdro.flower import LocalGrid, make_client_app  # noqa: E402
from skdro.flower._ledger import SiteLedger  # noqa: E402
from skdro.flower._wire import FAILURE, REFUSALS, Parcel, decode, encode  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdro.exceptions.PrivacyLeakWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)


def exact(config):
    return FedDROClassifier(radius=0.05, n_rounds=8)


def private(config):
    return DPFedDROClassifier(epsilon=config.get("epsilon", 5.0), delta=1e-4, classes=[0, 1, 2], n_rounds=6)


def site_of(grid, message):
    return grid.contexts[message.metadata.dst_node_id].node_config["site-name"]


def tampering(change, rounds=(2,), site="b"):
    """A grid that changes one site's replies in some rounds: `change(reply) -> replies`."""

    class Tampering(LocalGrid):
        def deliver(self, message):
            replies = super().deliver(message)
            question = decode(message.content).config
            if message.metadata.message_type == "train" and site_of(self, message) == site:
                return change(*replies) if question["round"] in rounds else replies
            return replies

    return Tampering


def with_arrays(reply, change):
    parcel = decode(reply.content)
    reply.content = encode(Parcel(parcel.config, {"message": change(parcel.arrays["message"])}))
    return [reply]


def with_each(reply, change):
    return with_arrays(reply, lambda arrays: {name: change(value) for name, value in arrays.items()})


def with_config(reply, **changed):
    parcel = decode(reply.content)
    reply.content = encode(Parcel({**parcel.config, **changed}, parcel.arrays))
    return [reply]


def foreign(reply):
    reply.metadata.__dict__["_src_node_id"] = 1  # somebody else answers in the site's place
    return [reply]


FAULTS = {
    "lost": lambda reply: [],
    "foreign": foreign,
    "another question": lambda reply: with_config(reply, number=3),
    "another round": lambda reply: with_config(reply, round=0),
    "wrong shape": lambda reply: with_each(reply, lambda value: value[..., :1] if value.ndim else value),
    "NaN": lambda reply: with_each(reply, lambda value: value * np.nan),
    "another array": lambda reply: with_arrays(reply, lambda arrays: {**arrays, "more": np.zeros(2)}),
    "missing array": lambda reply: with_arrays(reply, lambda arrays: {"z": arrays["z"]}),
    "another type": lambda reply: with_each(reply, lambda value: value.astype(str)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_reply_counts_as_none(study, fault):
    fitted = study.run(exact, grid=tampering(FAULTS[fault]), run_config={"round-timeout": 0.3})
    expected = np.ones((8, 4), dtype=bool)
    expected[2, 1] = False
    np.testing.assert_array_equal(fitted.history_["replied"], expected)
    assert np.isfinite(fitted.coef_).all()


def test_a_duplicate_reply_counts_once(study):
    fitted = study.run(exact, grid=tampering(lambda reply: [reply, reply], rounds=range(8)))
    np.testing.assert_array_equal(fitted.coef_, study.run(exact).coef_)


def test_a_late_reply_is_ignored_and_its_site_goes_on_from_the_servers_memory(study):
    class Late(LocalGrid):
        late = None

        def deliver(self, message):
            replies = super().deliver(message)
            question = decode(message.content).config
            if message.metadata.message_type == "train" and site_of(self, message) == "b":
                if question["round"] == 2:
                    self.late = replies
                    return []
                if question["round"] == 3:
                    assert question["resume"]
                    return [*self.late, *replies]
            return replies

    fitted = study.run(exact, grid=Late, run_config={"round-timeout": 0.3})
    assert fitted.history_["replied"].sum() == 31
    # the lost round moved the site's dual; from the server's memory it goes on as if it had not been asked

    class NotAsked(LocalGrid):
        def deliver(self, message):
            asked = message.metadata.message_type != "train" or site_of(self, message) != "b"
            return super().deliver(message) if asked or decode(message.content).config["round"] != 2 else []

    same = study.run(exact, grid=NotAsked, run_config={"round-timeout": 0.3})
    np.testing.assert_allclose(fitted.coef_, same.coef_, atol=1e-6)  # cuts survive: equal up to the solver's gap


def mixed(config):
    return AFLRegressor(solver="descent_ascent", n_rounds=8, step_size=0.01, average=False, fit_intercept=False)


def test_a_mixture_counts_an_absent_site_with_its_last_value(study):
    fitted = study.run(mixed, grid=tampering(FAULTS["lost"], rounds=(4,)), run_config={"round-timeout": 0.3})
    # by hand: no local model from an absent site, and the value that it had before
    sites = [study.load({"site-name": name}) for name in "abcd"]
    model, alpha, values = np.zeros(3), np.full(4, 0.25), np.zeros(4)
    for t in range(8):
        models = np.repeat(model[None], 4, axis=0)
        for g, (X, y) in enumerate(sites):
            if (t, g) != (4, 1):
                values[g] = np.mean((y - X @ model) ** 2)
                models[g] += 0.01 * 2 * X.T @ (y - X @ model) / len(y)
        model, alpha = alpha @ models, alpha + 0.01 * (values - values.mean())
        assert alpha.min() > 0  # so that the projection on the simplex only takes the mean away
        np.testing.assert_allclose(fitted.history_["mixture_weights"][t], alpha, rtol=1e-12)
    np.testing.assert_allclose(fitted.coef_, model, rtol=1e-12)
    assert np.isfinite(fitted.certificate_)


def test_a_site_that_is_silent_at_the_end_leaves_its_risk_unknown(study):
    class Silent(LocalGrid):
        def deliver(self, message):
            silent = message.metadata.message_type == "evaluate" and site_of(self, message) == "b"
            return [] if silent else super().deliver(message)

    with pytest.warns(match=r"Client\(s\) \['b'\] did not answer the last question"):
        fitted = study.run(mixed, grid=Silent, run_config={"round-timeout": 0.3})
    whole = study.run(mixed)
    np.testing.assert_array_equal(fitted.coef_, whole.coef_)
    np.testing.assert_array_equal(np.isnan(fitted.client_risks_), [False, True, False, False])
    np.testing.assert_array_equal(fitted.client_risks_[[0, 2, 3]], whole.client_risks_[[0, 2, 3]])
    assert np.isnan(fitted.certificate_)


def restarting(gone, back):
    """A grid in which site b is gone from one round on, and back as a new node in the course of another."""

    class Restarting(LocalGrid):
        def push_messages(self, messages):
            now = max(decode(message.content).config.get("round", -1) for message in messages)
            (b, *again) = (n for n, c in self.contexts.items() if c.node_config["site-name"] == "b")
            if now == gone:
                self.disconnect(b)
            ids = super().push_messages(messages)
            if now == back and not again:
                self.connect(self.contexts[b].node_config)
            return ids

    return Restarting


@pytest.mark.parametrize("make", [exact, private])
def test_a_restarted_site_takes_its_place_again(study, make):
    fitted = study.run(make, grid=restarting(2, 3))
    n_rounds = make({}).n_rounds
    expected = np.ones((n_rounds, 4), dtype=bool)
    expected[2:5, 1] = False  # back before round 4, introduced in it
    np.testing.assert_array_equal(fitted.history_["replied"], expected)


def test_the_ledger_survives_a_restart(study):
    study.run(private, grid=restarting(2, 3))
    lines = {
        name: SiteLedger(study.state_dir / name / "ledger.jsonl", 20.0, 1e-4).lines for name in ("a", "b", "c", "d")
    }
    assert [line["round"] for line in lines["a"]] == list(range(6))
    assert [line["round"] for line in lines["b"]] == [0, 1, 5]
    # a full run costs what the plan says
    mu_squared = sum(line["mu_squared"] for line in lines["a"])
    assert gaussian_epsilon(np.sqrt(mu_squared), 1e-4) == pytest.approx(5.0, rel=1e-6)


def test_a_site_with_other_features_is_refused(study):
    def load(node_config):
        X, y = study.load(node_config)
        return (X[:, :2] if node_config["site-name"] == "c" else X), y

    fitted = study.run(exact, load=load, run_config={"min-clients": 3})
    assert fitted.clients_.tolist() == ["a", "b", "d"]
    with pytest.raises(RuntimeError, match=r"(?s)3 did.*c: has 2 features, the others 3"):
        study.run(exact, load=load, run_config={"start-timeout": 0.3})


def test_a_site_with_other_classes_is_refused(study):
    study.y[np.flatnonzero(study.groups == "c")[0]] = 9
    with pytest.raises(RuntimeError, match="c: has labels outside the public classes"):
        study.run(exact, classes=[0, 1, 2], run_config={"start-timeout": 0.3})


def test_a_site_with_labels_of_another_type_is_refused(study):
    def load(node_config):
        X, y = study.load(node_config)
        return X, (y.astype(str) if node_config["site-name"] == "c" else y)

    with pytest.raises(RuntimeError, match="c: has labels of another type"):
        study.run(exact, load=load, run_config={"start-timeout": 0.3})


def test_a_site_that_computes_with_other_settings_is_refused(study):
    calls = []

    def make(config):
        calls.append(None)
        return FedDROClassifier(radius=0.05 if len(calls) != 3 else 0.06, n_rounds=3)

    with pytest.raises(RuntimeError, match="other settings than the server: radius"):
        study.run(make, run_config={"start-timeout": 0.3})


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"random_state": 0}, "random-state"),
        ({"aggregation": "trusted"}, "trusted"),
        ({"diagnostics": "not-private"}, "diagnostics"),
        ({"classes": None}, "classes"),
        ({"epsilon": 30.0}, "over-budget"),
        ({"adjacency": "zero_out"}, "adjacency"),
    ],
)
def test_a_site_refuses_what_it_may_not_do(study, changed, code):
    def make(config):
        return DPFedDROClassifier(**{"epsilon": 5.0, "delta": 1e-4, "classes": [0, 1, 2], "n_rounds": 3} | changed)

    with pytest.raises(RuntimeError) as error:
        study.run(make, run_config={"start-timeout": 0.3})
    assert REFUSALS[code] in str(error.value)
    assert not list(study.state_dir.glob("*/ledger.jsonl"))


def test_runs_under_the_other_adjacency_need_the_sites_consent_and_a_ledger_of_their_own(study):
    def zero_out(config):
        return private(config).set_params(adjacency="zero_out")

    study.private["adjacency"] = "zero_out"
    assert study.run(zero_out).privacy_.adjacency == "zero_out"
    ledger = study.state_dir / "d" / "ledger.jsonl"
    before = ledger.read_bytes()
    for make, adjacency, code in ((private, "zero_out", "adjacency"), (private, "replace_one", "ledger-adjacency")):
        study.private["adjacency"] = adjacency
        with pytest.raises(RuntimeError) as error:
            study.run(make, run_config={"start-timeout": 0.3})
        assert REFUSALS[code] in str(error.value)
    assert ledger.read_bytes() == before


def test_a_random_state_in_the_run_is_refused_even_if_it_is_not_used(study):
    with pytest.raises(RuntimeError, match="random_state comes with the run"):
        study.run(private, run_config={"random_state": 0, "start-timeout": 0.3})


def test_no_configuration_makes_a_site_accept_a_seed():
    assert "accept_seed" not in make_client_app.__annotations__
    app = make_client_app(lambda config: DPFedDROClassifier(random_state=0, classes=[0, 1]), lambda config: None)
    grid = LocalGrid(app, [{"site-name": "a", "accept_seed": True, "max-epsilon": 1.0, "state-dir": "s"}])
    grid.run_config.update({"accept_seed": True})
    (reply,) = grid.deliver(ask(grid, "query.facts", Parcel({"number": 1})))
    assert decode(reply.content).config["refused"] == "random-state"


@pytest.mark.parametrize(
    ("node_config", "code"),
    [
        ({"max-epsilon": 5.0}, "no-state-dir"),
        ({"state-dir": "here"}, "no-cap"),
        ({"state-dir": "here", "max-epsilon": "unlimited"}, "no-cap"),
        ({"state-dir": "here", "max-epsilon": float("inf")}, "no-cap"),
        ({"state-dir": "here", "max-epsilon": -1.0}, "no-cap"),
    ],
)
def test_a_private_run_needs_a_cap_and_a_ledger(study, node_config, code):
    with pytest.raises(RuntimeError) as error:
        study.run(
            private,
            configs=[{"site-name": name, **node_config} for name in "abcd"],
            run_config={"start-timeout": 0.3},
        )
    assert REFUSALS[code] in str(error.value)


def test_a_site_with_a_budget_answers_private_runs_only(study):
    with pytest.raises(RuntimeError, match="answers private runs only"):
        study.run(exact, configs=study.configs(private=True), run_config={"start-timeout": 0.3})


def ask(grid, kind, parcel):
    from flwr.app import Metadata

    node = next(iter(grid.contexts))
    metadata = Metadata(grid.run_id, "m", 1, node, "", "", 0.0, 1e12, kind)
    return Message(content=encode(parcel), metadata=metadata)


def test_a_server_that_asks_for_more_rounds_than_the_cap_allows_gets_no_more(study):
    study.private["max-epsilon"] = 5.0
    study.run(private)
    grid = study.grid
    question = replay(study)
    for n_more in range(3):
        (reply,) = grid.deliver(question)
        answer = decode(reply.content)
        assert answer.config["refused"] == "over-budget"
        assert not answer.arrays, n_more
    ledger = SiteLedger(study.state_dir / "d" / "ledger.jsonl", 5.0, 1e-4)
    assert len(ledger.lines) == 6


def test_repeats_are_charged_and_draw_fresh_noise(study):
    study.private["max-epsilon"] = 6.0
    study.run(private)
    ledger = SiteLedger(study.state_dir / "d" / "ledger.jsonl", 6.0, 1e-4)
    before = ledger.mu_squared
    (first,), (second,) = study.grid.deliver(replay(study)), study.grid.deliver(replay(study))
    assert ledger.mu_squared == pytest.approx(before * 8 / 6)
    gradients = [decode(reply.content).arrays["message"]["gradient"] for reply in (first, second)]
    assert not np.array_equal(*gradients)


def test_rounds_outside_the_plan_are_refused(study):
    study.run(private)
    (reply,) = study.grid.deliver(replay(study, round=6))
    assert decode(reply.content).config["refused"] == "rounds"


def test_a_server_that_lies_about_the_number_of_records_gets_nothing(study):
    study.run(private)
    (reply,) = study.grid.deliver(replay(study, n_records=np.array([10**6] * 4)))
    assert decode(reply.content).config["failed"]


def replay(study, round=0, **terms):
    """A round's question to site d, as a hostile server might send it."""
    from skdro.flower._wire import pack_schema

    model = private({})
    model._records_of_site(study.X, study.y)
    schema = pack_schema(model._schema())
    sizes = np.unique(study.groups, return_counts=True)
    arrays = {
        "message": {"model": np.zeros((3, 4)), "round": np.asarray(round), "spread": np.asarray(0.0)},
        "terms": {"clients": sizes[0], "n_records": sizes[1], **terms},
        **schema.arrays,
    }
    return ask(
        study.grid,
        "train",
        Parcel({"number": 9, "round": round, "heard": -1, "resume": False, **schema.config}, arrays),
    )


SECRET = "patient 4711 is positive"


def test_a_client_that_raises_sends_a_fixed_text(study, caplog):
    calls = []

    def load(node_config):
        calls.append(node_config["site-name"])
        if node_config["site-name"] == "b" and calls.count("b") > 3:
            raise ValueError(SECRET)
        return study.load(node_config)

    replies = []

    class Listening(LocalGrid):
        def deliver(self, message):
            replies.extend(super().deliver(message))
            return replies[-1:]

    fitted = study.run(exact, grid=Listening, load=load)
    assert not fitted.history_["replied"][2:, 1].any()
    assert fitted.history_["replied"][:, [0, 2, 3]].all()
    assert all(reply.has_content() for reply in replies)
    assert not any(SECRET in repr(reply) for reply in replies)
    assert any(SECRET in record.exc_text for record in caplog.records if record.exc_text)  # the site's own log
    with pytest.raises(RuntimeError) as error:
        study.run(exact, load=load, run_config={"start-timeout": 0.3})
    assert FAILURE in str(error.value)
    assert SECRET not in str(error.value)


def test_too_few_sites_end_the_start_with_the_reason(study):
    with pytest.raises(RuntimeError, match=r"min-clients=4 sites did not join within start-timeout=0.3 s: 3 did"):
        study.run(exact, configs=study.configs(False)[1:], run_config={"start-timeout": 0.3})


def test_three_rounds_without_quorum_end_the_run(study):
    with pytest.raises(RuntimeError, match=r"quorum=4 sites replied in the last 3 round\(s\), up to round 4"):
        study.run(
            exact,
            grid=tampering(lambda reply: [], rounds=range(2, 8)),
            run_config={"quorum": 4, "round-timeout": 0.2},
        )


def test_a_round_without_quorum_leaves_the_model_as_it_is(study):
    fitted = study.run(
        exact, grid=tampering(lambda reply: [], rounds=(2, 3)), run_config={"quorum": 4, "round-timeout": 0.2}
    )
    np.testing.assert_array_equal(fitted.history_["attempt"], [0, 1, 4, 5, 6, 7])
    assert fitted.history_["replied"].all()
    # the sites that did reply were taken back to what the server remembers: six plain rounds are the same, up to
    # the cuts that the sites have kept
    again = FedDROClassifier(radius=0.05, n_rounds=6).fit(study.X, study.y, groups=study.groups)
    np.testing.assert_allclose(fitted.coef_, again.coef_, atol=1e-4)


def test_two_nodes_with_one_name_are_one_site(study):
    configs = [*study.configs(False), {"site-name": "a"}]
    fitted = study.run(exact, configs=configs)
    assert fitted.clients_.tolist() == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("key", "value"), [("quorum", 0), ("quorum", 5), ("min-clients", 1.5), ("round-timeout", "long")]
)
def test_bad_settings_name_their_key(study, key, value):
    with pytest.raises(ValueError, match=key):
        study.run(exact, run_config={key: value})
