"""BudgetAccountant: what it charges, what it refuses, and that its file is exact and cannot be damaged unnoticed."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from skdro import DPFedDROClassifier
from skdro.exceptions import BudgetExceededError
from skdro.privacy import BudgetAccountant
from skdro.privacy.report import Event

X, Y, GROUPS = np.random.default_rng(0).normal(size=(24, 2)), np.arange(24) % 2, np.repeat(["a", "b", "c"], 8)
MAPS = {"one": GROUPS, "other": np.roll(GROUPS, 1)}


def classifier(epsilon=1.0, **parameters):
    return DPFedDROClassifier(**{"epsilon": epsilon, "classes": [0, 1], "n_rounds": 2, **parameters})


def spent(accountant, epsilon, groups=GROUPS, **parameters):
    return accountant.fit(classifier(epsilon, **parameters), X, Y, groups=groups)


def epsilon_of(mu, delta):
    """Epsilon of mu-GDP from the plain formula."""

    def gap(epsilon):
        return norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2) - delta

    return brentq(gap, 0, 100)


class Stub:
    """An estimator whose plan is given: mu of each client, by label, in one release."""

    def __init__(self, mu, **changes):
        self.mu, self.changes, self.fits = mu, changes, 0

    def privacy_plan(self, X, groups=None):
        plan = classifier().privacy_plan(X, groups)
        events = tuple(Event("gaussian", 1.0, mu, 1.0, 1, "sum", client) for client, mu in self.mu.items())
        return replace(plan, events=events, **self.changes)

    def fit(self, X, y, groups=None):
        self.fits += 1
        self.privacy_ = self.privacy_plan(X, groups)


def totals_by_hand(fits):
    """mu^2 of the record that is exposed most, over all pairs of a client under either map."""
    return max(
        sum(mu[clients[which]] ** 2 for which, mu in fits)
        for clients in ({"one": g, "other": h} for g in "abc" for h in "abc")
    )


@given(
    fits=st.lists(
        st.tuples(st.sampled_from(["one", "other"]), st.fixed_dictionaries(dict.fromkeys("abc", st.floats(0, 2)))),
        min_size=1,
        max_size=5,
    )
)
def test_charges_add_up_over_fits_and_over_maps_and_not_over_clients(fits):
    accountant = BudgetAccountant(None, 1e-6)
    for which, mu in fits:
        accountant.fit(Stub(mu), X, Y, groups=MAPS[which])
    assert accountant.mu == pytest.approx(np.sqrt(totals_by_hand(fits)))


def test_clients_that_take_turns_share_nothing_under_one_map_only():
    turns = [
        classifier(2.0, aggregation="trusted", client_weights=dict.fromkeys("abc", 0.0) | {c: 1.0}) for c in "abc"
    ]
    same, different = BudgetAccountant(2.0, 1e-5), BudgetAccountant(2.0, 1e-5)
    for turn in turns:
        same.fit(turn, X, Y, groups=GROUPS)
    assert same.epsilon <= 2.0
    different.fit(turns[0], X, Y, groups=GROUPS)
    with pytest.raises(BudgetExceededError):
        different.fit(turns[1], X[1:], Y[1:], groups=GROUPS[1:])  # fewer rows: another map


def test_totals_are_those_of_the_closed_form():
    accountant = BudgetAccountant(None, 1e-5)
    models = [spent(accountant, epsilon) for epsilon in (0.5, 1.0, 2.0)]
    mu = np.sqrt(sum(model.privacy_.mu**2 for model in models))
    assert accountant.mu == pytest.approx(mu)
    assert accountant.epsilon == pytest.approx(epsilon_of(mu, 1e-5), rel=1e-6)
    assert 2.0 < accountant.epsilon < 3.5
    assert "no ceiling" in repr(accountant) and accountant.remaining.epsilon == np.inf


@given(ceiling=st.floats(0.1, 20), shares=st.lists(st.floats(0.05, 0.95), min_size=1, max_size=4))
def test_what_remains_can_be_spent_to_the_end_and_never_beyond(ceiling, shares):
    """The adaptive game: each budget is a share of what is left; in the end all of it."""
    accountant = BudgetAccountant(ceiling, 1e-6)
    for share in shares:
        accountant.fit(Stub(dict.fromkeys("abc", share * accountant.remaining.mu)), X, Y, groups=GROUPS)
    plan = classifier(accountant.remaining.epsilon, delta=accountant.remaining.delta).privacy_plan(X, GROUPS)
    accountant.fit(Stub(dict.fromkeys("abc", plan.mu)), X, Y, groups=GROUPS)
    assert 0.999 * ceiling < accountant.epsilon <= ceiling * (1 + 1e-9)
    with pytest.raises(BudgetExceededError):
        accountant.fit(Stub(dict.fromkeys("abc", 0.05 * accountant.mu)), X, Y, groups=GROUPS)


def test_a_refused_fit_touches_no_data_and_is_not_charged():
    accountant = BudgetAccountant(1.0, 1e-5)
    model = Stub(dict.fromkeys("abc", 0.5))  # epsilon 2
    with pytest.raises(BudgetExceededError, match=r"1\.99\d at delta = 1e-05; the ceiling is 1\.") as caught:
        accountant.fit(model, X, Y, groups=GROUPS)
    assert model.fits == 0 and accountant.charges == () and accountant.mu == 0
    assert f"{accountant.remaining.epsilon:.4g}" in str(caught.value)


def test_a_fit_that_fails_stays_charged():
    accountant = BudgetAccountant(2.0, 1e-5)
    with pytest.raises(ValueError, match="NaN"):
        accountant.fit(classifier(1.9), np.full_like(X, np.nan), Y, groups=GROUPS)
    assert [charge.status for charge in accountant.charges] == ["failed"]
    with pytest.raises(BudgetExceededError):
        spent(accountant, 1.9)


def test_the_charge_is_made_before_the_data_are_touched():
    accountant = BudgetAccountant(2.0, 1e-5)
    model, seen = Stub({"a": 0.1}), []
    sound = model.fit

    def watched(*args, **kwargs):
        seen.append([charge.status for charge in accountant.charges])
        sound(*args, **kwargs)

    model.fit = watched
    accountant.fit(model, X, Y, groups=GROUPS)
    assert seen == [["reserved"]] and accountant.charges[0].status == "spent"


class Liar(Stub):
    def fit(self, X, y, groups=None):
        super().fit(X, y, groups)
        self.privacy_ = replace(self.privacy_, events=self.privacy_.events * 2)


def test_a_fit_that_does_not_keep_to_its_plan_is_found():
    with pytest.raises(RuntimeError, match="did not keep"):
        BudgetAccountant(2.0, 1e-5).fit(Liar({"a": 0.1}), X, Y, groups=GROUPS)


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (object(), "privacy_plan"),
        (classifier(random_state=0), "random_state"),
        (classifier(diagnostics="not-private"), "diagnostics"),
        (classifier(classes=None), "classes"),
        (classifier(adjacency="zero_out"), "zero_out"),
        (Stub({}), "none listed"),
    ],
)
def test_what_cannot_be_accounted_for_is_refused(model, named):
    accountant = BudgetAccountant(100.0, 1e-5)
    with pytest.raises(ValueError, match=named):
        accountant.fit(model, X, Y, groups=GROUPS)
    assert accountant.charges == ()


class Sampled(Stub):
    def privacy_plan(self, X, groups=None):
        plan = super().privacy_plan(X, groups)
        return replace(plan, events=tuple(replace(event, q=0.1) for event in plan.events))


def test_sampled_events_need_a_budget_declared_in_advance():
    model = Sampled({"a": 0.1}, epsilon=0.5, delta=1e-6)
    accountant = BudgetAccountant(2.0, 1e-5, declared={"sgd": (0.5, 1e-6)})
    with pytest.raises(ValueError, match=r"q = 0\.1\). Declare their budget in advance"):
        accountant.fit(model, X, Y, groups=GROUPS)
    for name in ("other", "SGD"):
        with pytest.raises(ValueError, match="declared must be one of"):
            accountant.fit(model, X, Y, groups=GROUPS, declared=name)
    for larger in ({"epsilon": 0.51, "delta": 1e-6}, {"epsilon": 0.5, "delta": 2e-6}):
        with pytest.raises(BudgetExceededError, match="declared with"):
            accountant.fit(Sampled({"a": 0.1}, **larger), X, Y, groups=GROUPS, declared="sgd")
    accountant.fit(model, X, Y, groups=GROUPS, declared="sgd")
    with pytest.raises(BudgetExceededError, match="has been used"):
        accountant.fit(model, X, Y, groups=GROUPS, declared="sgd")
    assert model.fits == 1


def test_a_declared_budget_is_set_aside_from_the_beginning():
    accountant = BudgetAccountant(2.0, 1e-5, declared={"sgd": (0.5, 1e-6)})
    assert accountant.epsilon == 0.5
    assert accountant.remaining.epsilon == pytest.approx(1.5) and accountant.remaining.delta == pytest.approx(9e-6)
    with pytest.raises(BudgetExceededError):
        spent(accountant, 1.6)
    spent(accountant, accountant.remaining.epsilon, delta=accountant.remaining.delta)
    assert 1.99 < accountant.epsilon <= 2.0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": np.inf}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"adjacency": "add_remove"}, "adjacency"),
        ({"declared": {"x": (1.0, 1e-6)}}, "declared"),
        ({"declared": {"x": (0.1, 1e-5)}}, "declared"),
        ({"declared": {"x": (-0.1, 1e-6)}}, "epsilon"),
    ],
)
def test_bad_ledgers_are_refused(arguments, named):
    with pytest.raises(ValueError, match=named):
        BudgetAccountant(**{"epsilon": 1.0, "delta": 1e-5, **arguments})


@pytest.fixture
def ledger(tmp_path):
    accountant = BudgetAccountant(4.0, 1e-5, declared={"search": (0.1, 1e-7)})
    spent(accountant, 1.0)
    spent(accountant, 0.7, groups=np.arange(24) % 2)
    spent(accountant, 0.3, groups=np.repeat(np.array(["2020-01-01", "2021-01-01"], "M8[D]"), 12))
    accountant.fit(Sampled({"a": 0.1}, epsilon=0.1, delta=1e-7), X, Y, groups=GROUPS, declared="search")
    with pytest.raises(ValueError, match="label"):
        accountant.fit(classifier(0.1), X, Y + 2, groups=None)
    accountant.save(tmp_path / "ledger.json")
    return accountant, tmp_path / "ledger.json"


def test_the_file_holds_the_ledger_exactly(ledger, tmp_path):
    accountant, path = ledger
    again = BudgetAccountant.load(path)
    assert again == accountant and again.mu == accountant.mu and repr(again) == repr(accountant)
    assert [charge.status for charge in again.charges] == ["spent"] * 4 + ["failed"]
    again.save(tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_bytes() == path.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.json", "ledger.json"]
    spent(again, 0.1)
    assert again != accountant


def reworked(change):
    def damage(text):
        body = json.loads(text)
        change(body)
        return json.dumps(body)

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: "[]",
        lambda text: "null",
        lambda text: text[:-20],
        lambda text: text.replace('"count": 2', '"count": 1', 1),
        lambda text: text.replace("4.0", "400.0", 1),
        reworked(lambda body: body.pop("sha256")),
        reworked(lambda body: body["content"]["charges"].pop()),
        reworked(lambda body: body.update(version=2)),
        reworked(lambda body: body.update(format="other")),
    ],
)
def test_a_damaged_file_is_refused_by_name(ledger, damage):
    _, path = ledger
    sound = path.read_text()
    path.write_text(damage(sound))
    assert path.read_text() != sound
    with pytest.raises(ValueError, match=r"ledger\.json is no sound ledger"):
        BudgetAccountant.load(path)


def test_a_digit_that_was_changed_is_found_unless_it_is_below_the_precision_of_a_float(ledger):
    accountant, path = ledger
    text, refused = path.read_text(), 0
    places = [i for i, character in enumerate(text) if character in "123456789"]
    for place in np.random.default_rng(0).choice(places, 40, replace=False):
        digit = str(int(text[place]) % 9 + 1)
        path.write_text(text[:place] + digit + text[place + 1 :])
        try:
            assert BudgetAccountant.load(path) == accountant
        except ValueError:
            refused += 1
    assert refused > 30


def test_repr_tells_what_was_spent_and_what_is_left(ledger):
    accountant, _ = ledger
    lines = repr(accountant).splitlines()
    assert lines[0].startswith("BudgetAccountant: spent (epsilon, delta) = (")
    assert "1. DPFedDROClassifier: spent, mu = 0.26" in lines[1]
    assert lines[4] == "  4. Sampled: spent, declared 'search'" and "failed" in lines[5]
    assert "declared 'search': (0.1, 1e-07)" in lines[6] and "remaining" in lines[7]
