"""From the rows that a user passes to the block of clients that the steps compute on.

`prepare` puts the rows into a public coordinate frame, appends the constant column and sorts them by client in
one stable copy, so that a client is a slice.  At a site of a real federation the same function makes a block
of one client.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real

import numpy as np

from ..ambiguity.transport import TransportNorm
from ..ambiguity.wasserstein import RobustRisk, WassersteinBall
from ..preprocessing import clip_rows

__all__ = [
    "AffineFrame",
    "ClientBlock",
    "ClippedFrame",
    "client_risk",
    "client_weights",
    "common_frame",
    "encode_groups",
    "merge_duplicate_rows",
    "merge_duplicate_sparse_rows",
    "per_client",
    "prepare",
    "stacked",
]


@dataclass(frozen=True)
class AffineFrame:
    """Public coordinates x -> (x - centre) / scale, with or without a constant column appended.

    A common `scale` (a number) leaves a robust problem exactly what it was, with radius and kappa divided by it.

    Parameters
    ----------
    centre : ndarray of shape (n_features,)
    scale : float or ndarray of shape (n_features,)
        Positive.
    constant : bool
        Whether a column of ones follows the features (the intercept's).
    """

    centre: np.ndarray
    scale: float | np.ndarray
    constant: bool

    def enter(self, X: np.ndarray) -> np.ndarray:
        """Rows in frame coordinates, shape (n_rows, n_features [+ 1]); a new array."""
        Z = np.empty((len(X), X.shape[1] + self.constant))
        np.subtract(X, self.centre, out=Z[:, : X.shape[1]])
        Z[:, : X.shape[1]] /= self.scale
        Z[:, X.shape[1] :] = 1.0
        return Z

    def leave(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts, in the user's units, of models in frame coordinates.

        Parameters
        ----------
        M : ndarray of shape (..., n_classes, n_columns)

        Returns
        -------
        coef : ndarray of shape (..., n_classes, n_features)
        intercept : ndarray of shape (..., n_classes)
        """
        coef = M[..., : len(self.centre)] / self.scale
        own = M[..., -1] if self.constant else np.zeros(M.shape[:-1])
        return coef, own - coef @ self.centre

    def inverse(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Model in frame coordinates from coefficients and intercepts in the user's units."""
        M = coef * self.scale
        own = (intercept + coef @ self.centre)[..., None]
        return np.concatenate([M, own], axis=-1) if self.constant else M


@dataclass(frozen=True)
class ClippedFrame:
    """Public box, affine map to [-1, 1], constant column, then each row clipped in l2: what privacy rests on.

    Whatever a record contains, its row has norm at most `data_norm`.

    Parameters
    ----------
    affine : AffineFrame
        Public map of the box to [-1, 1].
    lo, hi : ndarray of shape (n_features,)
        Public box; infinite where features are taken as given.
    data_norm : float
        Bound L on the l2 norm of a row, constant column included.
    """

    affine: AffineFrame
    lo: np.ndarray
    hi: np.ndarray
    data_norm: float

    @classmethod
    def of_box(cls, lo: np.ndarray, hi: np.ndarray, constant: bool, data_norm: float) -> "ClippedFrame":
        """Features clipped to [lo, hi] and mapped to [-1, 1]."""
        return cls(AffineFrame(lo / 2 + hi / 2, (hi - lo) / 2, constant), lo, hi, data_norm)

    @classmethod
    def as_given(cls, n_features: int, constant: bool, data_norm: float) -> "ClippedFrame":
        """Features as they are."""
        unbounded = np.full(n_features, np.inf)
        return cls(AffineFrame(np.zeros(n_features), 1.0, constant), -unbounded, unbounded, data_norm)

    def enter(self, X: np.ndarray) -> np.ndarray:
        """Clipped rows, shape (n_rows, n_features [+ 1]); a new array."""
        return clip_rows(self.affine.enter(np.clip(X, self.lo, self.hi)), self.data_norm)

    def leave(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts in the user's units, as `AffineFrame.leave`: right but for the row clip."""
        return self.affine.leave(M)


@dataclass(frozen=True)
class ClientBlock:
    """Rows of one or more clients, sorted by client.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Rows in frame coordinates.
    y : ndarray of int, shape (n_rows,)
        Class indices.
    weight : ndarray of shape (n_rows,)
        Share of each row in its client's mean; sums to one within a client.
    offsets : ndarray of int, shape (n_clients + 1,)
        Client g owns the rows ``offsets[g]:offsets[g + 1]``.
    clients : ndarray of shape (n_clients,)
        Sorted client labels.
    index : ndarray of int, shape (n_clients,)
        Position of each client in the whole federation.
    settings : dict of str to ndarray of shape (n_clients,)
        Public numbers of each client that a step needs, such as its radius.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    offsets: np.ndarray
    clients: np.ndarray
    index: np.ndarray
    settings: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def n_clients(self) -> int:
        """Number of clients in the block."""
        return len(self.clients)

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each client, shape (n_clients,)."""
        return np.diff(self.offsets)

    def rows(self, g: int) -> slice:
        """Rows of the block's g-th client."""
        return slice(self.offsets[g], self.offsets[g + 1])

    @cached_property
    def _equal(self) -> bool:
        """Whether all clients have the same number of rows, so that products over clients are one call."""
        return bool((self.sizes == self.sizes[0]).all())

    def scores(self, models: np.ndarray) -> np.ndarray:
        """X_g M_g^T of each client's rows, shape (n_rows, n_classes); models (n_clients, n_classes, n_columns)."""
        if self._equal:
            X = self.X.reshape(self.n_clients, -1, self.X.shape[1])
            return np.matmul(X, models.transpose(0, 2, 1)).reshape(len(self.X), -1)
        return np.vstack([self.X[self.rows(g)] @ models[g].T for g in range(self.n_clients)])

    def sums(self, V: np.ndarray) -> np.ndarray:
        """V_g^T X_g of each client, shape (n_clients, n_classes, n_columns); V has shape (n_rows, n_classes)."""
        if self._equal:
            shape = (self.n_clients, -1)
            return np.matmul(
                V.reshape(*shape, V.shape[1]).transpose(0, 2, 1), self.X.reshape(*shape, self.X.shape[1])
            )
        return np.array([V[self.rows(g)].T @ self.X[self.rows(g)] for g in range(self.n_clients)])

    def subset(self, start: int, stop: int) -> "ClientBlock":
        """The block of clients start, ..., stop - 1: views, no copy."""
        rows = slice(self.offsets[start], self.offsets[stop])
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            weight=self.weight[rows],
            offsets=self.offsets[start : stop + 1] - self.offsets[start],
            clients=self.clients[start:stop],
            index=self.index[start:stop],
            settings={name: value[start:stop] for name, value in self.settings.items()},
        )


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
    try:
        clients, index = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"groups must hold labels of one orderable scalar type ({error}).") from None
    if clients.dtype == object:
        if not all(isinstance(label, str | Real) or hasattr(label, "isoformat") for label in clients):
            raise ValueError("groups must hold scalar labels: strings, numbers or dates.")
        clients = np.array(clients.tolist())  # the natural type of the labels
    return clients, index


def _as_array(groups):
    if hasattr(groups, "dtype") or hasattr(groups, "to_numpy"):
        return np.asarray(groups)
    if isinstance(groups, str | bytes | Mapping) or not isinstance(groups, Iterable):
        raise ValueError(f"groups must be an array of client labels, one a row; got {type(groups).__name__}.")
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
            raise ValueError(f"{name} has no entry for client(s) {missing[:5]}.")
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


def common_frame(
    X: np.ndarray, index: np.ndarray, sample_weight: np.ndarray, alpha: np.ndarray, constant: bool
) -> AffineFrame:
    """Frame in which the federation's mean is zero (with an intercept) and its mean squared row norm is one.

    Every client counts with its weight alpha_g, so that the frame is a function of the clients' means and
    mean squares alone; it changes the conditioning of an exact fit, never its solution.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    index : ndarray of int, shape (n_rows,)
        Client index of each row.
    sample_weight : ndarray of shape (n_rows,)
    alpha : ndarray of shape (n_clients,)
    constant : bool
        Whether the model has an intercept.
    """
    share = sample_weight * (alpha / np.bincount(index, weights=sample_weight))[index]
    centre = share @ X if constant else np.zeros(X.shape[1])
    spread = float(np.sqrt(share @ ((X - centre) ** 2).sum(axis=1)))
    # equal rows differ from their mean by rounding, which is no scale to divide by
    return AffineFrame(centre, spread if spread > 1e-13 * np.abs(X).max() else 1.0, constant)


def prepare(
    X: np.ndarray,
    y: np.ndarray,
    index: np.ndarray,
    clients: np.ndarray,
    frame: AffineFrame | ClippedFrame,
    sample_weight: np.ndarray | None = None,
) -> ClientBlock:
    """Rows in frame coordinates, sorted by client.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of int, shape (n_rows,)
        Class indices.
    index : ndarray of int, shape (n_rows,)
        Client index of each row.
    clients : ndarray of shape (n_clients,)
        Sorted client labels; each owns at least one row of positive weight.
    frame : AffineFrame or ClippedFrame
    sample_weight : ndarray of shape (n_rows,), optional
        Non-negative; equal weights if not given.

    Returns
    -------
    ClientBlock
    """
    order = np.argsort(index, kind="stable")
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    totals = np.bincount(index, weights=weight, minlength=len(clients))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(index, minlength=len(clients)))])
    return ClientBlock(
        X=frame.enter(X[order]),
        y=y[order],
        weight=(weight / totals[index])[order],
        offsets=offsets,
        clients=clients,
        index=np.arange(len(clients)),
    )


