"""One round: every client sends the noisy second moments of its records, and all the rest is post-processing.

client_step:  (A_g, omega B_g, u c_g) of the client's rows, clipped and divided by their norm bound, as one vector
server_step:  keeps the clients' vectors (noise at the clients), or their weighted sum (noise once on the sum)

With two halves, a client's records are dealt at random to two disjoint groups whose vectors are released together:
a record is in one of them only, so that the sensitivity of both is that of one (parallel composition).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...ambiguity.moment import MomentLayout
from ...privacy.ledger import Release
from ...privacy.noise import NoiseSource
from ..frames import ROWS_AT_ONCE, ClippedFrame, MappedFrame
from ..targets import BoundedNumber, CentredClass

__all__ = ["MomentRelease", "RandomHalves", "ServerState", "all_rows", "each_client", "moment_sums", "weighted_sum"]


def moment_sums(
    X: np.ndarray,
    y: np.ndarray,
    rows: np.ndarray,
    frame: ClippedFrame | MappedFrame,
    targets: CentredClass | BoundedNumber,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Sums of z z^T, t z^T and ||t||^2 over records, z the clipped rows in frame coordinates.

    One pass, a few rows at a time, whose (z, t) are in the cache when they are multiplied.

    Parameters
    ----------
    X : ndarray of shape (n_all, n_features)
        Rows in the user's units.
    y : ndarray of shape (n_all,)
    rows : ndarray of int, shape (n_rows,)
        Whose sums are taken, ascending.
    frame : ClippedFrame or MappedFrame
    targets : CentredClass or BoundedNumber

    Returns
    -------
    A : ndarray of shape (n_columns, n_columns)
    B : ndarray of shape (n_outputs, n_columns)
    c : float
    """
    n_columns = len(frame.affine.centre) + frame.affine.constant
    ZT = np.empty((min(len(rows), ROWS_AT_ONCE), n_columns + targets.n_outputs))
    S = np.zeros((ZT.shape[1], ZT.shape[1]))  # an empty half has moments as well: zeros
    for start in range(0, len(rows), ROWS_AT_ONCE):
        few = rows[start : start + ROWS_AT_ONCE]
        ZT = ZT[: len(few)]
        frame.enter_into(_taken(X, few), ZT[:, :n_columns])
        ZT[:, n_columns:] = targets.enter(y[few])
        S += ZT.T @ ZT
    return S[:n_columns, :n_columns], S[n_columns:, :n_columns], float(np.trace(S[n_columns:, n_columns:]))


def _taken(X, rows):
    """Rows of X by ascending numbers; neighbours need no copy."""
    first, last = rows[0], rows[-1] + 1
    return X[first:last] if last - first == len(rows) else X.take(rows, axis=0)


def all_rows(block, g):
    """One group: all rows of the block's g-th client."""
    return [block.rows(g)]


@dataclass(frozen=True)
class RandomHalves:
    """Two disjoint groups of a client's rows, dealt once at random: by position, whatever the records say.

    Parameters
    ----------
    noise : NoiseSource
    """

    noise: NoiseSource

    def __call__(self, block, g) -> list[np.ndarray]:
        """Row numbers of both groups, the first of ceil(N_g / 2) rows."""
        rows = block.rows(g)
        (keys,) = self.noise((len(rows),), clients=block.index[[g]], round=0, release="split into halves")
        order, cut = np.argsort(keys, kind="stable"), (len(rows) + 1) // 2
        return [rows[np.sort(order[:cut])], rows[np.sort(order[cut:])]]


def each_client(vectors, weights):
    """The clients' vectors as they are."""
    return vectors


def weighted_sum(vectors, weights):
    """Weighted sum over clients, shape (1, n_groups, size)."""
    return np.tensordot(weights, vectors, axes=1)[None]


@dataclass(frozen=True)
class ServerState:
    """What was released, shape (n_parts, n_groups, size), and the lines that the server wrote about it."""

    released: np.ndarray | None
    ledger: tuple[Release, ...]


@dataclass(frozen=True)
class MomentRelease:
    """Public settings of the round; see the module for the method.

    Parameters
    ----------
    layout : MomentLayout
    frame : ClippedFrame or MappedFrame
    targets : CentredClass or BoundedNumber
    groups : callable
        Rows of the groups of a client: `all_rows` or `RandomHalves`.
    weights : ndarray of shape (n_clients,)
        Public weight of each client's sums in the weighted sum: alpha_g N / N_g.
    n_records : ndarray of int, shape (n_clients,)
    data_norm : float
        Bound on the norm of the frame's rows, by which they are divided.
    combine : callable
        `each_client` or `weighted_sum`.
    at_client, at_server : callable
        Doors (see `federation.doors`).
    """

    layout: MomentLayout
    frame: ClippedFrame | MappedFrame
    targets: CentredClass | BoundedNumber
    groups: Callable
    weights: np.ndarray
    n_records: np.ndarray
    data_norm: float
    combine: Callable
    at_client: Callable
    at_server: Callable
    clients_per_task: ClassVar[int] = 1
    exchanges: ClassVar[int] = 1

    def client_start(self, block):
        """Nothing released yet: the state of a block is its ledger."""
        return ()

    def client_step(self, ledger, block, broadcast):
        """The moments of each client's groups, as one release."""
        exact = np.array([self._vectors(block, g) for g in range(block.n_clients)])
        released, ledger = self.at_client(
            exact, ledger, index=block.index, round=0, bound=self._bound(self.n_records[block.index])
        )
        return [{"moments": vectors} for vectors in released], ledger

    def _vectors(self, block, g):
        L = self.data_norm
        vectors = []
        for rows in self.groups(block, g):
            present = rows[~block.counted_only[rows]]
            A, B, c = moment_sums(block.X, block.y, present, self.frame, self.targets)
            vectors.append(self.layout.pack(A / L**2, B / L, c))
        return vectors

    def _bound(self, n_records):
        """No entry of a record's term is larger than 1, or omega where targets are involved."""
        return max(1.0, self.layout.statistics_weight) * n_records

    def server_start(self, n_clients, shape):
        """Nothing yet."""
        return ServerState(None, ())

    def broadcast(self, server):
        """Clients need nothing from the server."""
        return {}

    def server_step(self, server, replies, clients):
        """What is kept of the clients' vectors."""
        vectors = np.array([reply["moments"] for reply in replies])
        weights = self.weights[list(clients)]
        released, ledger = self.at_server(
            self.combine(vectors, weights),
            server.ledger,
            index=np.zeros(1, dtype=int),
            round=0,
            bound=self._bound(float(weights @ self.n_records[list(clients)])),
        )
        return replace(server, released=released, ledger=ledger)

    def ledger(self, server, states):
        """All releases of the run: at the clients and at the server."""
        return [line for lines in states for line in lines] + list(server.ledger)

    def finished(self, server):
        """After one round."""
        return True

    def report(self, server):
        """Nothing but the moments, which the estimator keeps."""
        return {}
