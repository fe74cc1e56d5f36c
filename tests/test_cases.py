"""Cases from public bug reports of comparable software: each script prints OK, or SKIP with a reason, or raises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import skdro

PACKAGE = Path(skdro.__file__).parents[1]
FOLDER = Path(os.environ.get("SKDRO_CASES", Path(__file__).parents[1].parent / "shared" / "cases"))
SCRIPTS = sorted(FOLDER.glob("B*.py"))


@pytest.mark.skipif(not SCRIPTS, reason="the folder of cases is not part of the package")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_case(script):
    path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=script.parent,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    verdict = done.stdout.strip().splitlines()[-1]
    assert verdict.split()[0] in ("OK", "SKIP"), done.stdout
    if verdict.startswith("SKIP"):
        pytest.skip(verdict.removeprefix("SKIP").strip())
