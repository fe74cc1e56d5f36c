"""Three small UCI-style sets on which the first federated results were published."""

import os
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ._clients import split_clients_by_share
from ._fetch import DatasetSpec, RemoteFile, assemble, locate
from ._random import RandomStateLike
from ._tables import numbers, read_cells

__all__ = ["fetch_dermatology", "fetch_penguins", "fetch_seeds"]

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"

_FINDINGS = (
    *("erythema", "scaling", "definite borders", "itching", "koebner phenomenon", "polygonal papules"),
    *("follicular papules", "oral mucosal involvement", "knee and elbow involvement", "scalp involvement"),
    *("family history", "melanin incontinence", "eosinophils in the infiltrate", "PNL infiltrate"),
    *("fibrosis of the papillary dermis", "exocytosis", "acanthosis", "hyperkeratosis", "parakeratosis"),
    *("clubbing of the rete ridges", "elongation of the rete ridges"),
    *("thinning of the suprapapillary epidermis", "spongiform pustule", "munro microabcess"),
    *("focal hypergranulosis", "disappearance of the granular layer"),
    *("vacuolisation and damage of basal layer", "spongiosis", "saw-tooth appearance of retes"),
    *("follicular horn plug", "perifollicular parakeratosis", "inflammatory mononuclear infiltrate"),
    "band-like infiltrate",
)

DERMATOLOGY = DatasetSpec(
    name="dermatology",
    files=(RemoteFile("dermatology.data", f"{_UCI}/dermatology/dermatology.data"),),
    feature_names=(*_FINDINGS, "age"),
    target_names=(
        *("psoriasis", "seborrheic dermatitis", "lichen planus"),
        *("pityriasis rosea", "chronic dermatitis", "pityriasis rubra pilaris"),
    ),
    licence="CC BY 4.0",
    citation=("N. Ilter, H. A. Guvenir (1998). Dermatology. UCI Machine Learning Repository. doi:10.24432/C5FK5P"),
    bounds={**{name: (0, 3) for name in _FINDINGS}, "family history": (0, 1)},
)

SEEDS = DatasetSpec(
    name="seeds",
    files=(RemoteFile("seeds_dataset.txt", f"{_UCI}/00236/seeds_dataset.txt"),),
    feature_names=(
        *("area", "perimeter", "compactness", "length of kernel", "width of kernel"),
        *("asymmetry coefficient", "length of kernel groove"),
    ),
    target_names=("Kama", "Rosa", "Canadian"),
    licence="CC BY 4.0",
    citation=(
        "M. Charytanowicz, J. Niewczas, P. Kulczycki, P. Kowalski, S. Lukasik (2010). Seeds. "
        "UCI Machine Learning Repository. doi:10.24432/C5H30K"
    ),
    bounds={"compactness": (0, 1)},
)

PENGUINS = DatasetSpec(
    name="penguins",
    files=(
        RemoteFile(
            "penguins.csv",
            "https://raw.githubusercontent.com/allisonhorst/palmerpenguins/"
            "8957207b78d6ccd1b4654a9dd9c9041b657478ab/inst/extdata/penguins.csv",
            sha256="f204db2c753b0937caac3cb35258562c14f073e4bbc76be24b4c51ce22767a93",
        ),
    ),
    feature_names=("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"),
    target_names=("Adelie", "Chinstrap", "Gentoo"),
    licence="CC0 1.0",
    citation=(
        "A. M. Horst, A. P. Hill, K. B. Gorman (2020). palmerpenguins: Palmer Archipelago (Antarctica) "
        "penguin data; K. B. Gorman, T. D. Williams, W. R. Fraser (2014). PLoS ONE 9(3): e90081"
    ),
)


