"""What a type checker and a package index need: the marker of inline types, annotations, versions that agree."""

import importlib
import inspect
import re
import runpy
import tomllib
from importlib.resources import files
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import skdro

MODULES = [
    "skdro",
    "skdro.certificates",
    "skdro.datasets",
    "skdro.inspection",
    "skdro.model_selection",
    "skdro.preprocessing",
    "skdro.privacy",
    "skdro.privacy.accounting",
    "skdro.privacy.report",
]
ROOT = Path(__file__).parents[1]


def functions():
    for name in MODULES:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", []):
            if inspect.isfunction(getattr(module, public)):
                yield pytest.param(getattr(module, public), id=f"{name}.{public}")


def test_the_package_says_that_it_is_typed():
    assert (files("skdro") / "py.typed").is_file()


@pytest.mark.parametrize("function", list(functions()))
def test_public_functions_are_annotated(function):
    signature = inspect.signature(function)
    assert signature.return_annotation is not signature.empty
    bare = [name for name, parameter in signature.parameters.items() if parameter.annotation is parameter.empty]
    assert bare == []


def methods():
    for name in MODULES:
        module = importlib.import_module(name)
        classes = [getattr(module, public) for public in getattr(module, "__all__", [])]
        for cls in filter(inspect.isclass, classes):
            for attribute in dir(cls):
                member = inspect.getattr_static(cls, attribute)
                method = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
                if not attribute.startswith("_") and getattr(method, "__module__", "").startswith("skdro"):
                    yield pytest.param(method, id=f"{cls.__name__}.{attribute}")


@pytest.mark.parametrize("method", list(methods()))
def test_public_methods_say_what_they_return(method):
    signature = inspect.signature(method)
    assert signature.return_annotation is not signature.empty


def test_what_the_typed_client_uses_is_there():
    client = runpy.run_path(str(ROOT / "tests" / "typed_client.py"))
    client["pictures"]()
    plt.close("all")


def test_the_version_is_one_that_an_index_takes_and_the_changelog_knows():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", skdro.__version__)
    log = (ROOT / "CHANGELOG.md").read_text()
    released = "dev" not in skdro.__version__
    assert f"## {skdro.__version__}" in log if released else "## Unreleased" in log


def test_every_extra_is_documented():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    readme = (ROOT / "README.md").read_text()
    for extra in extras:
        assert f"| `{extra}` |" in readme, extra
