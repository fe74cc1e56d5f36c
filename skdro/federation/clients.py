"""Who owns which row: client labels, one number a client, and the clients' weights."""

from collections.abc import Iterable, Mapping
from numbers import Real

import numpy as np

__all__ = ["client_weights", "encode_groups", "per_client"]


def encode_groups(groups, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorted client labels and the client index of each row.

    Labels are taken by position (a pandas index plays no part) and only those that occur count.

    Parameters
    ----------
    groups : array-like of shape (n_rows,) or None
        Client label of each row, of one orderable scalar type; None for a single client.
    n_rows : int

    Returns
    -------
    clients : ndarray of shape (n_clients,)
    index : ndarray of int, shape (n_rows,)

    Raises
    ------
    ValueError
        Names `groups` when it is not one-dimensional, has another length, has missing values, or mixes types
        that cannot be ordered.

    Examples
    --------
    >>> encode_groups(["north", "south", "north"], 3)
    (array(['north', 'south'], dtype='<U5'), array([0, 1, 0]))
    """
    if groups is None:
        return np.zeros(1, dtype=int), np.zeros(n_rows, dtype=int)
    labels = _as_array(groups)
    if labels.ndim != 1:
        raise ValueError(f"groups must be one-dimensional, one client label a row; got shape {labels.shape}.")
    if len(labels) != n_rows:
        raise ValueError(f"groups must have one client label a row: got {len(labels)} labels for {n_rows} rows.")
    if any(_is_missing(label) for label in (labels if labels.dtype.kind in "OfcmM" else ())):
        raise ValueError("groups has missing values; give each row the label of its client or drop the row.")
    if labels.dtype.kind in "iu" and n_rows and int(labels.max()) - int(labels.min()) < n_rows:
        return _numbered(labels)
    try:
        clients, index = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"groups must hold labels of one orderable scalar type ({error}).") from None
    if clients.dtype == object:
        if not all(isinstance(label, str | Real) or hasattr(label, "isoformat") for label in clients):
            raise ValueError("groups must hold scalar labels: strings, numbers or dates.")
        clients = np.array(clients.tolist())  # the natural type of the labels
    return clients, index


def _numbered(labels):
    """What `np.unique` returns, without sorting: for integers that lie close together."""
    wide = labels if labels.dtype.itemsize == 8 else labels.astype(np.int64)  # 127 - (-128) is no int8
    place = (wide - wide.min()).astype(np.intp)
    occurs = np.bincount(place) > 0
    clients = wide.min() + np.flatnonzero(occurs).astype(wide.dtype)
    return clients.astype(labels.dtype), (np.cumsum(occurs) - 1)[place]


def _as_array(groups):
    if hasattr(groups, "dtype") or hasattr(groups, "to_numpy"):
        return np.asarray(groups)
    if isinstance(groups, str | bytes | Mapping) or not isinstance(groups, Iterable):
        raise ValueError(
            f"groups must be an array of client labels, one a row; got {type(groups).__name__}. "
            "A column of a table is passed itself, groups=table[name]."
        )
    # a list that mixes numbers and strings must not silently become strings
    labels = list(groups)
    if any(isinstance(label, list | tuple | np.ndarray) for label in labels):
        raise ValueError("groups must be one-dimensional, one client label a row; got a sequence of sequences.")
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _is_missing(label):
    # pandas' NA and NaT are recognised by name, so that pandas need not be imported
    return label is None or type(label).__name__ in ("NAType", "NaTType") or label != label


def per_client(value, clients: np.ndarray, name: str) -> np.ndarray:
    """One number a client from a number, an array in sorted client order, or a mapping by client label.

    Parameters
    ----------
    value : float, array-like of shape (n_clients,), or mapping
        A mapping may name clients that do not occur (in a cross-validation fold, say).
    clients : ndarray of shape (n_clients,)
    name : str
        Name of the parameter, for messages.

    Returns
    -------
    ndarray of shape (n_clients,)

    Raises
    ------
    ValueError
        Names the parameter when a client is missing or the length is wrong.

    Examples
    --------
    >>> per_client({"a": 1.0, "b": 2.0, "c": 3.0}, np.array(["a", "c"]), "radius")
    array([1., 3.])
    """
    if isinstance(value, Mapping):
        # nanoseconds would become integers: as dates they match the labels that users write
        labels = (clients.astype("datetime64[us]") if clients.dtype == "datetime64[ns]" else clients).tolist()
        missing = [label for label in labels if label not in value]
        if missing:
            unused = [label for label in value if label not in labels]
            other = f", but one for {unused[:5]}" if unused else ""
            raise ValueError(
                f"{name} has no entry for client(s) {missing[:5]}{other}. Give one number for each client, under its "
                "label as it stands in groups."
            )
        value = [value[label] for label in labels]
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number for each client ({error}).") from None
    if array.ndim == 0:
        return np.full(len(clients), float(array))
    if array.shape != (len(clients),):
        raise ValueError(
            f"{name} has shape {array.shape} but there are {len(clients)} clients. Give one number, one number a "
            "client in sorted order, or, under cross-validation, a mapping by client label."
        )
    return array


def client_weights(spec, clients: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Weights alpha_g of the clients in the federation's objective; they sum to one.

    Parameters
    ----------
    spec : {"uniform", "size"}, array-like or mapping
    clients : ndarray of shape (n_clients,)
    sizes : ndarray of shape (n_clients,)
        Rows (or total sample weight) of each client.

    Raises
    ------
    ValueError
        Names `client_weights` when a weight is negative or not finite, or all are zero.
    """
    by_name = {"uniform": np.ones(len(clients)), "size": sizes.astype(float)}
    weights = by_name[spec] if isinstance(spec, str) else per_client(spec, clients, "client_weights")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0) or weights.sum() <= 0:
        raise ValueError("client_weights must be finite and non-negative, and not all zero.")
    return weights / weights.sum()
