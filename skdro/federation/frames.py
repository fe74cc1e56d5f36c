"""Public coordinates in which models are computed, and the way back to the user's units.

A frame maps rows into coordinates that suit the method: centred and of unit size for exact fits, a public box and
a bounded norm for private ones.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..preprocessing import clip_rows_into

__all__ = [
    "AffineFrame",
    "ClippedFrame",
    "Frame",
    "MappedFrame",
    "ResponseFrame",
    "client_moments",
    "extreme_rows",
    "frame_of_moments",
    "response_frame_of_moments",
]


ROWS_AT_ONCE = 2048
"""Rows that are clipped at once: few enough to stay in the processor's cache."""

MAP_FAILED = (
    "feature_map failed on a record. It must map every row of the public box (feature_bounds, mapped to [-1, 1]; any "
    "row without them) to the same number of columns. Nothing more is said here, since it would tell on the record."
)


def extreme_rows(n_features: int, reach: float, n_alone: int | None = None) -> np.ndarray:
    """Public rows at the ends of a box: zeros, all features at an end, and one feature at an end at a time.

    Parameters
    ----------
    n_features : int
    reach : float
        The box is [-reach, reach] in every feature.
    n_alone : int, optional
        Features that are put at an end alone, evenly spread; all by default.

    Returns
    -------
    ndarray of shape (3 + 2 * n_alone, n_features)

    Examples
    --------
    >>> extreme_rows(2, 1.0).tolist()
    [[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
    """
    n_alone = n_features if n_alone is None else min(n_alone, n_features)
    alone = np.zeros((n_alone, n_features))
    alone[np.arange(n_alone), np.linspace(0, n_features - 1, n_alone).astype(int)] = 1.0
    together = np.array([[0.0], [1.0], [-1.0]]) * np.ones(n_features)
    return reach * np.vstack([together, alone, 0.0 - alone])


class Frame:
    """What all frames share: what is to be predicted stays as it is, unless a frame says otherwise."""

    def enter(self, X: np.ndarray) -> np.ndarray:
        """Rows in frame coordinates, shape (n_rows, n_columns); a new array."""
        raise NotImplementedError

    def enter_response(self, y: np.ndarray) -> np.ndarray:
        """Class indices or targets in frame coordinates."""
        return y