def fetch_dermatology(
    *,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y_groups: bool = False,
    as_frame: bool = False,
    random_state: RandomStateLike = 0,
) -> Bunch | Any:
    """Load the dermatology set: 366 patients, 34 findings, 6 skin diseases.

    The set has no sites of its own.  Its `groups` are four simulated clinics: each disease is dealt in the
    shares .4, .3, .2, .1, in a random order of the clinics (see :func:`split_clients_by_share`).

    Parameters
    ----------
    data_home : str, path-like or None, default=None
        Folder with one folder per data set; None reads the environment variable ``SKDRO_DATA``, and without
        it takes ``~/skdro_data``.
    download_if_missing : bool, default=True
        Whether to download a file that is not there (requires pooch).
    return_X_y_groups : bool, default=False
        Return ``(data, target, groups)`` instead of a Bunch.
    as_frame : bool, default=False
        Return pandas objects; the Bunch then also has `frame`.
    random_state : int, RandomState instance, Generator or None, default=0
        Determines the simulated clinics.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        data : ndarray of shape (366, 34)
            Degrees 0 to 3 of the findings, family history 0 or 1, age in years.  Eight ages are missing: NaN.
        target : ndarray of int, shape (366,)
            Index into `target_names`.
        groups : ndarray of int, shape (366,)
            Simulated clinic, 0 to 3.
        feature_bounds : tuple of two ndarrays of shape (34,)
            Documented lower and upper bounds; NaN for age, for which none is stated.
        feature_names, target_names, feature_levels, DESCR, licence, citation, frame
            What they say; `feature_levels` names the categories of coded columns (none here).

    Raises
    ------
    FileNotFoundError
        If the file is not there and cannot be downloaded.

    Examples
    --------
    >>> from skdro.datasets import fetch_dermatology
    >>> fetch_dermatology().data.shape  # doctest: +SKIP
    (366, 34)
    """
    path = locate(DERMATOLOGY, data_home, download_if_missing)["dermatology.data"]
    data = np.column_stack([numbers(column) for column in zip(*read_cells(path), strict=True)])
    target = data[:, 34].astype(int) - 1
    groups = split_clients_by_share(target, random_state=random_state)
    return assemble(DERMATOLOGY, data[:, :34], target, groups, return_X_y_groups=return_X_y_groups, as_frame=as_frame)


def fetch_seeds(
    *,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y_groups: bool = False,
    as_frame: bool = False,
    random_state: RandomStateLike = 0,
) -> Bunch | Any:
    """Load the seeds set: 210 wheat kernels, 7 geometric features, 3 varieties.

    The set has no sites of its own.  Its `groups` are four simulated laboratories: each variety is dealt in
    the shares .4, .3, .2, .1, in a random order of the laboratories (see :func:`split_clients_by_share`).

    Parameters
    ----------
    data_home, download_if_missing, return_X_y_groups, as_frame
        As in :func:`fetch_dermatology`.
    random_state : int, RandomState instance, Generator or None, default=0
        Determines the simulated laboratories.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`fetch_dermatology`, with data of shape (210, 7), 70 kernels of each variety and no
        missing value.  `feature_bounds` holds the bounds of the compactness ``4 pi area / perimeter ** 2``,
        which lies in [0, 1] by its definition; NaN elsewhere.

    Raises
    ------
    FileNotFoundError
        If the file is not there and cannot be downloaded.

    Examples
    --------
    >>> from skdro.datasets import fetch_seeds
    >>> X, y, groups = fetch_seeds(return_X_y_groups=True)  # doctest: +SKIP
    """
    path = locate(SEEDS, data_home, download_if_missing)["seeds_dataset.txt"]
    # UCI's own copy doubles some tabs, hence any run of white space separates
    rows = read_cells(path, separator=None)
    data = np.column_stack([numbers(column) for column in zip(*rows, strict=True)])
    target = data[:, 7].astype(int) - 1
    groups = split_clients_by_share(target, random_state=random_state)
    return assemble(SEEDS, data[:, :7], target, groups, return_X_y_groups=return_X_y_groups, as_frame=as_frame)


def fetch_penguins(
    *,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y_groups: bool = False,
    as_frame: bool = False,
) -> Bunch | Any:
    """Load the Palmer penguins: 344 birds, 4 body measurements, 3 species; the clients are the islands.

    Adelie penguins live on all three islands, Gentoo only on Biscoe and Chinstrap only on Dream: no client
    sees every class.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y_groups, as_frame
        As in :func:`fetch_dermatology`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`fetch_dermatology`, with data of shape (344, 4): bill length and depth and flipper length
        in mm, body mass in g.  Two birds have no measurements: NaN.  groups : island of each bird, "Biscoe",
        "Dream" or "Torgersen".  No documented bounds: `feature_bounds` is NaN.  The Bunch also has `sex`
        ("female", "male" or "" for the 11 unknown) and `year` of each bird.

    Raises
    ------
    FileNotFoundError
        If the file is not there and cannot be downloaded.
    ValueError
        If a downloaded file does not have its recorded checksum.

    Examples
    --------
    >>> from skdro.datasets import fetch_penguins
    >>> sorted(set(fetch_penguins().groups))  # doctest: +SKIP
    ['Biscoe', 'Dream', 'Torgersen']
    """
    path = locate(PENGUINS, data_home, download_if_missing)["penguins.csv"]
    header, *rows = read_cells(path)
    column = dict(zip(header, zip(*rows, strict=True), strict=True))
    data = np.column_stack([numbers(column[name]) for name in PENGUINS.feature_names])
    species, target = np.unique(column["species"], return_inverse=True)
    return assemble(
        PENGUINS,
        data,
        target,
        np.array(column["island"]),
        return_X_y_groups=return_X_y_groups,
        as_frame=as_frame,
        target_names=species.tolist(),
        sex=np.array(["" if cell == "NA" else cell for cell in column["sex"]]),
        year=numbers(column["year"]).astype(int),
    )
