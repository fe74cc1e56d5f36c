"""The reproduction scripts' shared file: cached runs, honest comparison."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

SCRIPTS = Path(__file__).parents[2] / "examples" / "reproduction"


@pytest.fixture
def study_module(tmp_path, monkeypatch):
    if not SCRIPTS.exists():
        pytest.skip("the examples are not beside the tests")
    spec = importlib.util.spec_from_file_location("reproduction_study", SCRIPTS / "study.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["some_script.py"])
    return module


def study_of(module, **changed):
    return module.Study(
        "name", SimpleNamespace(**({"quick": False, "fresh": False, "jobs": 1, "seeds": None} | changed))
    )


class Counted:
    """A job that notes its calls."""

    def __init__(self):
        self.calls = []

    def __call__(self, method, radius, seed):
        self.calls.append((method, radius, seed))
        return [{"round": t, "score": radius * seed + t} for t in range(2)]


JOBS = [{"method": m, "radius": r, "seed": s} for m in ("a", "b") for r in (1e-5, np.inf) for s in (0, 1)]


def test_what_is_there_is_not_run_again_and_comes_in_the_order_of_the_jobs(study_module):
    function = Counted()
    first = study_of(study_module).run(function, JOBS[::-1])
    assert len(function.calls) == len(JOBS)
    again = study_of(study_module).run(function, JOBS)
    assert len(function.calls) == len(JOBS)
    assert [tuple(row) for row in again[["method", "radius", "seed"]].to_numpy()[::2]] == [
        tuple(job.values()) for job in JOBS
    ]
    assert len(first) == len(again) == 2 * len(JOBS)
    wanted = [job["radius"] * job["seed"] + t for job in JOBS for t in range(2)]
    np.testing.assert_allclose(again["score"], wanted, rtol=1e-12)


def test_a_study_that_was_cut_goes_on(study_module):
    function = Counted()
    study_of(study_module).run(function, JOBS[:3])
    study_of(study_module).run(function, JOBS)
    assert sorted(map(str, function.calls)) == sorted(str(tuple(job.values())) for job in JOBS)


def test_fresh_forgets(study_module):
    function = Counted()
    study_of(study_module).run(function, JOBS)
    study_of(study_module, fresh=True).run(function, JOBS)
    assert len(function.calls) == 2 * len(JOBS)


def test_quick_runs_lie_apart(study_module):
    function = Counted()
    study_of(study_module, quick=True).run(function, JOBS)
    study_of(study_module).run(function, JOBS)
    assert len(function.calls) == 2 * len(JOBS)


def test_comparison(study_module, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/there/some_script.py", "--jobs", "3", "--seeds", "4", "--fresh"])
    study_of(study_module).compare("A title", [("one", "x", [1.0, 3.0], 1.0), ("one", "y", [2.0, 2.0], None)])
    lines = (tmp_path / "name_summary.csv").read_text().splitlines()
    assert lines[0] == "# A title"
    assert lines[1] == "# command: python examples/reproduction/some_script.py --seeds 4"
    table = pd.read_csv(tmp_path / "name_summary.csv", comment="#")
    assert table["ours"].tolist() == [2.0, 2.0]
    assert table["standard error"].tolist() == [1.0, 0.0]
    assert table["difference"].tolist()[0] == 1.0
    assert np.isnan(table["difference"][1])
    assert "2 (1) / 1 / +1.0" in capsys.readouterr().out
