"""The one engine behind all loaders: find the files of a set, or download them, then assemble the Bunch.

A set is a frozen `DatasetSpec` (what it is called, where its files come from, what is publicly known about
its columns) and a parse function of its loader.  Files are looked for under one root folder, `data_home`,
else the environment variable SKDRO_DATA, else ``~/skdro_data``, as ``<root>/<name of the set>/<file>``; a
copy compressed as ``.gz`` or ``.xz`` serves as well.  What is missing is downloaded there by pooch.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

ENVIRONMENT_VARIABLE = "SKDRO_DATA"
DEFAULT_HOME = "~/skdro_data"
COMPRESSIONS = ("", ".gz", ".xz")


@dataclass(frozen=True)
class RemoteFile:
    """One file of a set and where it comes from.

    Parameters
    ----------
    name : str
        Name under ``<root>/<name of the set>/``.
    url : str
        Address of the file itself, or of the zip archive that holds it.
    sha256 : str or None
        Checksum of what `url` gives; None where nobody has verified it yet.
    member : str or None
        Path of the file inside the zip archive.
    """

    name: str
    url: str
    sha256: str | None = None
    member: str | None = None


@dataclass(frozen=True)
class DatasetSpec:
    """What is known about a set before a single record is read: all of it public.

    Parameters
    ----------
    name : str
        Folder of the set under the root, and name of its description.
    files : tuple of RemoteFile
    feature_names, target_names : tuple of str
    licence, citation : str
    bounds : mapping of feature name to (low, high)
        Ranges that the attribute documentation states.
    levels : mapping of feature name to tuple of str
        Documented categories of a column, in the order of their codes 0, 1, ...
    """

    name: str
    files: tuple[RemoteFile, ...]
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    licence: str
    citation: str
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def data_root(data_home: str | os.PathLike | None = None) -> Path:
    """Folder that holds one folder per set: `data_home`, else $SKDRO_DATA, else ``~/skdro_data``."""
    return Path(data_home or os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_HOME).expanduser()


def find_file(spec: DatasetSpec, name: str, data_home=None) -> Path | None:
    """Local copy of a file of the set, plain or compressed; None if there is none."""
    folder = data_root(data_home) / spec.name
    candidates = (folder / (name + suffix) for suffix in COMPRESSIONS)
    return next((path for path in candidates if path.is_file()), None)


def locate(spec: DatasetSpec, data_home=None, download_if_missing: bool = True) -> dict[str, Path]:
    """Path of each file of the set; downloads what is missing.

    Raises
    ------
    FileNotFoundError
        If a file is missing and cannot be downloaded; the message says what to do.
    ValueError
        If a downloaded file does not have its recorded checksum.
    """
    return {
        remote.name: find_file(spec, remote.name, data_home)
        or _download(spec, remote, data_home, download_if_missing)
        for remote in spec.files
    }


def _download(spec, remote, data_home, download_if_missing):
    folder = data_root(data_home) / spec.name
    if not download_if_missing:
        raise FileNotFoundError(_what_to_do(spec, remote, folder, "download_if_missing is False"))
    try:
        import pooch
    except ImportError as error:
        raise FileNotFoundError(_what_to_do(spec, remote, folder, "pooch is not installed")) from error
    fname = remote.name if remote.member is None else Path(remote.url).name
    processor = None if remote.member is None else pooch.Unzip(members=[remote.member], extract_dir=".")
    try:
        found = pooch.retrieve(remote.url, known_hash=remote.sha256, fname=fname, path=folder, processor=processor)
    except OSError as error:
        reason = f"the download failed ({type(error).__name__})"
        raise FileNotFoundError(_what_to_do(spec, remote, folder, reason)) from error
    if remote.member is None:
        return Path(found)
    # a member may sit in a folder of the archive; the next call looks for it next to the other files
    return Path(found[0]).replace(folder / remote.name)


def _what_to_do(spec, remote, folder, reason):
    where = remote.url if remote.member is None else f"{remote.member} in {remote.url}"
    return (
        f"The data set {spec.name!r} is not on this machine: {remote.name!r} was not found in "
        f"{str(folder)!r} and was not downloaded, because {reason}. Either put {where} there; or pass "
        f"data_home=, or set the environment variable {ENVIRONMENT_VARIABLE}, to a folder that holds "
        f"{spec.name + '/' + remote.name!r}; or install pooch (pip install skdro[download]) and call again "
        "with network access and download_if_missing=True."
    )


def public_bounds(spec: DatasetSpec) -> tuple[np.ndarray, np.ndarray]:
    """Documented lower and upper bound of each feature, each of shape (n_features,); NaN where none is."""
    of_codes = {name: (0, len(levels) - 1) for name, levels in spec.levels.items()}
    known = {**of_codes, **spec.bounds}
    pairs = [known.get(name, (np.nan, np.nan)) for name in spec.feature_names]
    low, high = np.array(pairs, dtype=float).T
    return low, high


def assemble(
    spec: DatasetSpec,
    data: np.ndarray,
    target: np.ndarray,
    groups: np.ndarray,
    *,
    return_X_y_groups: bool = False,
    as_frame: bool = False,
    target_names: Sequence[str] | None = None,
    levels: Mapping[str, tuple[str, ...]] | None = None,
    **extra,
) -> Bunch | Any:
    """Bunch (or the triple of data, target and groups) from the parsed arrays.

    `levels` adds to the documented categories of the spec those that were read from the data; `extra` are
    further entries of the Bunch.
    """
    levels = {**spec.levels, **(levels or {})}
    frame = None
    if as_frame:
        data, target, groups, frame = _to_pandas(spec, data, target, groups, levels)
    if return_X_y_groups:
        return data, target, groups
    return Bunch(
        data=data,
        target=target,
        groups=groups,
        frame=frame,
        feature_names=list(spec.feature_names),
        target_names=list(target_names or spec.target_names),
        feature_levels=levels,
        feature_bounds=public_bounds(spec),
        DESCR=describe(spec),
        licence=spec.licence,
        citation=spec.citation,
        **extra,
    )


def describe(spec: DatasetSpec) -> str:
    """Description of the set: its text, then licence and citation."""
    text = files("skdro.datasets").joinpath("descr", f"{spec.name}.rst").read_text(encoding="utf-8")
    return f"{text}\n:Licence: {spec.licence}\n:Citation: {spec.citation}\n"


def _to_pandas(spec, data, target, groups, levels):
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True requires pandas.") from error
    columns = {}
    for j, name in enumerate(spec.feature_names):
        columns[name] = data[:, j]
        if name in levels:
            codes = np.where(np.isnan(data[:, j]), -1, data[:, j]).astype(int)
            columns[name] = pd.Categorical.from_codes(codes, categories=list(levels[name]))
    data = pd.DataFrame(columns)
    target = pd.Series(target, name="target")
    groups = pd.Series(groups, name="groups")
    return data, target, groups, pd.concat([data, target, groups], axis=1)
