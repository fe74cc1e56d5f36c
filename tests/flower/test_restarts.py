"""What a site keeps on its own disk: checkpoint and ledger outlive its processes, and nothing leaves without them."""

import os

import numpy as np
import pytest

from skdro import DPFedDROClassifier, FedDROClassifier

pytest.importorskip("flwr")

from flwr.app import RecordDict

from skdro.flower import LocalGrid
from skdro.flower import _site as site_module
from skdro.flower._ledger import SiteLedger
from skdro.flower._wire import decode

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdro.exceptions.PrivacyLeakWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)


def exact(config):
    return FedDROClassifier(radius=0.05, n_rounds=8)


def private(config):
    return DPFedDROClassifier(epsilon=5.0, delta=1e-4, classes=[0, 1, 2], n_rounds=6)


def round_of(message):
    return decode(message.content).config.get("round", -1)


class Forgetful(LocalGrid):
    """Site b's process is restarted before round 3: same node (it has a key), memory empty."""

    def deliver(self, message):
        context = self.contexts[message.metadata.dst_node_id]
        if context.node_config["site-name"] == "b" and round_of(message) == 3:
            context.state = RecordDict()
        return super().deliver(message)


def test_a_restarted_site_goes_on_from_its_checkpoint(study):
    configs = [{**config, "state-dir": str(study.state_dir / config["site-name"])} for config in study.configs(False)]
    whole = study.run(exact)
    fitted = study.run(exact, configs=configs, grid=Forgetful)
    assert fitted.history_["replied"].all()
    np.testing.assert_array_equal(fitted.coef_, whole.coef_)


def test_without_a_checkpoint_it_loses_a_round_and_is_brought_up_to_date(study):
    fitted = study.run(exact, grid=Forgetful)
    np.testing.assert_array_equal(np.argwhere(~fitted.history_["replied"]), [[3, 1]])
    np.testing.assert_allclose(fitted.coef_, study.run(exact).coef_, atol=0.05)


def test_a_crash_while_the_checkpoint_is_written_leaves_the_one_before(study, monkeypatch):
    configs = [{**config, "state-dir": str(study.state_dir / config["site-name"])} for config in study.configs(False)]
    replace, now = os.replace, []

    def crashing(source, target):
        if now == [4] and f"{os.sep}b{os.sep}" in str(target):
            raise OSError("the machine went down")
        replace(source, target)

    class Crashing(LocalGrid):
        def deliver(self, message):
            now[:] = [round_of(message)]
            return super().deliver(message)

    monkeypatch.setattr(site_module.os, "replace", crashing)
    fitted = study.run(exact, configs=configs, grid=Crashing)
    np.testing.assert_array_equal(np.argwhere(~fitted.history_["replied"]), [[4, 1]])
    assert len(list((study.state_dir / "b").glob("run-*.state"))) == 1


def ledger_of(study, name):
    return SiteLedger(study.state_dir / name / "ledger.jsonl", 20.0, 1e-4)


def test_the_ledger_is_charged_before_anything_is_sent(study, monkeypatch):
    """A site that dies after the charge and before the reply has paid for what nobody got."""
    keep = site_module._keep

    def dying(kept, run, node_config):
        if node_config["site-name"] == "b" and len(ledger_of(study, "b").lines) == 3:
            raise OSError("the machine went down")
        keep(kept, run, node_config)

    monkeypatch.setattr(site_module, "_keep", dying)
    fitted = study.run(private)
    np.testing.assert_array_equal(np.argwhere(~fitted.history_["replied"]), [[2, 1]])
    assert [line["round"] for line in ledger_of(study, "b").lines] == list(range(6))


def test_a_ledger_that_cannot_be_written_stops_the_site(study, monkeypatch):
    charge = SiteLedger.charge

    def full_disk(self, releases, *, run, round):
        if self.path.parent.name == "b" and round == 2:
            raise OSError("no space left on device")
        charge(self, releases, run=run, round=round)

    monkeypatch.setattr(SiteLedger, "charge", full_disk)
    fitted = study.run(private)
    np.testing.assert_array_equal(np.argwhere(~fitted.history_["replied"]), [[2, 1]])


def test_an_unseeded_site_never_repeats_its_noise(study):
    first, second = study.run(private), study.run(private)
    assert not np.allclose(first.coef_, second.coef_)


def test_a_message_lives_as_long_as_its_round_waits(study):
    lives = {}

    class Watching(LocalGrid):
        def deliver(self, message):
            lives.setdefault(message.metadata.message_type, set()).add(message.metadata.ttl)
            return super().deliver(message)

    study.run(exact, grid=Watching, run_config={"round-timeout": 7.0})
    assert lives["train"] == lives["evaluate"] == {7.0}


def test_all_rounds_time_out_within_the_stated_time(study):
    """Nobody ever answers a round: three rounds of the timeout and the run ends, with the sites and reasons named."""

    class Mute(LocalGrid):
        asked = 0

        def deliver(self, message):
            if message.metadata.message_type != "train":
                return super().deliver(message)
            self.asked += 1
            return []

    with pytest.raises(RuntimeError, match=r"(?s)last 3 round\(s\).*b: no answer within 0.2 s"):
        study.run(exact, grid=Mute, run_config={"round-timeout": 0.2})
    assert study.grid.asked == 12
