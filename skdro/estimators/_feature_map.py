"""Feature maps with public parameters: fitted to public random rows, never to records."""

import numpy as np
from sklearn.base import clone

from ..federation.frames import extreme_rows

__all__ = ["public_map"]

DUMMY_ROWS = 1000
ROWS_AT_ONCE = 16
N_ALONE = 1000
"""Features that are put at an end of the box alone, at most."""


def public_map(feature_map, n_features, reaches):
    """The transform of a copy of `feature_map` that was fitted to public random rows, and its number of columns.

    No record is seen by `fit`, so whatever the map learns is public.  A map under which rows depend on each other
    would void the sensitivity, and is refused as far as random rows show it.  A map that fails on some rows of the
    public box would tell which records are there by failing, and is refused as far as the ends of the box show it:
    [-r, r] in every feature, for each r of `reaches`.
    """
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, size=(DUMMY_ROWS, n_features))
    fitted = clone(feature_map)
    try:
        fitted.fit(rows)
        mapped = fitted.transform(rows[:5])
        alone = [fitted.transform(row[None]) for row in rows[:5]]
    except Exception as error:
        raise ValueError(
            "feature_map must be fitted without records and without targets, and could not be fitted to public "
            f"random rows: {error}"
        ) from error
    if not isinstance(mapped, np.ndarray) or mapped.ndim != 2 or len(mapped) != 5:
        raise ValueError("feature_map must return one row of numbers for each row: a dense two-dimensional array.")
    if not np.allclose(mapped, np.vstack(alone), equal_nan=True):
        raise ValueError(
            "feature_map must map each row on its own and always in the same way: one record must not move the "
            "features of another. Use a map with fixed parameters, such as RBFSampler(random_state=0)."
        )
    for reach in reaches:
        _check_ends(fitted.transform, extreme_rows(n_features, reach, N_ALONE), mapped.shape[1], reach)
    return fitted.transform, mapped.shape[1]


def _check_ends(transform, rows, n_mapped, reach):
    try:
        with np.errstate(all="ignore"):  # as in a fit: no numbers are allowed for
            for start in range(0, len(rows), ROWS_AT_ONCE):
                part = rows[start : start + ROWS_AT_ONCE]
                if np.asarray(transform(part), dtype=float).shape != (len(part), n_mapped):
                    raise ValueError("another shape than for random rows")
    except Exception as error:
        raise ValueError(
            "feature_map must map all rows that a record can be, or its failing would tell on a record. On public "
            f"rows with features at 0 and {reach:g} in size it failed: {error} Use a map that is defined everywhere, "
            "such as SplineTransformer(extrapolation='constant'), and feature_bounds, which are mapped to [-1, 1]."
        ) from error
