"""Centralised Wasserstein-robust classification, with a certified gap, and the path of models over radii."""

import warnings
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from ..ambiguity.constant_model import settle
from ..ambiguity.transport import TRANSPORT_NORMS
from ..ambiguity.wasserstein import RobustRisk, WassersteinBall
from ..exceptions import ConstantModelWarning
from ..federation.merging import merge_duplicate_rows, merge_duplicate_sparse_rows
from ..solvers.bundle_central import solve_central
from ._base import (
    CONSTANT_MODEL,
    REMEDY,
    Interval,
    LinearClassifier,
    StrOptions,
    binary_row,
    checked_radii,
    checked_sample_weight,
)
from ._worst_case import WorstCaseMixin

__all__ = ["RadiusPath", "WassersteinDROClassifier", "radius_path"]


class WassersteinDROClassifier(WorstCaseMixin, LinearClassifier):
    """Wasserstein-robust multiclass linear classifier on pooled records, to a certified gap.

    Minimises the worst expected Crammer-Singer loss over all distributions within a Wasserstein ball around the
    records: features may move at cost ||x - x'||, labels flip at cost `kappa`, on average at most `radius` ([1]_,
    section 2).  Binary problems are the same code.

    Parameters
    ----------
    radius : float, default=0.01
        Average transport cost that nature may spend, in the units of the features; >= 0.
    kappa : float, default=1.0
        Cost of a label flip, > 0, in the same units; `inf` means that labels are trusted.
    norm : {"linf", "l2", "l1"}, default="linf"
        Norm of the transport cost ||x - x'||.  The model pays for its dual: "linf" for l1 distances between the
        classes' coefficients, "l2" for l2, "l1" for linf.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is neither transported nor penalised.
    max_iter : int, default=2000
        Most evaluations of the risk, each one pass over the data.
    tol : float, default=1e-6
        Certified gap at which to stop, relative to max(1, worst-case risk).
    warm_start : bool, default=False
        Start from the cutting planes of the last fit if data, weights, kappa, norm and intercept are the same
        (a new radius or tolerance); other data start afresh.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) if binary
    intercept_ : ndarray of shape (n_classes,), or (1,) if binary
    classes_ : ndarray of shape (n_classes,)
    worst_case_risk_ : float
        Robust risk of the fitted model.
    dual_gap_ : float
        Certified distance of `worst_case_risk_` from the least robust risk; NaN for radius 0, where no finite
        number of cutting planes certifies a gap.
    lambda_ : float
        Multiplier of the transport budget: by how much the risk grows with the radius.
    n_iter_ : int
        Evaluations of the risk.
    history_ : dict of str to ndarray of shape (n_iter_,)
        After each evaluation the least risk so far, "objective", and its certified distance from the optimum, "gap".
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If `X` has string column names.

    Warns
    -----
    ConvergenceWarning
        `max_iter` was reached; the message gives the remaining gap.
    ConstantModelWarning
        The robust model gives every training record the same label: the radius is too large.

    See Also
    --------
    FedDROClassifier : The same risk when records stay at several sites.
    radius_path : Models for many radii.

    Notes
    -----
    Sparse `X` is never made dense.  Input of any precision is computed on as float64, and so is the model.

    References
    ----------
    .. [1] Hernandez, Ibrahim, Gebraeel. Private and Distributionally Robust Federated Multiclass
       Classification. arXiv 2610.13631, section 2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skdro import WassersteinDROClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = WassersteinDROClassifier(radius=0.05).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.dual_gap_ <= 1e-6
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "radius": [Interval(Real, 0, None, closed="left")],
        "kappa": [Interval(Real, 0, None, closed="right")],  # inf: labels are trusted
        "norm": [StrOptions(set(TRANSPORT_NORMS))],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "warm_start": ["boolean"],
    }
    _accept_sparse: ClassVar[str] = "csr"

    def __init__(
        self,
        radius=0.01,
        kappa=1.0,
        norm="linf",
        *,
        fit_intercept=True,
        max_iter=2000,
        tol=1e-6,
        warm_start=False,
    ):
        self.radius = radius
        self.kappa = kappa
        self.norm = norm
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each record, >= 0.

        Returns
        -------
        self : WassersteinDROClassifier

        Raises
        ------
        ValueError
            A parameter or an input is invalid; the message names it.
        """
        self._validate_params()
        rows, codes = self._validated(X, y)
        weight = checked_sample_weight(sample_weight, rows.shape[0])
        if weight.sum() <= 0:
            raise ValueError("sample_weight is zero for all records.")
        context = self._init_callback_context()
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        problem = self._problem(rows, codes, weight)
        mark = _fingerprint(problem)
        cuts, known = getattr(self, "_cuts", (None, None))
        solution = solve_central(
            problem, tol=self.tol, max_iter=self.max_iter, state=cuts if self.warm_start and known == mark else None
        )
        self._cuts = (solution.state, mark) if self.warm_start else (None, None)
        settled = settle([problem], np.ones(1), solution.M)
        if settled.constant:
            warnings.warn(f"{CONSTANT_MODEL} {REMEDY}", ConstantModelWarning, stacklevel=3)
        self._store(settled, solution)
        context.call_on_fit_task_end(
            estimator=self, X=X, y=y, reconstruction_attributes=lambda: {"coef_": self.coef_}
        )
        if not solution.converged:
            warnings.warn(
                f"WassersteinDROClassifier used all max_iter={self.max_iter} evaluations; the worst-case risk "
                f"{solution.upper:.6g} is certified to within {solution.upper - solution.lower:.2g} of the optimum "
                f"(tol={self.tol:g}). Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _problem(self, rows, codes, weight):
        one_client = np.zeros(len(codes), dtype=int)
        if sparse.issparse(rows):
            rows, codes, _, weight = merge_duplicate_sparse_rows(sparse.csr_array(rows), codes, one_client, weight)
            stack = sparse.hstack
        else:
            rows, codes, _, weight = merge_duplicate_rows(rows, codes, one_client, weight)
            stack = np.hstack
        if self.fit_intercept:
            rows = stack([rows, np.ones((rows.shape[0], 1))])
            rows = rows.tocsr() if sparse.issparse(rows) else rows
        ball = WassersteinBall(float(self.radius), float(self.kappa), TRANSPORT_NORMS[self.norm])
        return RobustRisk(rows, codes, weight / weight.sum(), len(self.classes_), self.n_features_in_, ball)

    def _store(self, settled, solution):
        P = self.n_features_in_
        coef, own = settled.model[:, :P], settled.model[:, P:]
        intercept = own[:, 0] if self.fit_intercept else np.zeros(len(coef))
        self.coef_, self.intercept_ = binary_row(coef, intercept)
        self.worst_case_risk_ = settled.risk
        self.dual_gap_ = settled.risk - solution.lower if self.radius > 0 else float("nan")
        self.lambda_ = solution.lam
        self.n_iter_ = solution.n_iter
        upper, lower = solution.bounds.T
        self.history_ = {"objective": upper, "gap": upper - lower if self.radius > 0 else np.full(len(upper), np.nan)}


def _fingerprint(problem):
    """Identifies the data, weights, flip cost and norm for which cutting planes are valid; not the radius."""
    digest = blake2b(digest_size=16)
    X = problem.X
    for array in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    for array in (problem.y, problem.weight, np.array([problem.ball.kappa, problem.n_classes, *X.shape])):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest() + problem.ball.norm.name


@dataclass(frozen=True)
class RadiusPath:
    """Models along a sequence of radii.

    Parameters
    ----------
    radii : ndarray of shape (n_radii,)
    coefs : ndarray of shape (n_radii, n_classes or 1, n_features)
    intercepts : ndarray of shape (n_radii, n_classes or 1)
    risks, dual_gaps, lambdas : ndarray of shape (n_radii,)
        As `worst_case_risk_`, `dual_gap_` and `lambda_` of the classifier.
    n_iters : ndarray of int, shape (n_radii,)
    classes : ndarray of shape (n_classes,)
    """

    radii: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    risks: np.ndarray
    dual_gaps: np.ndarray
    lambdas: np.ndarray
    n_iters: np.ndarray
    classes: np.ndarray

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels that each model gives to each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_radii, n_samples)

        Raises
        ------
        ValueError
            `X` is no matrix of numbers, or has another number of features.
        """
        rows = check_array(X, dtype=np.float64, accept_sparse="csr")
        if rows.shape[1] != self.coefs.shape[2]:
            raise ValueError(
                f"X must have {self.coefs.shape[2]} features, as in the path's fits; got {rows.shape[1]}."
            )
        scores = [rows @ coef.T + intercept for coef, intercept in zip(self.coefs, self.intercepts, strict=True)]
        chosen = [(s > 0).ravel().astype(int) if s.shape[1] == 1 else s.argmax(axis=1) for s in scores]
        return self.classes[np.array(chosen)]


def radius_path(
    X: ArrayLike,
    y: ArrayLike,
    radii: ArrayLike,
    *,
    kappa: float = 1.0,
    norm: str = "linf",
    fit_intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    max_iter: int = 2000,
    tol: float = 1e-6,
) -> RadiusPath:
    """Robust models for many radii, each started from the cutting planes of the one before.

    Parameters
    ----------
    X, y, sample_weight
        As in `WassersteinDROClassifier.fit`.
    radii : array-like of shape (n_radii,)
        >= 0; solved from the largest to the smallest, returned in the given order.
    kappa, norm, fit_intercept, max_iter, tol
        As in `WassersteinDROClassifier`.

    Returns
    -------
    RadiusPath

    Raises
    ------
    ValueError
        A parameter or an input is invalid; the message names it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> path = radius_path(X, y, [0.01, 0.1])
    >>> path.coefs.shape
    (2, 3, 4)
    >>> bool(path.risks[0] < path.risks[1])
    True
    """
    checked = checked_radii(radii)
    model = WassersteinDROClassifier(
        kappa=kappa, norm=norm, fit_intercept=fit_intercept, max_iter=max_iter, tol=tol, warm_start=True
    )
    fitted = {}
    for radius in sorted(set(checked.tolist()), reverse=True):
        model.set_params(radius=radius).fit(X, y, sample_weight)
        fitted[radius] = (
            model.coef_, model.intercept_, model.worst_case_risk_, model.dual_gap_, model.lambda_, model.n_iter_
        )  # fmt: skip
    columns = zip(*(fitted[radius] for radius in checked.tolist()), strict=True)
    coefs, intercepts, risks, gaps, lambdas, n_iters = (np.array(column) for column in columns)
    return RadiusPath(checked, coefs, intercepts, risks, gaps, lambdas, n_iters, model.classes_)
