"""The house rules that a machine can check: imports point one way, and nothing heavy or private comes along."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import skdro

PACKAGE = Path(skdro.__file__).parent
LAYERS = [
    {"exceptions", "preprocessing", "privacy"},
    {"losses"},
    {"ambiguity"},
    {"certificates"},
    {"solvers"},
    {"federation"},
    {"estimators"},
    {"model_selection", "inspection", "flower", "torch"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
SIDE_DOORS = {"datasets": {"exceptions"}}
LAZY = {"cvxpy", "matplotlib", "pooch", "pandas", "dp_accounting", "flwr", "torch", "opendp"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(path, source=None):
    """Yield (module, node, is_local) for each import; `module` is relative to the package if it is ours."""
    tree = ast.parse(path.read_text() if source is None else source)
    inside = {
        child
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.walk(function)
    }
    parts = ("skdro", *path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node in inside
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(parts[: len(parts) - node.level]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            for alias in node.names:
                yield f"{module}.{alias.name}", node in inside


def violations(path, source=None):
    room = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if room in ("__init__", "__main__"):
        return []
    found = []
    for module, local in imports(path, source):
        top, *rest = module.split(".")
        if local and top not in LAZY:
            found.append(f"{module} imported inside a function")
        if not local and top in LAZY and top != room:  # the room of an extra is imported by those who have it
            found.append(f"{module} imported eagerly")
        if top == "sklearn" and any(part.startswith("_") for part in rest):
            allowed = room == "estimators" and path.name == "_base.py" and rest[:2] == ["utils", "_param_validation"]
            if not allowed:
                found.append(f"private import {module}")
        if top == "skdro" and rest and rest[0] in set(LEVEL) | set(SIDE_DOORS):
            target = rest[0]
            if room in SIDE_DOORS:
                wrong = target != room and target not in SIDE_DOORS[room]
            else:
                wrong = (
                    target in SIDE_DOORS
                    or LEVEL[target] > LEVEL[room]
                    or (
                        LEVEL[target] == LEVEL[room]
                        and target != room
                        and target != "exceptions"
                        and not (room == "privacy" and target == "preprocessing")
                        and not (room == "inspection" and target == "model_selection")
                    )
                )
            if wrong:
                found.append(f"{room} must not import {module}")
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    assert violations(path) == []


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("losses/x.py", "from ..estimators import federated"),
        ("ambiguity/x.py", "from skdro.solvers.conic import solve_prox"),
        ("datasets/x.py", "from ..losses import crammer_singer"),
        ("solvers/x.py", "import cvxpy"),
        ("solvers/x.py", "def f():\n    import scipy"),
        ("estimators/x.py", "import torch"),
        ("estimators/x.py", "from ..torch import Network"),
        ("estimators/x.py", "from sklearn.utils._param_validation import Interval"),
        ("estimators/_base.py", "from sklearn.base import _fit_context"),
    ],
)
def test_a_wrong_import_is_caught(room, line):
    assert violations(PACKAGE / room, line)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_each_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_import_stays_light():
    code = (
        "import sys, skdro; print([m for m in ('cvxpy', 'matplotlib', 'pooch', 'flwr', 'torch') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
