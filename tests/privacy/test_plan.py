from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdro.privacy.accounting import ACCOUNTANTS
from skdro.privacy.ledger import Release, check_ledger
from skdro.privacy.mechanism import release
from skdro.privacy.noise import StreamNoise
from skdro.privacy.plan import AGGREGATIONS, ReleaseKind, gaussian_plan, noise_multipliers
from skdro.privacy.sensitivity import ADJACENCIES

PAPER = (ReleaseKind("model", 20, share=0.95), ReleaseKind("multiplier", 20, share=0.05))
SENSITIVITY = {"model": np.array([0.1, 0.3, 0.2]), "multiplier": np.array([0.05, 0.01, 0.02])}


def paper_plan(**changes):
    options = dict(
        epsilon=2.0,
        delta=1e-6,
        adjacency=ADJACENCIES["replace_one"],
        aggregation=AGGREGATIONS["local"],
    )
    return gaussian_plan(PAPER, SENSITIVITY, **options | changes)


def carried_out(plan, rounds=20, blocks=((0, 1, 2),), **faults):
    """Ledger of a fit that follows the plan, clients in blocks."""
    ledger = []
    for block in blocks:
        clients = np.array(block)
        for t in range(rounds):
            for planned in plan.releases.values():
                options = dict(
                    name=planned.name,
                    sensitivity=planned.drawn[clients],
                    multiplier=planned.multiplier,
                    bound=1.0,
                    round=t,
                    noise=StreamNoise(0),
                    ledger=ledger,
                    clients=clients,
                )
                release(np.zeros((len(clients), 2)), **options | faults)
    return ledger


def test_per_round_noise_is_the_one_of_theorem_1():
    epsilon, delta = 0.5, 1e-6
    found = noise_multipliers(PAPER, epsilon=epsilon, delta=delta, budget="per_round")
    for name, squared in (("model", 0.95 * epsilon**2), ("multiplier", 0.05 * epsilon**2)):
        assert abs(found[name] / sqrt(2 * log(1.25 / delta) / squared) - 1) < 1e-14


@pytest.mark.parametrize("aggregation", AGGREGATIONS.values(), ids=AGGREGATIONS)
@pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=ACCOUNTANTS)
@settings(deadline=None)
@given(
    epsilon=st.floats(0.05, 1000.0),
    sensitivity=st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=5).map(np.array),
)
def test_total_budget_is_spent_and_not_exceeded(aggregation, accountant, epsilon, sensitivity):
    plan = gaussian_plan(
        [ReleaseKind("gradient", 50)],
        {"gradient": sensitivity},
        epsilon=epsilon,
        delta=1e-6,
        adjacency=ADJACENCIES["replace_one"],
        aggregation=aggregation,
        accountant=accountant,
    )
    assert epsilon * (1 - 1e-6) < plan.epsilon <= epsilon


def test_local_noise_exposes_all_clients_equally():
    plan = paper_plan()
    np.testing.assert_allclose(plan.mu, plan.mu[0], rtol=1e-14)
    np.testing.assert_allclose(plan.releases["model"].sigma / SENSITIVITY["model"], plan.releases["model"].multiplier)


def test_one_noise_on_the_sum_exposes_each_client_by_its_own_sensitivity():
    plan = paper_plan(aggregation=AGGREGATIONS["trusted"])
    expected = np.zeros(3)
    for planned in plan.releases.values():
        sensitivity = SENSITIVITY[planned.name]
        np.testing.assert_array_equal(planned.sigma, [planned.multiplier * sensitivity.max()])
        expected += 20 * (sensitivity / planned.sigma) ** 2
    np.testing.assert_allclose(plan.mu, np.sqrt(expected), rtol=1e-14)
    assert plan.epsilon == ACCOUNTANTS["gdp"].epsilon(plan.mu.max(), 1e-6) < 2.0


def test_a_client_of_weight_zero_is_not_exposed_by_the_trusted_sum():
    kinds, sensitivity = [ReleaseKind("gradient", 5)], {"gradient": np.array([0.0, 0.1])}
    options = dict(epsilon=1.0, delta=1e-6, adjacency=ADJACENCIES["replace_one"])
    plan = gaussian_plan(kinds, sensitivity, aggregation=AGGREGATIONS["trusted"], **options)
    assert plan.mu[0] == 0 < plan.mu[1]
    with pytest.raises(ValueError, match="gradient"):
        gaussian_plan(kinds, sensitivity, aggregation=AGGREGATIONS["local"], **options)


@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf])
def test_bad_sensitivities(bad):
    with pytest.raises(ValueError, match="multiplier"):
        gaussian_plan(
            PAPER,
            SENSITIVITY | {"multiplier": np.array([0.1, bad, 0.1])},
            epsilon=1.0,
            delta=1e-6,
            adjacency=ADJACENCIES["replace_one"],
            aggregation=AGGREGATIONS["trusted"],
        )


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([ReleaseKind("a", 0)], "count"),
        ([ReleaseKind("a", 1, 0.5)], "share"),
        ([ReleaseKind("a", 1, 1.5), ReleaseKind("b", 1, -0.5)], "share"),
        ([ReleaseKind("a", 1, np.nan)], "share"),
        ([ReleaseKind("a", 1, 0.5), ReleaseKind("a", 1, 0.5)], "name"),
    ],
)
def test_kinds_that_are_no_plan(kinds, message):
    with pytest.raises(ValueError, match=message):
        noise_multipliers(kinds, epsilon=1.0, delta=1e-5)


