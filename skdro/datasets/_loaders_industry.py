"""Two industrial sets, both simulated at their source: machine failures and faults of a chemical plant."""

import io
import lzma
import os
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ._fetch import DatasetSpec, RemoteFile, assemble, find_file, locate
from ._tables import read_cells, table

__all__ = ["fetch_ai4i", "fetch_tennessee_eastman"]

FAILURE_MODES = ("TWF", "HDF", "PWF", "OSF", "RNF")

AI4I = DatasetSpec(
    name="ai4i2020",
    files=(
        RemoteFile("ai4i2020.csv", "https://archive.ics.uci.edu/ml/machine-learning-databases/00601/ai4i2020.csv"),
    ),
    feature_names=(
        *("Type", "Air temperature [K]", "Process temperature [K]"),
        *("Rotational speed [rpm]", "Torque [Nm]", "Tool wear [min]"),
    ),
    target_names=("no failure", "failure"),
    licence="CC BY 4.0",
    citation=(
        "S. Matzka (2020). AI4I 2020 Predictive Maintenance Dataset. UCI Machine Learning Repository. "
        "doi:10.24432/C5HS5C"
    ),
    levels={"Type": ("L", "M", "H")},
)

N_FAULTS = 21
# rows of a test run before its fault is introduced: 8 hours at one row every 3 minutes
FAULT_ONSET = 160
N_PERIODS = 4
_TEP_URL = (
    "https://raw.githubusercontent.com/camaramm/tennessee-eastman-profBraatz/0643318858ce7c87292bd59820b459e12a13d009"
)


def _tennessee_eastman(suffix):
    runs = tuple(f"d{fault:02d}{suffix}.dat" for fault in range(N_FAULTS + 1))
    return DatasetSpec(
        name="tennessee_eastman",
        files=tuple(RemoteFile(name, f"{_TEP_URL}/{name}") for name in runs),
        feature_names=(
            *(f"XMEAS({i})" for i in range(1, 42)),
            *(f"XMV({i})" for i in range(1, 12)),
        ),
        target_names=("normal", *(f"fault {fault}" for fault in range(1, N_FAULTS + 1))),
        licence="University of Illinois/NCSA style, permissive; its text must accompany copies of the data",
        citation=(
            "J. J. Downs, E. F. Vogel (1993). A plant-wide industrial process control problem. Computers & "
            "Chemical Engineering 17(3); L. H. Chiang, E. L. Russell, R. D. Braatz (2001). Fault Detection "
            "and Diagnosis in Industrial Systems. Springer"
        ),
    )


TENNESSEE_EASTMAN = {
    "train": _tennessee_eastman(""),
    "test": _tennessee_eastman("_te"),
}


def fetch_ai4i(
    *,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y_groups: bool = False,
    as_frame: bool = False,
) -> Bunch | Any:
    """Load the AI4I predictive maintenance set: 10,000 runs of a machine, 339 failures.

    The clients are the quality variants of the product, "L" (6,000 runs), "M" (2,997) and "H" (1,003).  The
    identifiers and the five failure modes are no features: the modes are parts of the label.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y_groups, as_frame
        As in :func:`fetch_dermatology`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`fetch_dermatology`, with data of shape (10000, 6), no missing value.  The first column is
        the variant, coded 0, 1, 2 for L, M, H (`feature_levels`).  `feature_bounds` is NaN for the others:
        they were simulated by unbounded laws.  The Bunch also has `failure_modes`, ndarray of bool of shape
        (10000, 5), and `failure_mode_names`.

    Raises
    ------
    FileNotFoundError
        If the file is not there and cannot be downloaded.

    Examples
    --------
    >>> from skdro.datasets import fetch_ai4i
    >>> int(fetch_ai4i().target.sum())  # doctest: +SKIP
    339
    """
    path = locate(AI4I, data_home, download_if_missing)["ai4i2020.csv"]
    header, *rows = read_cells(path)
    # UCI's own file starts with a byte order mark
    header[0] = header[0].lstrip("\ufeff")
    column = dict(zip(header, zip(*rows, strict=True), strict=True))
    return assemble(
        AI4I,
        table({name: column[name] for name in AI4I.feature_names}, AI4I.levels),
        np.array(column["Machine failure"]).astype(int),
        np.array(column["Type"]),
        return_X_y_groups=return_X_y_groups,
        as_frame=as_frame,
        failure_modes=np.column_stack([np.array(column[mode]) == "1" for mode in FAILURE_MODES]),
        failure_mode_names=list(FAILURE_MODES),
    )


