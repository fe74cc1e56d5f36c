"""Heart disease at four hospitals: the set whose clients differ for real, and whose files have traps."""

import os
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ._fetch import DatasetSpec, RemoteFile, assemble, locate
from ._tables import numbers, read_cells

__all__ = ["fetch_heart_disease"]

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
# "hungarian" records whether a vessel is narrowed; the others, how severe the disease is
GRADED_HOSPITALS = ("cleveland", "switzerland", "va")

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease"

HEART_DISEASE = DatasetSpec(
    name="heart_disease",
    files=tuple(
        RemoteFile(f"processed.{hospital}.data", f"{_UCI}/processed.{hospital}.data") for hospital in HOSPITALS
    ),
    feature_names=(
        *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach"),
        *("exang", "oldpeak", "slope", "ca", "thal"),
    ),
    target_names=("absent", "present"),
    licence="CC BY 4.0",
    citation=(
        "A. Janosi, W. Steinbrunn, M. Pfisterer, R. Detrano (1989). Heart Disease. UCI Machine Learning "
        "Repository. doi:10.24432/C52P4X. Principal investigators, to be named in publications: Andras "
        "Janosi, M.D. (Hungarian Institute of Cardiology, Budapest); William Steinbrunn, M.D. (University "
        "Hospital, Zurich); Matthias Pfisterer, M.D. (University Hospital, Basel); Robert Detrano, M.D., "
        "Ph.D. (V.A. Medical Center, Long Beach, and Cleveland Clinic Foundation)"
    ),
    bounds={
        **{name: (0, 1) for name in ("sex", "fbs", "exang")},
        "cp": (1, 4),
        "restecg": (0, 2),
        "slope": (1, 3),
        "ca": (0, 3),
        "thal": (3, 7),
    },
)


def fetch_heart_disease(
    *,
    severity: bool = False,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y_groups: bool = False,
    as_frame: bool = False,
) -> Bunch | Any:
    """Load the heart disease set: 920 patients, 13 attributes; the clients are four hospitals.

    Three traps of the files are handled.  A "?" is a missing value, and so is a cholesterol of 0 (all 123
    patients of Switzerland and 49 of VA) or a resting blood pressure of 0 (one patient of VA): all are NaN.
    The Hungarian file grades the disease 0 or 1 only, although its documentation counts grades 0 to 4, so
    that grades cannot be pooled over the four hospitals.

    Parameters
    ----------
    severity : bool, default=False
        False: is the disease present (grade above 0), at all four hospitals.  True: the grade 0 to 4, at the
        three hospitals that record it; the Hungarian patients are left out.
    data_home, download_if_missing, return_X_y_groups, as_frame
        As in :func:`fetch_dermatology`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        data : ndarray of shape (920, 13), or (626, 13) with `severity`
            Age in years, blood pressure `trestbps` in mm Hg, cholesterol `chol` in mg/dl, maximum heart rate
            `thalach` in beats a minute, ST depression `oldpeak`; the others are codes.  NaN where missing.
        target : ndarray of int
            Index into `target_names`.
        groups : ndarray of str
            "cleveland" (303 patients), "hungarian" (294), "switzerland" (123) or "va" (200).
        feature_bounds : tuple of two ndarrays of shape (13,)
            Bounds of the coded attributes, by the attribute documentation; NaN for `age`, `trestbps`, `chol`,
            `thalach` and `oldpeak`, for which it states none.
        feature_names, target_names, feature_levels, DESCR, licence, citation, frame
            As in :func:`fetch_dermatology`.

    Raises
    ------
    FileNotFoundError
        If a file is not there and cannot be downloaded.

    Examples
    --------
    >>> from skdro.datasets import fetch_heart_disease
    >>> X, y, groups = fetch_heart_disease(return_X_y_groups=True)  # doctest: +SKIP
    """
    paths = locate(HEART_DISEASE, data_home, download_if_missing)
    hospitals = GRADED_HOSPITALS if severity else HOSPITALS
    tables = [_read_hospital(paths[f"processed.{hospital}.data"]) for hospital in hospitals]
    data = np.concatenate(tables)
    grade = data[:, 13].astype(int)
    return assemble(
        HEART_DISEASE,
        data[:, :13],
        grade if severity else (grade > 0).astype(int),
        np.repeat(hospitals, [len(table) for table in tables]),
        return_X_y_groups=return_X_y_groups,
        as_frame=as_frame,
        target_names=("0", "1", "2", "3", "4") if severity else None,
    )


def _read_hospital(path):
    """Attributes and grade of each patient, shape (n_patients, 14)."""
    data = np.column_stack([numbers(column) for column in zip(*read_cells(path), strict=True)])
    for name in ("trestbps", "chol"):
        values = data[:, HEART_DISEASE.feature_names.index(name)]
        # nobody has none: 0 stands for "not measured"
        values[values == 0] = np.nan
    return data
