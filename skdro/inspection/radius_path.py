"""What the radius does: scores, and the certified worst-case risk, along a path of robust models."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, check_scoring

from ..estimators.wasserstein import RadiusPath
from ._axes import axes_for, by_name, draw_mean, legend_above

__all__ = ["RadiusPathDisplay"]

DEFAULT = 0.01
"""Of `radius` in the Wasserstein estimators."""


class RadiusPathDisplay:
    """Scores and worst-case risk against the radius, the default radius marked.

    Scores of repeats are drawn as their mean with a band of one standard error.  If risks are there as well, they
    have an axis of their own, on the right.

    Prefer `from_path`, `from_estimators` or `from_results` to the constructor.

    Parameters
    ----------
    radii : ndarray of shape (n_radii,)
    scores : dict of str to ndarray of shape (n_radii, n_repeats)
    risks : ndarray of shape (n_radii,), default=None
        Worst-case risks of the models.
    default : float, default=0.01
        Radius to mark; None for none.
    score_name : str, default="score"
    radius_name : str, default="radius"

    Attributes
    ----------
    ax_ : matplotlib Axes
        With the scores; with the risks if there are no scores.
    risk_ax_ : matplotlib Axes or None
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D
        By name of the scores, "score" if there is one without a name, and "worst-case risk".

    See Also
    --------
    skdro.radius_path : Models for many radii.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skdro import radius_path
    >>> from skdro.inspection import RadiusPathDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = RadiusPathDisplay.from_path(radius_path(X, y, [0.01, 0.1], tol=1e-3), X, y)
    >>> list(display.lines_)
    ['score', 'worst-case risk']
    """

    def __init__(self, radii, scores, risks=None, default=DEFAULT, score_name="score", radius_name="radius"):
        self.radii = radii
        self.scores = scores
        self.risks = risks
        self.default = default
        self.score_name = score_name
        self.radius_name = radius_name

    @classmethod
    def from_path(
        cls,
        path: RadiusPath,
        X: Any = None,
        y: Any = None,
        *,
        metric: Callable[..., float] = accuracy_score,
        default: float | None = DEFAULT,
        ax: Any = None,
    ) -> "RadiusPathDisplay":
        """Draw the result of `skdro.radius_path`: the worst-case risks, and the scores if there are rows for them.

        Parameters
        ----------
        path : RadiusPath
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows to score on, best ones that were not in the path's fits.
        y : array-like of shape (n_samples,), default=None
        metric : callable, default=accuracy_score
            ``metric(y_true, y_pred)``.
        default : float, default=0.01
            Radius to mark; None for none.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.

        Returns
        -------
        RadiusPathDisplay

        Raises
        ------
        ValueError
            `X` is given without `y` or the other way round.
        ImportError
            matplotlib is not installed.
        """
        if (X is None) != (y is None):
            raise ValueError("X and y must be given together: scores need both.")
        scores = {} if X is None else {"": [metric(y, predicted) for predicted in path.predict(X)]}
        name = getattr(metric, "__name__", "score")
        return cls.from_results(path.radii, scores, risks=path.risks, default=default, score_name=name, ax=ax)

    @classmethod
    def from_estimators(
        cls,
        estimators: Sequence,
        X: Any,
        y: Any,
        *,
        scoring: Any = None,
        parameter: str = "radius",
        default: float | None = DEFAULT,
        ax: Any = None,
    ) -> "RadiusPathDisplay":
        """Score fitted estimators of different radii and draw the scores.

        For example the models that one noisy release gives: `DPMomentDROClassifier.radius_path`.

        Parameters
        ----------
        estimators : sequence of estimator instances
            Fitted.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        scoring : str or callable, default=None
            A scikit-learn scorer; the estimators' own `score` if None.
        parameter : str, default="radius"
            Where the radius stands, such as "noise_radius".
        default : float, default=0.01
            Radius to mark; None for none.
        ax : matplotlib Axes, default=None

        Returns
        -------
        RadiusPathDisplay

        Raises
        ------
        ValueError
            There are no estimators, or one has no `parameter` that is a number.
        ImportError
            matplotlib is not installed.
        """
        values = [estimator.get_params().get(parameter) for estimator in estimators]
        if not values or not all(np.isscalar(value) and np.isreal(value) for value in values):
            raise ValueError(f"estimators must each have one number as {parameter}; got {values}.")
        scores = [check_scoring(estimator, scoring)(estimator, X, y) for estimator in estimators]
        name = scoring if isinstance(scoring, str) else "score"
        return cls.from_results(values, scores, default=default, score_name=name, radius_name=parameter, ax=ax)

    @classmethod
    def from_results(
        cls,
        radii: Any,
        scores: Any,
        *,
        risks: Any = None,
        default: float | None = DEFAULT,
        score_name: str = "score",
        radius_name: str = "radius",
        ax: Any = None,
    ) -> "RadiusPathDisplay":
        """Draw scores that were computed elsewhere.

        Parameters
        ----------
        radii : array-like of shape (n_radii,)
            >= 0.
        scores : array-like of shape (n_radii,) or (n_radii, n_repeats), or mapping of them by name
        risks : array-like of shape (n_radii,), default=None
        default : float, default=0.01
            Radius to mark; None for none.
        score_name : str, default="score"
        radius_name : str, default="radius"
        ax : matplotlib Axes, default=None

        Returns
        -------
        RadiusPathDisplay

        Raises
        ------
        ValueError
            `radii` is not a sequence of numbers >= 0, `scores` or `risks` do not fit it, or nothing is to be drawn.
        ImportError
            matplotlib is not installed.
        """
        radii = np.asarray(radii, dtype=float)
        if radii.ndim != 1 or len(radii) == 0 or not np.all(np.isfinite(radii) & (radii >= 0)):
            raise ValueError("radii must be a sequence of finite numbers >= 0.")
        tables = by_name(scores, len(radii), "radii")
        if risks is not None:
            risks = np.asarray(risks, dtype=float)
            if risks.shape != radii.shape:
                raise ValueError(f"risks must have shape {radii.shape}, one a radius; got {risks.shape}.")
        if not tables and risks is None:
            raise ValueError("There is nothing to draw: give scores or risks.")
        return cls(radii, tables, risks, default, score_name, radius_name).plot(ax=ax)

    def plot(self, ax: Any = None) -> "RadiusPathDisplay":
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.

        Returns
        -------
        self : RadiusPathDisplay

        Raises
        ------
        ImportError
            matplotlib is not installed.
        """
        ax = axes_for(self, ax)
        self.ax_, self.figure_, self.lines_, self.risk_ax_ = ax, ax.figure, {}, None
        for name, table in self.scores.items():
            self.lines_[name or "score"] = draw_mean(ax, self.radii, table, label=name or self._words())
        if self.scores:
            ax.set_ylabel(self._words())
        if self.risks is not None:
            self.risk_ax_ = ax.twinx() if self.scores else ax
            self.lines_["worst-case risk"] = draw_mean(
                self.risk_ax_, self.radii, self.risks[:, None], color="0.4", linestyle="--", label="worst-case risk"
            )
            self.risk_ax_.set_ylabel("worst-case risk")
        self._scale_radii(ax)
        if len(self.lines_) > 1 or any(self.scores):
            legend_above(ax, [*self.lines_.values()])
        return self

    def _words(self):
        return self.score_name.replace("_", " ")

    def _scale_radii(self, ax):
        """Logarithmic, with room for radius 0 where it is among the radii; the default as a vertical line."""
        positive = self.radii[self.radii > 0]
        if len(positive) == len(self.radii):
            ax.set_xscale("log")
        elif len(positive):
            ax.set_xscale("symlog", linthresh=positive.min(), linscale=0.5)
            ax.set_xlim(left=0)
        ax.set_xlabel(self.radius_name.replace("_", " "))
        if self.default is not None:
            ax.axvline(self.default, color="0.6", linewidth=1, linestyle=":", zorder=0)
            place = {"xy": (self.default, 0.0), "xycoords": ax.get_xaxis_transform()}
            ax.annotate("default", **place, xytext=(3, 4), textcoords="offset points", color="0.4", fontsize="small")