def fetch_tennessee_eastman(
    *,
    subset: str = "train",
    normal_before_onset: bool = True,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y_groups: bool = False,
    as_frame: bool = False,
) -> Bunch | Any:
    """Load the Tennessee Eastman process: 52 variables of a simulated plant, normal and under 21 faults.

    One run each of 22 conditions, one row every three minutes.  The clients are four consecutive periods of
    equal length of every run, so that they differ by the drift of the process and neighbouring rows, which
    are correlated, stay with one client.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        Training runs (500 normal rows and 480 of each fault) or test runs (960 rows each).
    normal_before_onset : bool, default=True
        In a test run the fault sets in after 160 rows (8 hours).  True labels these rows as normal; False
        gives every row the label of its run, as the files do.  Training runs are faulty throughout.
    data_home, download_if_missing, return_X_y_groups, as_frame
        As in :func:`fetch_dermatology`.  Under `data_home` either the 44 files ``d00.dat`` to
        ``d21_te.dat`` of the source serve, or their concatenation ``tep_train.npy`` and ``tep_test.npy`` with
        the class as last column.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`fetch_dermatology`, with data of shape (10580, 52), or (21120, 52) for the test runs: 41
        measurements XMEAS and 11 manipulated variables XMV, no missing value.  target : 0 is normal, k is
        fault k.  groups : period 0 to 3.  No documented bounds: `feature_bounds` is NaN.  The Bunch also has
        `run`, the condition of each row's run, and `sample`, its position in the run.

    Raises
    ------
    FileNotFoundError
        If a file is not there and cannot be downloaded.
    ValueError
        If `subset` is not one of the two.

    Examples
    --------
    >>> from skdro.datasets import fetch_tennessee_eastman
    >>> fetch_tennessee_eastman(subset="test").data.shape  # doctest: +SKIP
    (21120, 52)
    """
    if subset not in TENNESSEE_EASTMAN:
        raise ValueError(f"subset must be 'train' or 'test', got {subset!r}.")
    spec = TENNESSEE_EASTMAN[subset]
    data, run = _read_runs(spec, find_file(spec, f"tep_{subset}.npy", data_home), data_home, download_if_missing)
    lengths = np.bincount(run)
    sample = np.concatenate([np.arange(length) for length in lengths])
    before_onset = (sample < FAULT_ONSET) & (subset == "test" and normal_before_onset)
    return assemble(
        spec,
        data,
        np.where(before_onset, 0, run),
        sample * N_PERIODS // lengths[run],
        return_X_y_groups=return_X_y_groups,
        as_frame=as_frame,
        run=run,
        sample=sample,
    )


def _read_runs(spec, concatenated, data_home, download_if_missing):
    """Rows of all runs in the order of their conditions, and the condition of each row."""
    if concatenated is not None:
        opener = lzma.open if concatenated.suffix == ".xz" else open
        with opener(concatenated, "rb") as stream:
            rows = np.load(io.BytesIO(stream.read())).astype(float)
        return rows[:, :52], rows[:, 52].astype(int)
    runs = [np.loadtxt(path) for path in locate(spec, data_home, download_if_missing).values()]
    # the source stores the normal training run with one variable a row
    runs = [run if run.shape[1] == 52 else run.T for run in runs]
    return np.concatenate(runs), np.repeat(np.arange(len(runs)), [len(run) for run in runs])
