"""Reading the text files of the sets without pandas: cells in, a float table with NaN for missing out."""

import csv
import gzip
import lzma
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
MISSING = {"", "?", "NA", "nan"}


def read_cells(path: Path, *, separator: str | None = ",", skip: int = 0) -> list[list[str]]:
    """Cells of a text file, plain or compressed; blank lines are dropped, cells stripped.

    Parameters
    ----------
    path : Path
    separator : str or None
        None splits on any run of white space.
    skip : int
        Lines to leave out at the start.
    """
    with OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8", newline="") as stream:
        for _ in range(skip):
            next(stream)
        if separator is None:
            rows = [line.split() for line in stream]
        else:
            rows = [[cell.strip() for cell in row] for row in csv.reader(stream, delimiter=separator)]
    return [row for row in rows if row and any(row)]


def numbers(cells: Sequence[str]) -> np.ndarray:
    """Cells of a numeric column as floats, NaN where missing, shape (n_rows,)."""
    return np.array([np.nan if cell in MISSING else float(cell) for cell in cells])


def codes(cells: Sequence[str], levels: Sequence[str], missing: frozenset[str] = frozenset(MISSING)):
    """Position of each cell in `levels` as a float, NaN where missing, shape (n_rows,).

    Raises
    ------
    ValueError
        If a cell is neither a level nor a mark of a missing value.
    """
    position = {level: float(i) for i, level in enumerate(levels)}
    position |= {mark: np.nan for mark in missing if mark not in position}
    unknown = set(cells) - set(position)
    if unknown:
        raise ValueError(f"The file holds the unknown categories {sorted(unknown)}; expected {list(levels)}.")
    return np.array([position[cell] for cell in cells])


def table(columns: Mapping[str, Sequence[str]], levels: Mapping[str, Sequence[str]]) -> np.ndarray:
    """Float table of shape (n_rows, n_columns): codes for the columns in `levels`, numbers for the others."""
    return np.column_stack(
        [codes(cells, levels[name]) if name in levels else numbers(cells) for name, cells in columns.items()]
    )
