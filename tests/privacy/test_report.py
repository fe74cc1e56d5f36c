import json
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from skdro.privacy.accounting import ACCOUNTANTS
from skdro.privacy.noise import OSNoise, StreamNoise
from skdro.privacy.plan import AGGREGATIONS, ReleaseKind, gaussian_plan
from skdro.privacy.report import Event, PrivacyReport, privacy_report
from skdro.privacy.sensitivity import ADJACENCIES, mean_gradient, weighted_gradient_sum

SIZES = np.array([10, 40, 50])
LABELS = np.array(["north", "south", "west"])
REPLACE = ADJACENCIES["replace_one"]


def report(aggregation="local", accountant="gdp", noise=None, epsilon=3.73, **options):
    sensitivity = {
        "local": mean_gradient(1.0, SIZES, REPLACE),
        "trusted": weighted_gradient_sum(1.0, np.full(3, 1 / 3), SIZES, REPLACE),
    }[aggregation]
    plan = gaussian_plan(
        [ReleaseKind("gradient", 50)],
        {"gradient": sensitivity},
        epsilon=epsilon,
        delta=1e-6,
        adjacency=REPLACE,
        aggregation=AGGREGATIONS[aggregation],
        accountant=ACCOUNTANTS[accountant],
    )
    options = {"clients": LABELS, "public": ["rows per client", "classes"]} | options
    return privacy_report(plan, noise=OSNoise() if noise is None else noise, **options)


def leaves(value):
    """Every value inside nested containers."""
    if isinstance(value, dict):
        return [leaf for pair in value.items() for part in pair for leaf in leaves(part)]
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("epsilon", [0.05, 0.9, 3.73, 100.0, 1000.0])
def test_epsilon_follows_from_the_pickled_events(aggregation, accountant, epsilon):
    private = pickle.loads(pickle.dumps(report(aggregation, accountant, epsilon=epsilon)))
    mu_squared = dict.fromkeys(LABELS.tolist(), 0.0)
    for event in private.events:
        assert (event.type, event.q, event.count, event.name) == ("gaussian", 1.0, 50, "gradient")
        mu_squared[event.client] += 50 * (event.sensitivity / event.sigma) ** 2
    assert abs(max(mu_squared.values()) / private.mu**2 - 1) < 1e-12
    for rederived in (
        private.rederive_epsilon(),
        ACCOUNTANTS[accountant].epsilon(max(mu_squared.values()) ** 0.5, 1e-6),
    ):
        assert rederived <= epsilon
        assert abs(rederived / private.epsilon - 1) < 1e-12


def test_epsilon_is_the_largest_over_clients():
    trusted = report("trusted")
    assert list(trusted.per_client) == ["north", "south", "west"]
    exposure = [guarantee.mu for guarantee in trusted.per_client.values()]
    np.testing.assert_allclose(exposure, trusted.mu * 10 / SIZES, rtol=1e-12)
    epsilons = [guarantee.epsilon for guarantee in trusted.per_client.values()]
    assert trusted.epsilon == epsilons[0] > epsilons[1] > epsilons[2]
    for guarantee in trusted.per_client.values():
        assert guarantee.epsilon == ACCOUNTANTS["gdp"].epsilon(guarantee.mu, 1e-6)


def test_rederived_epsilon_adds_up_kinds_within_a_client_only():
    events = tuple(
        Event("gaussian", 1.0, sensitivity, 1.0, 3, name, client)
        for client, sensitivity in (("a", 0.1), ("b", 0.2))
        for name in ("model", "multiplier")
    )
    fields = {name: getattr(report(), name) for name in PrivacyReport.__dataclass_fields__}
    assert PrivacyReport(**fields | {"events": events}).rederive_epsilon() == ACCOUNTANTS["gdp"].epsilon(
        np.sqrt(2 * 3 * 0.2**2), 1e-6
    )


def test_private_fit():
    private = report(assumes=["classes"])
    assert private.private and private.nominal_epsilon is None
    assert (private.unit, private.adjacency, private.delta) == ("record", "replace_one", 1e-6)
    assert private.assumes == ["classes"]
    assert "server" in private.trust and "os.urandom" in private.noise
    assert (private.accountant, private.accountant_version) == ("gdp", "1")


