"""`python -m skdro` says what is installed."""

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

import skdro
from skdro import __main__ as main


def printed():
    out = subprocess.run([sys.executable, "-m", "skdro"], capture_output=True, text=True, check=True).stdout
    return dict(line.split(maxsplit=1) for line in out.splitlines())


def test_prints_one_version_a_line():
    found = printed()
    assert found["skdro"] == skdro.__version__
    assert found["Python"].startswith(platform.python_version())
    for name in ("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "cvxpy"):
        assert found[name] == version(name)


@pytest.mark.parametrize("name", ["matplotlib", "rich", "pooch", "dp-accounting", "opendp", "flwr"])
def test_says_which_extras_are_there(name):
    try:
        expected = version(name)
    except PackageNotFoundError:
        expected = "not installed"
    assert printed()[name] == expected


def test_a_missing_package_is_no_error(monkeypatch):
    def nothing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(main, "version", nothing)
    assert main.installed("numpy") == "not installed"
    assert "pooch          not installed" in main.report()


def test_imports_nothing_heavy():
    code = (
        "import runpy, sys; runpy.run_module('skdro', run_name='__main__'); "
        "sys.stderr.write(' '.join(m for m in ('cvxpy', 'matplotlib', 'pooch') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
