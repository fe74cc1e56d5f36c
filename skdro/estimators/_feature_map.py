"""Feature maps with public parameters: fitted to public random rows, never to records."""

import numpy as np
from sklearn.base import clone

__all__ = ["public_map"]

DUMMY_ROWS = 1000


def public_map(feature_map, n_features):
    """The transform of a copy of `feature_map` that was fitted to public random rows, and its number of columns.

    No record is seen by `fit`, so whatever the map learns is public.  A map under which rows depend on each other
    would void the sensitivity, and is refused as far as random rows show it.
    """
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, size=(DUMMY_ROWS, n_features))
    fitted = clone(feature_map)
    try:
        fitted.fit(rows)
        mapped = fitted.transform(rows[:5])
        alone = [fitted.transform(row[None]) for row in rows[:5]]
    except (TypeError, ValueError) as error:
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
    return fitted.transform, mapped.shape[1]