@dataclass(frozen=True)
class AffineFrame(Frame):
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
class ClippedFrame(Frame):
    """Public box, affine map to [-1, 1], constant column, then each row clipped in l2: what privacy rests on.

    Whatever a record contains, its row has norm at most `data_norm`.

    Parameters
    ----------
    affine : AffineFrame
        Public map of the box to [-1, 1].
    limit : float
        Bound on the mapped features: 1 where there is a box, infinite where features are taken as given.
    data_norm : float
        Bound L on the l2 norm of a row, constant column included.
    """

    affine: AffineFrame
    limit: float
    data_norm: float

    @classmethod
    def of_box(cls, lo: np.ndarray, hi: np.ndarray, constant: bool, data_norm: float) -> "ClippedFrame":
        """Features mapped from [lo, hi] to [-1, 1] and clipped to that."""
        return cls(AffineFrame(lo / 2 + hi / 2, (hi - lo) / 2, constant), 1.0, data_norm)

    @classmethod
    def as_given(cls, n_features: int, constant: bool, data_norm: float) -> "ClippedFrame":
        """Features as they are."""
        return cls(AffineFrame(np.zeros(n_features), 1.0, constant), np.inf, data_norm)

    def enter(self, X: np.ndarray) -> np.ndarray:
        """Clipped rows, shape (n_rows, n_features [+ 1]); a new array."""
        Z = np.empty((len(X), X.shape[1] + self.affine.constant))
        for start in range(0, len(X), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            self.enter_into(X[rows], Z[rows])
        return Z

    def enter_into(self, X: np.ndarray, Z: np.ndarray) -> None:
        """`enter` for rows that fit into the cache, written into `Z`."""
        # only a feature far outside of its box can overflow, and ends at the limit
        with np.errstate(over="ignore"):
            U = _row_by_row(np.subtract, np.ascontiguousarray(X), self.affine.centre, np.empty(X.shape))
            _row_by_row(np.divide, U, self.affine.scale, U)
        U.clip(-self.limit, self.limit, out=U)
        clip_rows_into(U, self.data_norm, Z)

    def extremes(self, n_alone: int) -> np.ndarray:
        """Public rows as `enter` returns them, at the ends of what it can return; see `extreme_rows`."""
        rows = extreme_rows(len(self.affine.centre), min(self.limit, self.data_norm), n_alone)
        return clip_rows_into(rows, self.data_norm, np.empty((len(rows), rows.shape[1] + self.affine.constant)))

    def leave(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts in the user's units, as `AffineFrame.leave`: right but for the row clip."""
        return self.affine.leave(M)


@dataclass(frozen=True)
class MappedFrame(Frame):
    """A public map of the features, such as random Fourier features, between the public box and the norm clip.

    The map is the user's code.  What it raises could tell on a record, so one fixed text takes its place; that it
    failed at all is still one bit about the records, which no noise hides: the map must be total on the box.

    Parameters
    ----------
    box : ClippedFrame
        Of the features, without constant and norm clip.
    transform : callable
        Maps rows to rows, each on its own, by public parameters only.
    clipped : ClippedFrame
        Of the mapped features.
    """

    box: ClippedFrame
    transform: Callable[[np.ndarray], np.ndarray]
    clipped: ClippedFrame

    @property
    def affine(self) -> AffineFrame:
        """Public coordinates of the mapped features."""
        return self.clipped.affine

    @property
    def data_norm(self) -> float:
        """Bound on the norm of the rows."""
        return self.clipped.data_norm

    def enter(self, X: np.ndarray) -> np.ndarray:
        """Clipped rows of mapped features, shape (n_rows, n_mapped [+ 1]); what is no number counts as 0.

        Raises
        ------
        ValueError
            The map failed: a fixed text, without the cause.
        """
        Z = np.empty((len(X), len(self.affine.centre) + self.affine.constant))
        self.enter_into(X, Z)
        return Z

    def enter_into(self, X: np.ndarray, Z: np.ndarray) -> None:
        """`enter`, written into `Z`."""
        mapped = self._mapped(self.box.enter(X))
        if mapped is None:  # raised here and not where it failed, so that no cause hangs on it
            raise ValueError(MAP_FAILED)
        self.clipped.enter_into(np.nan_to_num(mapped, nan=0.0, posinf=1e300, neginf=-1e300), Z)

    def leave(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts of the mapped features, as `AffineFrame.leave`."""
        return self.clipped.leave(M)

    def _mapped(self, U):
        """Mapped rows, or None where the map fails, in whatever way."""
        try:
            mapped = np.asarray(self.transform(U), dtype=float)
        except Exception:
            return None
        return mapped if mapped.shape == (len(U), len(self.affine.centre)) else None


def _row_by_row(operation, X, row, out, n_beside=32):
    """operation(X, row) into `out`, both contiguous; many rows side by side, since short loops cost more to start."""
    whole = len(X) // n_beside * n_beside
    wide = np.full((n_beside, X.shape[1]), row).reshape(-1)
    operation(X[:whole].reshape(-1, len(wide)), wide, out=out[:whole].reshape(-1, len(wide)))
    operation(X[whole:], row, out=out[whole:])
    return out


def client_moments(
    X: np.ndarray, index: np.ndarray, sample_weight: np.ndarray, n_clients: int
) -> dict[str, np.ndarray]:
    """Weight, mean and mean squared distance from it of each client's rows: what a common frame is made of.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    index : ndarray of int, shape (n_rows,)
        Client index of each row.
    sample_weight : ndarray of shape (n_rows,)
    n_clients : int

    Returns
    -------
    moments : dict
        "weight" and "deviation" of shape (n_clients,), "mean" of shape (n_clients, n_features); zero for a client
        without weight.
    """
    order = np.argsort(index, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(index, minlength=n_clients))])
    weight, mean, deviation = np.zeros(n_clients), np.zeros((n_clients, X.shape[1])), np.zeros(n_clients)
    for g in range(n_clients):
        rows = order[bounds[g] : bounds[g + 1]]
        own, own_weight = X[rows], sample_weight[rows]
        weight[g] = own_weight.sum()
        if weight[g] > 0:
            share = own_weight / weight[g]
            mean[g] = share @ own
            deviation[g] = share @ ((own - mean[g]) ** 2).sum(axis=1)
    return {"weight": weight, "mean": mean, "deviation": deviation}


def frame_of_moments(mean: np.ndarray, deviation: np.ndarray, alpha: np.ndarray, constant: bool) -> AffineFrame:
    """Frame in which the federation's mean is zero (with an intercept) and its mean squared row norm is one.

    Parameters
    ----------
    mean : ndarray of shape (n_clients, n_features)
    deviation : ndarray of shape (n_clients,)
        As `client_moments` returns them.
    alpha : ndarray of shape (n_clients,)
        Client weights, sum one.
    constant : bool
        Whether the model has an intercept.
    """
    centre = alpha @ mean if constant else np.zeros(mean.shape[1])
    spread = float(np.sqrt(alpha @ (deviation + ((mean - centre) ** 2).sum(axis=1))))
    # equal rows differ from their mean by rounding, which is no scale to divide by
    return AffineFrame(centre, spread if spread > 1e-13 * np.abs(mean).max() else 1.0, constant)


@dataclass(frozen=True)
class ResponseFrame(Frame):
    """Coordinates of a regression: those of the rows, and y -> (y - centre) / scale for the responses.

    Parameters
    ----------
    affine : AffineFrame
        Of the rows, with a common scale.
    centre, scale : float
        Of the responses; without an intercept the centre is zero, or models could not be taken back.
    """

    affine: AffineFrame
    centre: float
    scale: float

    @property
    def label(self) -> float:
        """(scale of the rows) / (scale of the responses): what a unit of response is in the metric of the rows."""
        return float(self.affine.scale) / self.scale

    def enter(self, X: np.ndarray) -> np.ndarray:
        """Rows in frame coordinates, as `AffineFrame.enter`."""
        return self.affine.enter(X)

    def enter_response(self, y: np.ndarray) -> np.ndarray:
        """Responses in frame coordinates."""
        return (y - self.centre) / self.scale

    def leave(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (..., 1, n_features) and intercepts (..., 1) in the user's units."""
        coef, own = self.affine.leave(M)
        return coef * self.scale, own * self.scale + self.centre


def response_frame_of_moments(
    rows: dict[str, np.ndarray], responses: dict[str, np.ndarray], alpha: np.ndarray, constant: bool
) -> ResponseFrame:
    """`frame_of_moments` of the rows, and of the responses as if they were one more feature.

    Parameters
    ----------
    rows, responses : dict
        "mean" and "deviation" as `client_moments` returns them; means of shape (n_clients, n_features) and
        (n_clients, 1).
    alpha, constant
        As in `frame_of_moments`.
    """
    affine, response = (
        frame_of_moments(moments["mean"], moments["deviation"], alpha, constant) for moments in (rows, responses)
    )
    return ResponseFrame(affine, float(response.centre[0]), float(response.scale))
