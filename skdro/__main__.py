"""`python -m skdro`: versions of what is installed, for a bug report."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from . import __version__

CORE = ("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "cvxpy")
OPTIONAL = ("matplotlib", "rich", "pooch", "dp-accounting", "opendp", "flwr", "torch")


def installed(name: str) -> str:
    """Version of a distribution, without importing it; "not installed" if there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def report() -> str:
    """One line a package: skdro, Python and the platform, what skdro needs, and what its extras add."""
    lines = [("skdro", __version__), ("Python", f"{platform.python_version()} on {platform.platform()}")]
    lines += [(name, installed(name)) for name in (*CORE, *OPTIONAL)]
    return "".join(f"{name:<15}{found}\n" for name, found in lines)


if __name__ == "__main__":
    sys.stdout.write(report())
