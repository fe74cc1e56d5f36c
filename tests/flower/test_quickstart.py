"""The study to copy: on LocalGrid in every run, and with real processes in the slow lane."""

import importlib
import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

STUDY = Path(__file__).parents[2] / "examples" / "flower_quickstart"


@pytest.fixture
def quickstart(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDY))
    yield importlib.import_module("quickstart.task")
    for name in [name for name in sys.modules if name.split(".")[0] == "quickstart"]:
        del sys.modules[name]


@pytest.fixture
def run_local():
    spec = importlib.util.spec_from_file_location("run_local", STUDY / "run_local.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_study_runs_with_its_own_configuration(quickstart, run_local, tmp_path, monkeypatch):
    from skdro.flower import LocalGrid

    monkeypatch.setattr(run_local, "N_ROWS", 400)
    held_out = run_local.make_data(tmp_path)
    app = tomllib.loads((STUDY / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    client = importlib.import_module("quickstart.client_app").app
    server = importlib.import_module("quickstart.server_app").app
    assert app["components"] == {"serverapp": "quickstart.server_app:app", "clientapp": "quickstart.client_app:app"}
    grid = LocalGrid(
        client,
        [
            {
                "site-name": site,
                "data": str(tmp_path / f"{site}.csv"),
                "state-dir": str(tmp_path / site),
                "max-epsilon": 4.0,
            }
            for site in run_local.SITES
        ],
    )
    grid.start(server, {**app["config"], "n-rounds": 4, "out": str(tmp_path / "model.joblib")})
    import joblib

    model = joblib.load(tmp_path / "model.joblib")
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert model.privacy_.private
    assert model.privacy_.epsilon == pytest.approx(4.0)
    assert run_local.summary(model, held_out)["missed"] == {"east": [], "north": [], "south": []}


@pytest.mark.slow
def test_real_processes_survive_what_happens_to_them(tmp_path):
    """Twenty rounds of a SuperLink and three SuperNodes; four runs, minutes each."""
    done = subprocess.run(
        [sys.executable, str(STUDY / "run_local.py"), str(tmp_path), "--scenario", "all"],
        capture_output=True,
        text=True,
        check=True,
    )
    plain, killed, raising, lonely = map(json.loads, done.stdout.splitlines())
    assert plain["missed"] == {"east": [], "north": [], "south": []}
    assert killed["missed"]["south"]
    assert not killed["missed"]["east"]
    assert killed["ledger_intact"]
    assert killed["rounds"] == plain["rounds"] == 20
    np.testing.assert_allclose(killed["held_out_loss"], plain["held_out_loss"], rtol=0.02)
    assert not raising["leaked"]
    assert any("could not answer" in line for line in raising["told"])
    assert "failed" in lonely["status"]
    assert any("min-clients=4" in line for line in lonely["told"])
