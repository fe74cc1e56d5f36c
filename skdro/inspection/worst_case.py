"""The worst case as a picture: which records nature relabels, and where she moves the others."""

from operator import index
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ..ambiguity.worst_case import WorstCase
from ._axes import axes_for

__all__ = ["WorstCaseDisplay"]

MARGIN = 0.12  # of the records' range, on each side of the picture
FAINTEST = 0.3  # opacity of a change to a vanishing share of a record


class WorstCaseDisplay:
    """Records in the plane of two features, and what nature does to them.

    Records are points in the colour of their label.  A flipped record is ringed, where it was, in the colour of its
    new label.  A moved one has an arrow to its new place; a triangle at the border says that the place is outside
    the picture.  The fainter a ring or an arrow, the smaller the share of the record that is changed.  Movement
    along features that are not shown is not seen.

    Prefer `from_estimator` to the constructor.

    Parameters
    ----------
    worst_case : WorstCase
        From `worst_case_distribution`.
    X : ndarray of shape (n_samples, n_features)
        Records, in the units of the features.
    y : ndarray of shape (n_samples,)
        Their labels.
    features : tuple of two int, default=(0, 1)
        Columns on the horizontal and the vertical axis.
    feature_names : sequence of str of shape (n_features,), default=None
        Labels of the axes; "feature 0" and so on if not given.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro import FedDROClassifier
    >>> from skdro.inspection import WorstCaseDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FedDROClassifier(radius=0.05).fit(X[:, 2:], y, groups=np.zeros(150))
    >>> display = WorstCaseDisplay.from_estimator(model, X[:, 2:], y)
    >>> display.ax_.get_xlabel()
    'feature 0'
    """

    def __init__(
        self, worst_case: WorstCase, X: Any, y: Any, features: tuple[int, int] = (0, 1), feature_names: Any = None
    ):
        self.worst_case = worst_case
        self.X = X
        self.y = y
        self.features = features
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, groups: Any = None, features: tuple[int, int] = (0, 1), ax: Any = None
    ) -> "WorstCaseDisplay":
        """Compute the worst case of a fitted estimator and draw it.

        Parameters
        ----------
        estimator : estimator instance
            Fitted, with the method `worst_case_distribution`.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None
            Client label of each row, as in `worst_case_distribution`.
        features : tuple of two int, default=(0, 1)
            Columns of `X` on the horizontal and the vertical axis.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.

        Returns
        -------
        WorstCaseDisplay

        Raises
        ------
        TypeError
            The estimator has no `worst_case_distribution`: only non-private robust classifiers do.
        ValueError
            `features` are not two different columns of `X`, or an input is invalid.
        ImportError
            matplotlib is not installed.
        """
        if not hasattr(estimator, "worst_case_distribution"):
            raise TypeError(
                f"{type(estimator).__name__} has no worst_case_distribution. Fit a class that has one, such as "
                "FedDROClassifier; no private class has, since it would show records."
            )
        worst_case = estimator.worst_case_distribution(X, y, *(() if groups is None else (groups,)))
        names = getattr(estimator, "feature_names_in_", None)
        return cls(worst_case, check_array(X, dtype=np.float64), np.asarray(y), features, names).plot(ax=ax)

    def plot(self, ax: Any = None) -> "WorstCaseDisplay":
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.

        Returns
        -------
        self : WorstCaseDisplay

        Raises
        ------
        ValueError
            `features` are not two different columns.
        ImportError
            matplotlib is not installed.
        """
        columns = self._columns()
        ax = axes_for(self, ax)
        points = self.X[:, columns]
        low, high = points.min(axis=0), points.max(axis=0)
        margin = MARGIN * np.where(high > low, high - low, 1.0)
        low, high = low - margin, high + margin

        colours = {label: f"C{k % 10}" for k, label in enumerate(np.unique(np.append(self.y, self.worst_case.y)))}
        for label, colour in colours.items():
            ax.scatter(*points[self.y == label].T, s=14, color=colour, linewidths=0, label=str(label), zorder=2)
        self._draw_moves(ax, points, columns, low, high)
        self._draw_flips(ax, points, colours)
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        ax.set(xlabel=self._name(columns[0]), ylabel=self._name(columns[1]))
        ax.legend(fontsize="small", framealpha=0.8, loc="upper left")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _columns(self):
        try:
            columns = [index(f) for f in self.features]
        except TypeError:  # a name, or a single number
            columns = []
        if len(columns) != 2 or len({*columns}) != 2 or not all(0 <= f < self.X.shape[1] for f in columns):
            raise ValueError(
                f"features must be two different columns of X (0 to {self.X.shape[1] - 1}); got {self.features!r}."
            )
        return columns

    def _name(self, column):
        return f"feature {column}" if self.feature_names is None else str(self.feature_names[column])

    def _opacity(self):
        """Opacity of each atom: how much of its record it is."""
        worst = self.worst_case
        whole = np.bincount(worst.record, weights=worst.weight, minlength=len(self.X))
        return FAINTEST + (1 - FAINTEST) * worst.weight / whole[worst.record]

    def _draw_moves(self, ax, points, columns, low, high):
        """Arrows from the records to their new places, up to the border of the picture."""
        worst = self.worst_case
        start = points[worst.record]
        step = np.where(worst.moved[:, None], worst.X[:, columns] - start, 0.0)
        seen = np.any(step != 0, axis=1)
        if not seen.any():
            return
        start, step = start[seen], step[seen]
        colour = np.zeros((len(start), 4))
        colour[:, 3] = self._opacity()[seen]
        with np.errstate(divide="ignore"):
            wall = np.where(step > 0, high - start, low - start)
            inside = np.where(step != 0, wall / np.where(step != 0, step, 1.0), np.inf).min(axis=1)
        leaves = inside < 1
        arrow = step * np.minimum(inside, 1.0)[:, None]
        style = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.0025, "headwidth": 5, "headlength": 6}
        ax.quiver(*start.T, *arrow.T, color=colour, **style, zorder=3)
        ax.scatter([], [], marker=r"$\rightarrow$", s=80, color="black", label="moved")
        if leaves.any():
            self._draw_exits(ax, (start + arrow)[leaves], step[leaves] / (high - low), colour[leaves])

    def _draw_exits(self, ax, places, heading, colour):
        """Triangles where arrows leave the picture; they point to where the mass went."""
        angles = np.degrees(np.arctan2(heading[:, 1], heading[:, 0])) - 90
        for k, (place, angle) in enumerate(zip(places, angles, strict=True)):
            label = "moved out of the picture" if k == 0 else None
            ax.scatter(*place, s=60, marker=(3, 0, angle), color=colour[k], clip_on=False, zorder=4, label=label)

    def _draw_flips(self, ax, points, colours):
        """Rings, in the colour of the new label, around the records that are flipped, moved or not."""
        worst = self.worst_case
        rings = np.flatnonzero(worst.flipped)
        if len(rings) == 0:
            return
        from matplotlib.colors import to_rgba

        edge = np.array([to_rgba(colours[label]) for label in worst.y[rings]])
        edge[:, 3] = self._opacity()[rings]
        ax.scatter(
            *points[worst.record[rings]].T,
            s=70,
            facecolors="none",
            edgecolors=edge,
            linewidths=1.6,
            zorder=4,
        )
        ax.scatter([], [], s=70, facecolors="none", edgecolors="0.3", label="relabelled as the ring's class")
