"""Moment ambiguity: all second moments within a spectral ball around the released ones, of the size of their noise.

With rows x, target vectors t and a model W, the squared loss of n records is a linear function of their moments,

    sum_n ||t_n - W x_n||^2 = <S, V V^T>,   S = [[A, B^T], [B, C]],  V = (W, -I),
    A = sum x x^T,  B = sum t x^T,  c = tr C = sum ||t||^2,

and its supremum over ||E||_2 <= eta of S + E is that of S plus eta (||W||_F^2 + K): ridge regression whose penalty
is the size of the noise, a public number (Delage & Ye 2010 for the ambiguity set).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import sqrt

import numpy as np
from scipy.special import ndtri

__all__ = ["MomentLayout", "Moments", "RobustQuadratic", "noise_edge", "noise_quantile", "pooled", "robust_quadratic"]


@dataclass(frozen=True)
class MomentLayout:
    """How the moments of a group of records lie in the released vector.

    Parameters
    ----------
    n_columns, n_outputs : int
        P entries of a row, K of a target vector.
    statistics_weight : float
        omega: B is released as omega B.
    square_weight : float
        u: c is released as u c; 0 if it is not released.
    target_square : float
        ||t||^2 of every record where it is public (and `square_weight` 0).
    """

    n_columns: int
    n_outputs: int
    statistics_weight: float
    square_weight: float
    target_square: float = 0.0

    @property
    def size(self) -> int:
        """Length of the released vector."""
        P = self.n_columns
        return P * (P + 1) // 2 + self.n_outputs * P + (self.square_weight > 0)

    def pack(self, A: np.ndarray, B: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Vector whose l2 norm is that of (A, omega B, u c) in Frobenius norm, shape (size,).

        Parameters
        ----------
        A : ndarray of shape (n_columns, n_columns)
            Symmetric.
        B : ndarray of shape (n_outputs, n_columns)
        c : float or ndarray of shape ()
        """
        i, j, scale = _upper_triangle(self.n_columns)
        upper = A[i, j] * scale
        last = [self.square_weight * float(c)] if self.square_weight else []
        return np.concatenate([upper, self.statistics_weight * B.ravel(), last])

    def unpack(self, vector: np.ndarray, n_records: float, sigma: float) -> "Moments":
        """The moments that a released vector stands for; A is symmetric.

        Parameters
        ----------
        vector : ndarray of shape (size,)
        n_records : float
            Records behind it, public.
        sigma : float
            Standard deviation of the noise of each entry.
        """
        P, K = self.n_columns, self.n_outputs
        i, j, scale = _upper_triangle(P)
        A = np.zeros((P, P))
        A[i, j] = A[j, i] = vector[: len(i)] / scale
        B = vector[len(i) : len(i) + K * P].reshape(K, P) / self.statistics_weight
        c = float(vector[-1]) / self.square_weight if self.square_weight else n_records * self.target_square
        return Moments(A, B, c, float(n_records), float(sigma), self)


@lru_cache(maxsize=4)  # the clients of a federation share one
def _upper_triangle(n_columns):
    """Rows, columns and scale of the entries of a symmetric matrix that are released."""
    i, j = np.triu_indices(n_columns)
    return i, j, np.where(i == j, 1.0, sqrt(2.0))


