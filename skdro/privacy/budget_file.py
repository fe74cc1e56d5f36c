"""The ledger of a `BudgetAccountant` as plain JSON: exact, versioned, and refused when it was damaged.

Python writes each float so that reading it gives the same number.  A digest over the content finds damage; it is no
signature, and whoever can write the file can also forge it.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any

from .charges import Charge, Declared
from .report import Event

__all__ = ["read_ledger", "write_ledger"]

FORMAT, VERSION = "skdro BudgetAccountant", 1
STATUSES = {"reserved", "spent", "failed"}


def write_ledger(path: str | Path, settings: dict[str, Any], charges: Sequence[Charge]) -> None:
    """Write the ledger in one step: a crash leaves the old file or the new one.

    Parameters
    ----------
    path : str or Path
    settings : dict
        Keyword arguments of the accountant.
    charges : sequence of Charge
    """
    content = {
        "settings": {**settings, "declared": {k: asdict(pair) for k, pair in settings["declared"].items()}},
        "charges": [asdict(charge) for charge in charges],
    }
    body = {"format": FORMAT, "version": VERSION, "sha256": _digest(content), "content": content}
    path = Path(path)
    draft = path.with_name(path.name + ".part")
    draft.write_text(json.dumps(body, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(draft, path)


def read_ledger(path: str | Path) -> tuple[dict[str, Any], list[Charge]]:
    """Settings and charges of a file that `write_ledger` wrote.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    settings : dict
    charges : list of Charge

    Raises
    ------
    ValueError
        The file is no ledger, was damaged, or has a version that this package does not know.
    OSError
        The file cannot be read.
    """
    try:
        body = json.loads(Path(path).read_text(encoding="utf-8"))
        if body["format"] != FORMAT:
            raise ValueError("it has another format")
        if body["version"] != VERSION:
            raise ValueError(f"it has version {body['version']!r}; this package reads version {VERSION}")
        content = body["content"]
        if body["sha256"] != _digest(content):
            raise ValueError("its content does not match its digest")
        settings = content["settings"]
        settings["declared"] = {name: Declared(**pair) for name, pair in settings["declared"].items()}
        return settings, [_charge(entry) for entry in content["charges"]]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        reason = str(error) if type(error) is ValueError else "it is incomplete or no JSON"
        raise ValueError(f"{path} is no sound ledger of a BudgetAccountant: {reason}.") from None


def _digest(content):
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _charge(entry):
    charge = Charge(**{**entry, "events": tuple(Event(**event) for event in entry["events"])})
    if charge.status not in STATUSES or not all(_sound(event) for event in charge.events):
        raise ValueError("it holds a charge that no fit can have made")
    return charge


def _sound(event):
    numbers = (event.sensitivity, event.sigma, event.count)
    return (
        event.type == "gaussian"
        and event.q == 1
        and all(isinstance(number, Real) and 0 <= number < inf for number in numbers)
        and event.sigma > 0
    )
