"""The site's ledger file: what it charges, what it refuses, and that doubt stops the site."""

import json
from concurrent.futures import ThreadPoolExecutor
from math import sqrt

import numpy as np
import pytest

from skdro.flower._ledger import SiteLedger
from skdro.flower._wire import Refusal
from skdro.privacy.accounting import gaussian_epsilon
from skdro.privacy.ledger import Release


def release(ratio=0.1, count=1):
    return Release("gradient", np.array([2]), np.array([ratio]), np.array([1.0]), count)


def test_squares_add_over_runs(tmp_path):
    ledger = SiteLedger(tmp_path / "ledger.jsonl", 5.0, 1e-5)
    ledger.charge([release(0.1), release(0.2)], run=1, round=0)
    ledger.charge([release(0.3, count=2)], run=2, round=0)
    assert ledger.mu_squared == pytest.approx(0.01 + 0.04 + 2 * 0.09)
    again = SiteLedger(tmp_path / "ledger.jsonl", 5.0, 1e-5)  # after a restart
    assert again.epsilon == pytest.approx(gaussian_epsilon(sqrt(0.23), 1e-5))
    assert again.has_run(2)
    assert not again.has_run(3)


def test_the_cap_is_kept_and_refusals_cost_nothing(tmp_path):
    cap = gaussian_epsilon(sqrt(0.03), 1e-5)
    ledger = SiteLedger(tmp_path / "ledger.jsonl", cap, 1e-5)
    for t in range(3):
        ledger.charge([release()], run=1, round=t)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    with pytest.raises(Refusal, match="max-epsilon"):
        ledger.charge([release(0.001)], run=1, round=3)
    with pytest.raises(Refusal):
        ledger.check(1e-4)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize("cap", [float("nan"), -1.0])
def test_a_cap_that_is_no_number_allows_nothing(tmp_path, cap):
    with pytest.raises(Refusal):
        SiteLedger(tmp_path / "ledger.jsonl", cap, 1e-5).charge([release()], run=1, round=0)
    assert not (tmp_path / "ledger.jsonl").exists()


@pytest.mark.parametrize(
    "damage", [b'{"run": 1, "mu_sq', b"{}\n", b'{"mu_squared": -1.0}\n', b'{"mu_squared": NaN}\n']
)
def test_a_damaged_ledger_stops_the_site(tmp_path, damage):
    ledger = SiteLedger(tmp_path / "ledger.jsonl", 5.0, 1e-5)
    ledger.charge([release()], run=1, round=0)
    with open(tmp_path / "ledger.jsonl", "ab") as file:
        file.write(damage)
    with pytest.raises(RuntimeError, match="damaged"):
        ledger.charge([release()], run=1, round=1)


def test_a_line_is_on_the_disk_with_all_that_an_auditor_needs(tmp_path):
    SiteLedger(tmp_path / "ledger.jsonl", 5.0, 1e-5).charge([release()], run=7, round=3)
    (line,) = (json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines())
    assert line == {
        "run": 7,
        "round": 3,
        "release": "gradient",
        "adjacency": "replace_one",
        "sensitivity": 0.1,
        "sigma": 1.0,
        "count": 1,
        "mu_squared": pytest.approx(0.01),
    }


def test_losses_under_two_adjacencies_are_never_added_up(tmp_path):
    path = tmp_path / "ledger.jsonl"
    SiteLedger(path, 5.0, 1e-5, "zero_out").charge([release()], run=1, round=0)
    before = path.read_bytes()
    ledger = SiteLedger(path, 5.0, 1e-5)
    for attempt in (lambda: ledger.mu_squared, lambda: ledger.charge([release()], run=2, round=0)):
        with pytest.raises(Refusal, match="adjacency"):
            attempt()
    assert path.read_bytes() == before
    assert SiteLedger(path, 5.0, 1e-5, "zero_out").mu_squared == pytest.approx(0.01)


def test_a_line_of_old_that_does_not_say_holds_for_replace_one(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"run": 1, "round": 0, "mu_squared": 0.01}\n')
    assert SiteLedger(path, 5.0, 1e-5, "replace_one").mu_squared == 0.01
    with pytest.raises(Refusal, match="adjacency"):
        SiteLedger(path, 5.0, 1e-5, "zero_out").check(0.0)


def charge_until_refused(path, cap):
    sent = 0
    try:
        for t in range(100):
            SiteLedger(path, cap, 1e-5).charge([release()], run=1, round=t)
            sent += 1
    except Refusal:
        pass
    return sent


def test_all_who_write_to_one_file_share_the_cap(tmp_path):
    cap = gaussian_epsilon(sqrt(0.1), 1e-5)  # ten releases
    with ThreadPoolExecutor(4) as pool:
        sent = list(pool.map(lambda _: charge_until_refused(tmp_path / "ledger.jsonl", cap), range(4)))
    assert sum(sent) <= 10
    assert len(SiteLedger(tmp_path / "ledger.jsonl", cap, 1e-5).lines) >= 10