def test_bad_budget_and_bad_name_of_a_budget():
    with pytest.raises(ValueError, match="epsilon"):
        paper_plan(epsilon=-1.0)
    with pytest.raises(ValueError, match="delta"):
        paper_plan(delta=1.0, budget="per_round")
    with pytest.raises(ValueError, match="budget"):
        paper_plan(budget="monthly")


@pytest.mark.parametrize("blocks", [((0, 1, 2),), ((0,), (1,), (2,)), ((2, 0), (1,))])
def test_ledger_of_a_sound_fit_in_any_blocks(blocks):
    plan = paper_plan()
    check_ledger(plan, carried_out(plan, blocks=blocks))


def test_ledger_of_a_trusted_fit():
    plan = paper_plan(aggregation=AGGREGATIONS["trusted"])
    check_ledger(plan, carried_out(plan, blocks=((0,),)))


@pytest.mark.parametrize(
    "faults",
    [
        {"multiplier": 1.0},
        {"sensitivity": np.array([0.1, 0.3, 0.1])},
        {"name": "model"},
        {"name": "loss"},
        {"rounds": 19},
        {"rounds": 21},
        {"blocks": ((0, 1),)},
        {"blocks": ((0, 1, 2), (1,))},
    ],
    ids=str,
)
def test_ledger_with_a_fault_is_refused(faults):
    plan = paper_plan()
    with pytest.raises(RuntimeError, match="planned"):
        check_ledger(plan, carried_out(plan, **faults))


def test_early_stop_may_release_less_but_never_more():
    plan = paper_plan()
    check_ledger(plan, carried_out(plan, rounds=3), stopped=True)
    with pytest.raises(RuntimeError, match="number"):
        check_ledger(plan, carried_out(plan, rounds=21), stopped=True)


def test_a_line_can_stand_for_several_releases():
    plan = paper_plan()
    lines = [
        Release(planned.name, np.arange(3), planned.drawn, planned.sigma, count=20)
        for planned in plan.releases.values()
    ]
    check_ledger(plan, lines)


RELATIVE = (ReleaseKind("gradient", 4, share=0.9), ReleaseKind("gradient change", 6, share=0.1, relative=True))
UNITS = {"gradient": np.array([0.1, 0.3]), "gradient change": np.array([0.05, 0.15])}
SCALES = [1.0, 0.3, 1e-6, 2.0, 0.07, 0.5]


def relative_plan(aggregation="local"):
    return gaussian_plan(
        RELATIVE,
        UNITS,
        epsilon=2.0,
        delta=1e-6,
        adjacency=ADJACENCIES["replace_one"],
        aggregation=AGGREGATIONS[aggregation],
    )


def adaptive_ledger(plan, scales=SCALES, multiplier=None, per_draw=1.0):
    """Ledger of a fit whose later releases have sensitivities that depend on what was released before."""
    ledger = []
    for name, factors in (("gradient", [1.0] * 4), ("gradient change", scales)):
        planned = plan.releases[name]
        for t, factor in enumerate(factors):
            release(
                np.zeros((len(planned.drawn), 2)),
                name=name,
                sensitivity=planned.drawn * factor * (per_draw if planned.relative else 1.0),
                multiplier=planned.multiplier if multiplier is None or not planned.relative else multiplier,
                bound=1.0,
                round=t,
                noise=StreamNoise(0),
                ledger=ledger,
            )
    return ledger


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_relative_kind_may_scale_sensitivity_and_noise_together(aggregation):
    plan = relative_plan(aggregation)
    check_ledger(plan, adaptive_ledger(plan))
    # what the clients are exposed to follows from the ledger, whatever the scales were
    mu_squared = np.zeros(2)
    for line in adaptive_ledger(plan):
        exposed = UNITS[line.name] * (line.sensitivity / plan.releases[line.name].drawn)
        mu_squared += (exposed / line.sigma) ** 2
    np.testing.assert_allclose(np.sqrt(mu_squared), plan.mu, rtol=1e-12)
    assert plan.epsilon <= 2.0


@pytest.mark.parametrize(
    "faults", [{"multiplier": 1.0}, {"scales": SCALES[1:]}, {"per_draw": np.array([1.0, 0.5])}], ids=str
)
def test_a_relative_kind_with_a_fault_is_refused(faults):
    plan = relative_plan()
    with pytest.raises(RuntimeError, match="planned"):
        check_ledger(plan, adaptive_ledger(plan, **faults))


def test_a_kind_that_is_not_relative_may_not_scale():
    plan = paper_plan()
    with pytest.raises(RuntimeError, match="planned"):
        check_ledger(plan, carried_out(plan, sensitivity=0.5 * SENSITIVITY["model"]))