@dataclass(frozen=True, eq=False)
class Moments:
    """Noisy second moments of a group of records, as released: public.

    Parameters
    ----------
    A : ndarray of shape (n_columns, n_columns)
        Sum of x x^T; the last column of x is the constant if the model has an intercept.
    B : ndarray of shape (n_outputs, n_columns)
        Sum of t x^T.
    c : float
        Sum of ||t||^2.
    n_records : float
        Number of records, or their total weight.
    sigma : float
        Standard deviation of the noise of the released vector, see `MomentLayout.pack`.
    layout : MomentLayout
    """

    A: np.ndarray
    B: np.ndarray
    c: float
    n_records: float
    sigma: float
    layout: MomentLayout

    @property
    def _records(self):
        """Half of a client of one row may be empty: its moments are noise, and so is its mean."""
        return max(self.n_records, 1.0)

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of A: the same for every robustness that is tried."""
        values, vectors = np.linalg.eigh(self.A)
        return values, vectors  # a plain tuple: skops files name the types in them

    def loss(self, W: np.ndarray) -> float:
        """Mean squared loss at W, shape (n_outputs, n_columns): unbiased, and negative if the noise is large."""
        return float((((W @ self.A) * W).sum() - 2 * (self.B * W).sum() + self.c) / self._records)

    def loss_bound(self, W: np.ndarray, eta: float) -> float:
        """Largest mean squared loss at W if the true moments are within `eta` of these, at least 0."""
        return max(self.loss(W) + eta * ((W**2).sum() + len(W)) / self._records, 0.0)

    def difference_noise(self, W: np.ndarray, V: np.ndarray) -> float:
        """Standard deviation of ``loss(W) - loss(V)`` for models that do not depend on this noise."""
        quadratic = ((W.T @ W - V.T @ V) ** 2).sum()
        linear = 4 * ((W - V) ** 2).sum() / self.layout.statistics_weight**2
        return self.sigma * sqrt(quadratic + linear) / self._records


def pooled(parts: Sequence[Moments], weights: np.ndarray) -> Moments:
    """Weighted sum of the moments of groups whose noises are independent.

    Parameters
    ----------
    parts : sequence of Moments
    weights : ndarray of shape (n_parts,)
    """
    return Moments(
        A=sum(w * part.A for w, part in zip(weights, parts, strict=True)),
        B=sum(w * part.B for w, part in zip(weights, parts, strict=True)),
        c=float(sum(w * part.c for w, part in zip(weights, parts, strict=True))),
        n_records=float(sum(w * part.n_records for w, part in zip(weights, parts, strict=True))),
        sigma=sqrt(sum((w * part.sigma) ** 2 for w, part in zip(weights, parts, strict=True))),
        layout=parts[0].layout,
    )


def noise_edge(moments: Moments) -> float:
    """Spectral edge sigma sqrt(2 P) of the noise on A: its norm for many columns, up to lower order.

    The noise is sigma on the diagonal and sigma / sqrt(2) off it (Wigner's semicircle of radius 2 sqrt(P) times the
    latter).

    Examples
    --------
    >>> import numpy as np
    >>> layout = MomentLayout(8, 1, 1.0, 1.0)
    >>> noise_edge(layout.unpack(np.zeros(layout.size), n_records=100, sigma=0.5))
    2.0
    """
    return moments.sigma * sqrt(2 * moments.layout.n_columns)


def noise_quantile(moments: Moments, confidence: float) -> float:
    """Upper bound on the quantile of the spectral norm of the noise on the whole matrix S.

    The norm is a Lipschitz function of independent normals, so that it exceeds its median by more than
    Phi^-1(confidence) Lipschitz constants with probability at most 1 - `confidence` (Gaussian isoperimetry;
    Sudakov & Tsirelson 1974, Borell 1975).  The median is simulated once per layout, from a fixed seed: it depends
    on no data.

    Parameters
    ----------
    moments : Moments
    confidence : float
        In [0.5, 1).
    """
    layout = moments.layout
    return moments.sigma * (_median_norm(layout) + float(ndtri(confidence)) * _lipschitz(layout))


def _lipschitz(layout):
    """Max over |p|^2 + |q|^2 = 1 of the standard deviation of (p, q)^T N (p, q), at sigma = 1."""
    share = np.linspace(0.0, 1.0, 1001)
    variance = share**2 + 4 * share * (1 - share) / layout.statistics_weight**2
    if layout.square_weight:
        variance += ((1 - share) / layout.square_weight) ** 2
    return float(np.sqrt(variance.max()))


@lru_cache(maxsize=256)
def _median_norm(layout):
    """Median of the spectral norm of the noise at sigma = 1, moved up by twice its error of simulation."""
    P, K = layout.n_columns, layout.n_outputs
    n_draws = 100 if P + K <= 100 else 20
    rng = np.random.default_rng(0)
    norms = np.empty(n_draws)
    for draw in range(n_draws):
        N = np.zeros((P + K, P + K))
        upper = np.triu(rng.normal(size=(P, P)) / sqrt(2), 1)
        N[:P, :P] = upper + upper.T + np.diag(rng.normal(size=P))
        N[P:, :P] = rng.normal(size=(K, P)) / layout.statistics_weight
        N[:P, P:] = N[P:, :P].T
        if layout.square_weight:
            N[P:, P:] = rng.normal() / layout.square_weight
        norms[draw] = np.abs(np.linalg.eigvalsh(N)).max()
    # 1.25 standard deviations of the sample over sqrt(n) is the error of a median
    return float(np.median(norms) + 2.5 * norms.std() / sqrt(n_draws))


@dataclass(frozen=True, eq=False)
class RobustQuadratic:
    """Worst-case mean squared loss over a spectral ball,  (||root W^T - target||_F^2 + slack) / n_records.

    Parameters
    ----------
    root : ndarray of shape (n_columns, n_columns)
        root^T root = A + eta I, A repaired to be positive semidefinite.
    target : ndarray of shape (n_columns, n_outputs)
        root^T target = B^T.
    slack : float
        >= 0; what no model explains.
    n_records : float
    """

    root: np.ndarray
    target: np.ndarray
    slack: float
    n_records: float

    def value(self, W: np.ndarray) -> float:
        """Worst-case mean squared loss of W, shape (n_outputs, n_columns)."""
        return float((((self.root @ W.T - self.target) ** 2).sum() + self.slack) / self.n_records)


def robust_quadratic(moments: Moments, eta: float) -> RobustQuadratic:
    """Worst-case loss over ||E||_2 <= eta around the repaired moments.

    Noise can leave A with negative eigenvalues, B outside the range of A (which matters for eta = 0 only), and c
    smaller than what the other moments allow; A and B are projected, c is raised to the smallest value that some
    records have.

    Parameters
    ----------
    moments : Moments
    eta : float
        >= 0, in the units of A.

    Examples
    --------
    >>> import numpy as np
    >>> layout = MomentLayout(1, 1, 1.0, 1.0)
    >>> risk = robust_quadratic(layout.unpack(np.array([4.0, 2.0, 9.0]), n_records=5, sigma=0.1), eta=1.0)
    >>> round(risk.value(np.array([[1.0]])), 12)  # (4 - 2 * 2 + 9 + 1 * (1 + 1)) / 5
    2.2
    """
    eigenvalues, vectors = moments.spectrum
    scale = np.maximum(eigenvalues, 0.0) + eta
    kept = scale > 1e-12 * max(scale.max(), np.finfo(float).tiny)
    root = np.sqrt(np.where(kept, scale, 0.0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=kept)
    target = inverse[:, None] * (vectors.T @ moments.B.T)
    slack = moments.c + eta * moments.layout.n_outputs - float((target**2).sum())
    return RobustQuadratic(root[:, None] * vectors.T, target, max(slack, 0.0), moments.n_records)
