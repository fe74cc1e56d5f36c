"""Equal records become one with the sum of their weights, so that exact fits do not depend on order or repetition."""

import numpy as np

__all__ = ["merge_duplicate_rows", "merge_duplicate_sparse_rows"]


def merge_duplicate_rows(
    X: np.ndarray, y: np.ndarray, index: np.ndarray, sample_weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Equal records of one client become one record with the sum of their weights, in a canonical order.

    So an exact fit depends neither on the order of the rows nor on whether a record was repeated or weighted,
    to the last bit.  Records of weight zero vanish.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    y, index : ndarray of int, shape (n_rows,)
    sample_weight : ndarray of shape (n_rows,)

    Returns
    -------
    X, y, index, sample_weight
        Sorted by client, label and features.
    """
    keep = sample_weight > 0
    X, y, index, sample_weight = X[keep] + 0.0, y[keep], index[keep], sample_weight[keep]  # -0.0 becomes 0.0
    order = np.lexsort((*X.T[::-1], y, index))
    X, y, index, sample_weight = X[order], y[order], index[order], sample_weight[order]
    new = np.ones(len(X), dtype=bool)
    new[1:] = (index[1:] != index[:-1]) | (y[1:] != y[:-1]) | (X[1:] != X[:-1]).any(axis=1)
    first = np.flatnonzero(new)
    # sorted summands make the sum independent of the order in which the copies came
    starts = np.repeat(first, np.diff(np.append(first, len(X))))
    by_weight = np.lexsort((sample_weight, starts))
    return X[first], y[first], index[first], np.add.reduceat(sample_weight[by_weight], first)


def merge_duplicate_sparse_rows(X, y: np.ndarray, index: np.ndarray, sample_weight: np.ndarray) -> tuple:
    """As `merge_duplicate_rows`, for a CSR matrix; rows are told apart by their stored entries.

    Parameters
    ----------
    X : CSR matrix or array of shape (n_rows, n_features)
    y, index : ndarray of int, shape (n_rows,)
    sample_weight : ndarray of shape (n_rows,)

    Returns
    -------
    X, y, index, sample_weight
    """
    X = X.copy()
    X.sum_duplicates()  # also sorts the entries of each row
    X.eliminate_zeros()
    weights: dict[tuple, list] = {}
    first: dict[tuple, int] = {}
    for row in np.flatnonzero(sample_weight > 0).tolist():
        entries = slice(X.indptr[row], X.indptr[row + 1])
        key = (int(index[row]), int(y[row]), X.indices[entries].tobytes(), X.data[entries].tobytes())
        weights.setdefault(key, []).append(float(sample_weight[row]))
        first.setdefault(key, row)
    keys = sorted(weights)
    kept = np.array([first[key] for key in keys], dtype=int)
    return X[kept], y[kept], index[kept], np.array([sum(sorted(weights[key])) for key in keys])
