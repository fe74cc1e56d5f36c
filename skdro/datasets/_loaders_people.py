"""Two large sets about people, with categorical columns: census incomes and hospital readmissions."""

import os
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ._fetch import DatasetSpec, RemoteFile, assemble, locate
from ._people_columns import ADULT_LEVELS, DIABETES_COLUMNS, DIABETES_LEVELS, DIABETES_NUMERIC
from ._tables import MISSING, read_cells, table

__all__ = ["fetch_adult", "fetch_diabetes130"]

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"

ADULT = DatasetSpec(
    name="adult",
    files=(
        RemoteFile("adult.data", f"{_UCI}/adult/adult.data"),
        RemoteFile("adult.test", f"{_UCI}/adult/adult.test"),
    ),
    feature_names=(
        *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
        *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
    ),
    target_names=("<=50K", ">50K"),
    licence="CC BY 4.0",
    citation="B. Becker, R. Kohavi (1996). Adult. UCI Machine Learning Repository. doi:10.24432/C5XW20",
    levels=ADULT_LEVELS,
)

DIABETES130 = DatasetSpec(
    name="diabetes130",
    files=(
        RemoteFile(
            "diabetic_data.csv",
            f"{_UCI}/00296/dataset_diabetes.zip",
            member="dataset_diabetes/diabetic_data.csv",
        ),
    ),
    feature_names=DIABETES_COLUMNS,
    target_names=("NO", ">30", "<30"),
    licence="CC BY 4.0",
    citation=(
        "B. Strack, J. P. DeShazo, C. Gennings, J. L. Olmo, S. Ventura, K. J. Cios, J. N. Clore (2014). "
        "Impact of HbA1c measurement on hospital readmission rates. BioMed Research International "
        "2014:781670. doi:10.24432/C5230J"
    ),
    bounds={"time_in_hospital": (1, 14)},
    levels=DIABETES_LEVELS,
)


def fetch_adult(
    *,
    subset: str = "train",
    group_by: str = "race",
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y_groups: bool = False,
    as_frame: bool = False,
) -> Bunch | Any:
    """Load the adult set: census records of 48,842 people, income above 50,000 dollars a year or not.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        The conventional training rows (32,561), test rows (16,281), or both in this order.
    group_by : str, default="race"
        Categorical column whose values are the clients: "race" (5), "sex" (2), "workclass" (9 with the
        missing ones), "native-country" (42), ...
    data_home, download_if_missing, return_X_y_groups, as_frame
        As in :func:`fetch_dermatology`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`fetch_dermatology`, with data of shape (32561, 14) for the training rows.  Categorical
        columns are coded by their position in the documented lists of values, which `feature_levels` holds:
        the codes name categories and measure nothing, so encode them one-hot; `as_frame` gives pandas
        categories.  Missing cells ("?" in `workclass`, `occupation`, `native-country`) are NaN.  groups :
        value of `group_by`, "missing" where missing.  `feature_bounds` holds the range of the codes, NaN for
        the columns that the documentation calls continuous.  `fnlwgt` is a survey weight: usually left out.

    Raises
    ------
    FileNotFoundError
        If a file is not there and cannot be downloaded.
    ValueError
        If `subset` or `group_by` is not one of those above.

    Examples
    --------
    >>> from skdro.datasets import fetch_adult
    >>> fetch_adult(group_by="sex").data.shape  # doctest: +SKIP
    (32561, 14)
    """
    if subset not in ("train", "test", "all"):
        raise ValueError(f"subset must be 'train', 'test' or 'all', got {subset!r}.")
    _check_group_by(group_by, ADULT.levels)
    paths = locate(ADULT, data_home, download_if_missing)
    rows = []
    if subset in ("train", "all"):
        rows += read_cells(paths["adult.data"])
    if subset in ("test", "all"):
        # UCI's own file starts with a comment, and its labels end with a point
        rows += [row for row in read_cells(paths["adult.test"]) if not row[0].startswith("|")]
    *features, income = zip(*rows, strict=True)
    column = dict(zip(ADULT.feature_names, features, strict=True))
    return assemble(
        ADULT,
        table(column, ADULT.levels),
        np.array([cell.rstrip(".") == ">50K" for cell in income]).astype(int),
        _clients(column[group_by]),
        return_X_y_groups=return_X_y_groups,
        as_frame=as_frame,
    )


def fetch_diabetes130(
    *,
    group_by: str = "age",
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y_groups: bool = False,
    as_frame: bool = False,
) -> Bunch | Any:
    """Load the diabetes set: 101,766 hospital stays, readmission within 30 days, later, or none.

    The records come from 130 hospitals, but no column says which: clients have to be made of another one.
    A patient may have several stays (71,518 patients): split by `patient` where that would leak.

    Parameters
    ----------
    group_by : str, default="age"
        Categorical column whose values are the clients: "age" (10 bands, none missing), "race" (6 with the
        missing ones), "admission_source_id" (17), "payer_code" (18), "medical_specialty" (73), ...
    data_home, download_if_missing, return_X_y_groups, as_frame
        As in :func:`fetch_dermatology`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`fetch_dermatology`, with data of shape (101766, 47); encounter and patient numbers are no
        features.  Categorical columns, the three administrative ids among them, are coded by their position
        in `feature_levels`: the documented values where there is a short list, else those that occur, sorted.
        Missing cells ("?") are NaN; "None" of the two laboratory tests means not tested and is a value.
        target : 0 "NO", 1 ">30", 2 "<30".  groups : value of `group_by`, "missing" where missing.
        `feature_bounds` holds the range of documented codes and of `time_in_hospital` (1 to 14 days), else
        NaN.  The Bunch also has `patient`, ndarray of int.

    Raises
    ------
    FileNotFoundError
        If the file is not there and cannot be downloaded.
    ValueError
        If `group_by` is not a categorical column.

    Examples
    --------
    >>> from skdro.datasets import fetch_diabetes130
    >>> fetch_diabetes130(group_by="race").data.shape  # doctest: +SKIP
    (101766, 47)
    """
    _check_group_by(group_by, [name for name in DIABETES_COLUMNS if name not in DIABETES_NUMERIC])
    header, *rows = read_cells(locate(DIABETES130, data_home, download_if_missing)["diabetic_data.csv"])
    column = dict(zip(header, zip(*rows, strict=True), strict=True))
    levels = {
        name: DIABETES_LEVELS.get(name) or _sorted_levels(column[name])
        for name in DIABETES_COLUMNS
        if name not in DIABETES_NUMERIC
    }
    readmitted = {name: code for code, name in enumerate(DIABETES130.target_names)}
    return assemble(
        DIABETES130,
        table({name: column[name] for name in DIABETES_COLUMNS}, levels),
        np.array([readmitted[cell] for cell in column["readmitted"]]),
        _clients(column[group_by]),
        return_X_y_groups=return_X_y_groups,
        as_frame=as_frame,
        levels=levels,
        patient=np.array(column["patient_nbr"]).astype(int),
    )


def _check_group_by(group_by, categorical):
    if group_by not in categorical:
        raise ValueError(f"group_by must be a categorical column, one of {list(categorical)}, got {group_by!r}.")


def _clients(cells):
    return np.array(["missing" if cell in MISSING else cell for cell in cells])


def _sorted_levels(cells):
    """Values that occur; whole numbers in their own order, the others (diagnosis codes, names) as text."""
    present = set(cells) - MISSING
    return tuple(sorted(present, key=int if all(cell.isdigit() for cell in present) else str))
