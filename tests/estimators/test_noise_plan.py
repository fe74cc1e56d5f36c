"""plan_noise: the numbers of a fit, known before it, and a noise that is as large as it says."""

import numpy as np
import pytest

from skdro import DPFedDROClassifier, plan_noise
from skdro.federation import doors
from skdro.privacy.accounting import gaussian_mu
from skdro.privacy.mechanism import release

ROWS = {"a": 40, "b": 30, "c": 20, "d": 10}
SETTINGS = [
    {},
    {"aggregation": "trusted"},
    {"aggregation": "trusted", "client_weights": "uniform", "adjacency": "zero_out"},
    {"variant": "paper", "kappa": 1.0},
    {"data_norm": 3.0, "fit_intercept": False, "accountant": "moments"},
]


def planned(**parameters):
    return plan_noise(2.0, 1e-5, 4, ROWS, **{"n_features": 3, "n_classes": 3, **parameters})


@pytest.mark.parametrize("parameters", SETTINGS)
def test_plan_is_the_report_of_a_fit_and_its_noise(parameters, monkeypatch):
    rng, drawn = np.random.default_rng(0), {}

    def watched(exact, *, name, noise, **rest):
        drawn.setdefault(name, []).append(rest["multiplier"] * rest["sensitivity"])
        assert exact[0].size == plan.n_coefficients or name == "multiplier"
        return release(exact, name=name, noise=noise, **rest)

    plan = planned(**parameters)
    monkeypatch.setattr(doors, "release", watched)
    model = DPFedDROClassifier(epsilon=2.0, delta=1e-5, n_rounds=4, classes=[0, 1, 2], **parameters)
    model.fit(rng.normal(size=(100, 3)), np.arange(100) % 3, groups=np.repeat(list(ROWS), list(ROWS.values())))
    assert plan.report == model.privacy_ and plan.epsilon == model.privacy_.epsilon
    sigmas = [each.sigma for each in plan.noise.values()]
    assert len(drawn[plan.release]) == 4
    for sigma in drawn[plan.release]:
        np.testing.assert_array_equal(sigma, sigmas)


@pytest.mark.parametrize(("adjacency", "ball"), [("replace_one", 2), ("zero_out", 1)])
def test_local_noise_in_closed_form(adjacency, ball):
    plan = planned(adjacency=adjacency)
    mu = gaussian_mu(2.0, 1e-5)
    for client, each in plan.noise.items():
        sigma = np.sqrt(4) * ball * np.sqrt(2) / ROWS[client] / mu
        assert each.rows == ROWS[client] and each.sigma == pytest.approx(sigma, rel=1e-6)
        assert each.ratio_round == pytest.approx(sigma * np.sqrt(12) / np.sqrt(2), rel=1e-6)
        assert each.ratio_total == pytest.approx(each.ratio_round / 2)
        assert each.drowning_rows == pytest.approx(ball * np.sqrt(12) / mu, rel=1e-6)
    assert plan.n_coefficients == 12 and plan.drowning_rows == pytest.approx(ball * np.sqrt(12) / mu, rel=1e-6)


@pytest.mark.parametrize("parameters", [{}, {"aggregation": "trusted"}])
def test_the_signal_drowns_where_it_says(parameters):
    few, many = planned(**parameters), {client: 7 * count for client, count in ROWS.items()}
    again = plan_noise(2.0, 1e-5, 4, many, n_features=3, n_classes=3, **parameters)
    for before, after in zip(few.noise.values(), again.noise.values(), strict=True):
        assert after.rows == 7 * before.rows and after.ratio_total == pytest.approx(before.ratio_total / 7)
        assert after.drowning_rows == pytest.approx(before.drowning_rows)  # where the ratio is one


def test_trusted_noise_is_added_once():
    plan = planned(aggregation="trusted")
    assert list(plan.noise) == ["all clients"] and plan.noise["all clients"].rows == 100
    assert plan.drowning_rows == pytest.approx(planned().drowning_rows)  # of all rows, and not of each client


def test_noise_of_a_fit_drowns_the_signal_as_the_plan_says():
    """At ratio r, the released mean over rounds of a constant gradient has noise r times as long as the gradient."""
    plan = plan_noise(2.0, 1e-5, 50, 30, n_features=20, n_classes=2)
    each = plan.noise[0]
    noise = each.sigma * np.random.default_rng(0).normal(size=(200, 50, 42)).mean(axis=1)
    assert np.sqrt((noise**2).sum(axis=1).mean()) / np.sqrt(2) == pytest.approx(each.ratio_total, rel=0.02)


def test_repr_and_many_clients():
    text = repr(planned())
    assert "4 x 'gradient' of 12 coefficients" in text and "drowns below" in text
    assert "and 12 more" in repr(plan_noise(1.0, 1e-5, 2, [5] * 20, n_features=2, n_classes=2))


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"n_features": 0}, "n_features"),
        ({"n_classes": 1}, "n_classes"),
        ({"aggregation": "nobody"}, "aggregation"),
        ({"no_parameter": 1}, "no_parameter"),
    ],
)
def test_bad_plans_are_named(parameters, named):
    with pytest.raises(ValueError, match=named):
        planned(**parameters)


@pytest.mark.parametrize("rows", [0, [], [5, 0], [2.5], {}])
def test_bad_rows_are_named(rows):
    with pytest.raises(ValueError, match="n_rows_per_client"):
        plan_noise(1.0, 1e-5, 2, rows, n_features=2, n_classes=2)


def test_a_seeded_plan_shows_its_noise_and_claims_nothing():
    plan = plan_noise(1.0, 1e-5, 30, 100, n_features=3, n_classes=2, random_state=0)
    assert plan.epsilon is None
    assert repr(plan).startswith("NoisePlan: nothing is claimed, since random_state is set; 30 x 'gradient'")
