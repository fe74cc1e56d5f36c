"""A site's own privacy ledger: one file, one line a release, written before the release leaves the site.

Gaussian-DP parameters of adaptive releases add in squares, so the file's mu^2 in total bounds the loss of all runs
so far, whoever asked for them; the cap is a filter on that sum.  Only releases under one adjacency add up like that:
each line says under which it was made, and a file with lines under another one is refused.

Lines are appended and flushed to the disk, never rewritten: a crash can at most charge for something that was not
sent.  A file that cannot be read stops the site.
"""

import json
import os
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Any

from ..privacy.accounting import gaussian_epsilon
from ..privacy.ledger import Release
from ._wire import Refusal

__all__ = ["ADJACENCY", "SiteLedger"]

ADJACENCY = "replace_one"
ROUNDING = 1e-6  # relative; epsilon -> mu -> epsilon rounds up


class SiteLedger:
    """All that a site has released, and the cap on it.

    Parameters
    ----------
    path : path-like
        The file; it begins to exist with the first charge.
    max_epsilon, delta : float
        The cap: charges that would raise epsilon at `delta` above `max_epsilon` are refused.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What the cap counts as one record more or less.  A line that does not say holds for the default.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> ledger = SiteLedger(Path(tempfile.mkdtemp()) / "ledger.jsonl", max_epsilon=1.0, delta=1e-5)
    >>> line = Release("gradient", np.array([0]), np.array([1.0]), np.array([10.0]))
    >>> ledger.charge([line], run=7, round=0)
    >>> round(ledger.mu_squared, 6), round(ledger.epsilon, 3)
    (0.01, 0.341)
    """

    def __init__(self, path: str | os.PathLike, max_epsilon: float, delta: float, adjacency: str = ADJACENCY):
        self.path = Path(path)
        self.max_epsilon = max_epsilon
        self.delta = delta
        self.adjacency = adjacency

    @property
    def lines(self) -> list[dict]:
        """All lines of the file.

        Raises
        ------
        RuntimeError
            If a line is damaged: what was spent is then unknown.
        Refusal
            If a line holds for another adjacency: the sum would then mean nothing.
        """
        if not self.path.exists():
            return []
        try:
            lines = [json.loads(line) for line in self.path.read_text().splitlines()]
            if not all(line["mu_squared"] > 0 for line in lines):
                raise ValueError
        except (ValueError, KeyError, TypeError) as error:
            raise RuntimeError(
                f"The privacy ledger {self.path} is damaged, so what was spent is not known. Repair it from a copy; "
                "a line that was cut off at the end was never sent and may be removed."
            ) from error
        if not all(line.get("adjacency", ADJACENCY) == self.adjacency for line in lines):
            raise Refusal("ledger-adjacency")
        return lines

    @property
    def mu_squared(self) -> float:
        """Squared Gaussian-DP parameter of everything released so far."""
        return sum(line["mu_squared"] for line in self.lines)

    @property
    def epsilon(self) -> float:
        """Epsilon of everything released so far, at `delta`."""
        return self._epsilon(self.mu_squared)

    def _epsilon(self, mu_squared):
        return gaussian_epsilon(sqrt(mu_squared), self.delta) if mu_squared > 0 else 0.0

    def check(self, mu_squared: float) -> None:
        """Refuse what would cost `mu_squared` more than the cap allows, without charging for it."""
        if not self._epsilon(self.mu_squared + mu_squared) <= self.max_epsilon * (1 + ROUNDING):
            raise Refusal("over-budget")

    def has_run(self, run: int) -> bool:
        """Whether a run has been charged for."""
        return any(line["run"] == run for line in self.lines)

    def charge(self, releases: Sequence[Release], *, run: int, round: int) -> None:
        """Charge for releases of this site; only then may they leave.

        Raises
        ------
        Refusal
            If the cap does not allow for them.
        """
        lines: list[dict[str, Any]] = []
        for release in releases:
            (sensitivity,), (sigma,) = release.sensitivity, release.sigma
            lines.append(
                {
                    "run": run,
                    "round": round,
                    "release": release.name,
                    "adjacency": self.adjacency,
                    "sensitivity": float(sensitivity),
                    "sigma": float(sigma),
                    "count": release.count,
                    "mu_squared": release.count * float(sensitivity / sigma) ** 2,
                }
            )
        self.check(sum(line["mu_squared"] for line in lines))
        with open(self.path, "ab", buffering=0) as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines).encode())
            os.fsync(file.fileno())
        self.check(0.0)  # another process of the site may have charged in between