def stacked(block: ClientBlock) -> ClientBlock:
    """The block with as many rows for each client, if rows of weight zero can fill it up to at most twice its size.

    Steps that work on all clients at once are then a few large products instead of many small ones.

    Parameters
    ----------
    block : ClientBlock

    Returns
    -------
    ClientBlock
        The same block if its clients are too uneven.
    """
    longest = int(block.sizes.max())
    if longest * block.n_clients > 2 * len(block.X):
        return block
    rank = np.arange(len(block.X)) - np.repeat(block.offsets[:-1], block.sizes)
    place = np.repeat(np.arange(block.n_clients) * longest, block.sizes) + rank

    def spread_out(values):
        out = np.zeros((block.n_clients * longest, *values.shape[1:]), dtype=values.dtype)
        out[place] = values
        return out

    return replace(
        block,
        X=spread_out(block.X),
        y=spread_out(block.y),
        weight=spread_out(block.weight),
        offsets=np.arange(block.n_clients + 1) * longest,
    )


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


def client_risk(block: ClientBlock, g: int, norm: TransportNorm, n_classes: int, n_features: int) -> RobustRisk:
    """Robust risk F_g of the block's g-th client, with the radius and kappa of its settings.

    Parameters
    ----------
    block : ClientBlock
    g : int
    norm : TransportNorm
    n_classes, n_features : int
        `n_features` leading columns are transported.
    """
    rows = block.rows(g)
    ball = WassersteinBall(float(block.settings["radius"][g]), float(block.settings["kappa"][g]), norm)
    return RobustRisk(block.X[rows], block.y[rows], block.weight[rows], n_classes, n_features, ball)


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
