"""From validated rows to the block of clients that the steps compute on.

`prepare` puts the rows into a public coordinate frame and sorts them by client in one stable copy, so that a
client is a slice.  At a site of a real federation the same function makes a block of one client.  A step that reads
each row once needs no copy: `where_they_lie`.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..ambiguity.transport import TransportNorm
from ..ambiguity.wasserstein import RobustRisk, WassersteinBall
from .frames import Frame

__all__ = ["ClientBlock", "ScatteredBlock", "by_client", "client_risk", "prepare", "stacked", "where_they_lie"]


@dataclass(frozen=True)
class ClientBlock:
    """Rows of one or more clients, sorted by client.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Rows in frame coordinates (as they are, before `prepare`).
    y : ndarray of shape (n_rows,)
        Class indices, or the targets of a regression.
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

    def without(self, null: np.ndarray) -> "ClientBlock":
        """The block with some records, bool of shape (n_rows,), counted but of weight zero: null records."""
        return replace(self, weight=np.where(null, 0.0, self.weight))

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


def by_client(
    X: np.ndarray,
    y: np.ndarray,
    index: np.ndarray,
    clients: np.ndarray,
    sample_weight: np.ndarray | None = None,
) -> ClientBlock:
    """Rows as they are, sorted by client; not copied if they are sorted already.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        Class indices, or the targets of a regression.
    index : ndarray of int, shape (n_rows,)
        Client index of each row.
    clients : ndarray of shape (n_clients,)
        Sorted client labels; each owns at least one row of positive weight.
    sample_weight : ndarray of shape (n_rows,), optional
        Non-negative; equal weights if not given.

    Returns
    -------
    ClientBlock
    """
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    weight = weight / np.bincount(index, weights=weight, minlength=len(clients))[index]
    if not (index[:-1] <= index[1:]).all():
        order = _stable_order(index, len(clients))
        X, y, weight = X.take(order, axis=0), y[order], weight[order]
    return ClientBlock(
        X=X,
        y=y,
        weight=weight,
        offsets=_offsets(index, len(clients)),
        clients=clients,
        index=np.arange(len(clients)),
    )


def _stable_order(index, n_clients):
    """Row numbers sorted by client; integers of two bytes are sorted in linear time."""
    return np.argsort(index.astype(np.min_scalar_type(n_clients)), kind="stable")


def _offsets(index, n_clients):
    return np.concatenate([[0], np.cumsum(np.bincount(index, minlength=n_clients))])


@dataclass(frozen=True)
class ScatteredBlock:
    """Rows of one or more clients where they lie in the user's data, which may be larger than a copy can be.

    Parameters
    ----------
    X : ndarray of shape (n_all, n_features)
        Rows of all clients, in any order.
    y : ndarray of shape (n_all,)
    counted_only : ndarray of bool, shape (n_all,)
        Records that are counted and add nothing: null records.
    order : ndarray of int, shape (n_rows,)
        Row numbers in `X`, sorted by client and ascending within.
    offsets : ndarray of int, shape (n_clients + 1,)
        Client g owns the rows ``order[offsets[g]:offsets[g + 1]]``.
    index : ndarray of int, shape (n_clients,)
        Position of each client in the whole federation.
    """

    X: np.ndarray
    y: np.ndarray
    counted_only: np.ndarray
    order: np.ndarray
    offsets: np.ndarray
    index: np.ndarray

    @property
    def n_clients(self) -> int:
        """Number of clients in the block."""
        return len(self.index)

    def rows(self, g: int) -> np.ndarray:
        """Row numbers of the block's g-th client."""
        return self.order[self.offsets[g] : self.offsets[g + 1]]

    def subset(self, start: int, stop: int) -> "ScatteredBlock":
        """The block of clients start, ..., stop - 1: views, no copy."""
        return replace(
            self,
            order=self.order[self.offsets[start] : self.offsets[stop]],
            offsets=self.offsets[start : stop + 1] - self.offsets[start],
            index=self.index[start:stop],
        )


def where_they_lie(
    X: np.ndarray, y: np.ndarray, index: np.ndarray, n_clients: int, null: np.ndarray | None = None
) -> ScatteredBlock:
    """Block of rows that are not copied.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    index : ndarray of int, shape (n_rows,)
        Client index of each row.
    n_clients : int
    null : ndarray of bool, shape (n_rows,), optional
        Records that are counted and add nothing.

    Returns
    -------
    ScatteredBlock
    """
    return ScatteredBlock(
        X=X,
        y=y,
        counted_only=np.zeros(len(X), dtype=bool) if null is None else null,
        order=_stable_order(index, n_clients),
        offsets=_offsets(index, n_clients),
        index=np.arange(n_clients),
    )


def prepare(
    X: np.ndarray,
    y: np.ndarray,
    index: np.ndarray,
    clients: np.ndarray,
    frame: Frame,
    sample_weight: np.ndarray | None = None,
) -> ClientBlock:
    """Rows and outputs in frame coordinates, sorted by client.

    Parameters
    ----------
    X, y, index, clients, sample_weight
        As in `by_client`.
    frame : Frame

    Returns
    -------
    ClientBlock
    """
    block = by_client(X, y, index, clients, sample_weight)
    return replace(block, X=frame.enter(block.X), y=frame.enter_response(block.y))


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