def test_seeded_noise_makes_the_number_nominal():
    seeded = report(noise=StreamNoise(0))
    assert not seeded.private and seeded.epsilon is None
    assert seeded.nominal_epsilon == report().epsilon
    assert "NOT PRIVATE" in repr(seeded) and "nominal" in repr(seeded) and "random_state" in repr(seeded)


def test_diagnostics_make_the_number_nominal():
    exposed = report(why_not_private=["diagnostics on private data"])
    assert not exposed.private and exposed.epsilon is None
    assert "diagnostics" in repr(exposed)


def test_repr_says_it_in_words():
    text = repr(report("trusted", assumes=["classes"]))
    assert text.startswith("PrivacyReport: (epsilon, delta) = (3.73, 1e-06) for one record, replace-one")
    for words in ("exact sum", "50 x 'gradient'", "exact Gaussian-DP", "3, disjoint", "rows per client"):
        assert words in text
    assert text.endswith("read from the data although assumed public: classes")
    assert "NOT PRIVATE" not in text and "moments" in repr(report(accountant="moments"))


def test_repr_of_one_client_and_of_a_thousand_stays_short():
    plan_of = lambda n: gaussian_plan(  # noqa: E731
        [ReleaseKind("gradient", 5)],
        {"gradient": np.linspace(0.1, 0.2, n)},
        epsilon=1.0,
        delta=1e-6,
        adjacency=REPLACE,
        aggregation=AGGREGATIONS["trusted"],
    )
    for n in (1, 1000):
        text = repr(privacy_report(plan_of(n), clients=range(n), noise=OSNoise(), public=[]))
        assert len(text.splitlines()) == 7 and str(n) in text and "public      : nothing" in text


@pytest.mark.parametrize("labels", [LABELS, np.array([3, 5, 9])], ids=["strings", "integers"])
def test_report_is_plain_data(labels):
    private = report(clients=labels)
    fields = json.loads(json.dumps(private.to_dict()))
    assert fields["private"] is True and fields["epsilon"] == private.epsilon
    assert [client["client"] for client in fields["per_client"]] == labels.tolist()
    assert fields["events"][2]["sigma"] == private.events[2].sigma
    assert set(fields) == set(PrivacyReport.__dataclass_fields__) | {"private"}
    allowed = {str, float, int, bool, type(None)}
    assert {type(leaf) for leaf in leaves(private.to_dict())} <= allowed


def test_report_cannot_be_edited():
    with pytest.raises(FrozenInstanceError):
        report().epsilon = 0.1


def test_relative_releases_are_named_so_and_cost_by_their_multiplier():
    plan = gaussian_plan(
        [ReleaseKind("gradient", 2, 0.8), ReleaseKind("gradient change", 8, 0.2, relative=True)],
        {"gradient": 1 / SIZES, "gradient change": 0.1 / SIZES},
        epsilon=1.0,
        delta=1e-6,
        adjacency=REPLACE,
        aggregation=AGGREGATIONS["local"],
    )
    private = privacy_report(plan, clients=LABELS, noise=OSNoise(), public=[])
    assert [event.relative for event in private.events] == [False] * 3 + [True] * 3
    assert "times the sensitivity (relative to the round's public clip)" in repr(private)
    assert private.rederive_epsilon() == pytest.approx(private.epsilon, rel=1e-12)
    assert json.loads(json.dumps(private.to_dict()))["events"][3]["relative"] is True


def test_the_budget_in_words():
    words = report("trusted").in_words()
    assert words.startswith(
        "Every record is protected with total epsilon 3.73 and delta 1e-06 (replace-one): "
        "50 noisy releases of the gradient about 3 clients. Trusted: whoever adds the noise"
    )
    assert "read from the data" not in words
    assert report(assumes=["classes"]).in_words().endswith("taken for public, and read from the data: classes.")
    lost = report(noise=StreamNoise(0)).in_words()
    assert lost.startswith("No record is protected: random_state is set") and "would be total epsilon 3.73" in lost


def test_a_notebook_shows_the_words_and_the_table():
    html = report(clients=["<north>", "south", "west"], public=["<rows>"])._repr_html_()
    assert html.startswith("<p>Every record is protected") and html.count("<tr>") == 6
    assert "<th>accountant</th>" in html and "&lt;rows&gt;" in html and "<rows>" not in html
