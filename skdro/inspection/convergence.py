"""A fit round by round: the objective, and how far the rounds still were from their end."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._axes import axes_for

__all__ = ["ConvergenceDisplay"]

DISTANCES = ("gap", "metric", "primal_residual", "dual_residual", "consensus_violation")
"""Entries of `history_` that go to zero: drawn on a logarithmic axis."""

BOOKKEEPING = ("rho", "n_running", "attempt")
"""Entries that say how a round was run; drawn on request only."""


class ConvergenceDisplay:
    """Entries of `history_` against the round.

    What goes to zero (residuals, certified gap, convergence metric) has a logarithmic axis, all else a linear one;
    if both are there, the linear axis is the left one.  Values that a logarithmic axis cannot show are left out.
    The history of a private fit holds functions of the noisy releases only, and so does its picture: how the loss
    falls is not among them, and asking for it by ``diagnostics="not-private"`` takes the guarantee away.

    Prefer `from_estimator` or `from_history` to the constructor.

    Parameters
    ----------
    history : mapping of str to ndarray of shape (n_rounds,)
        What to draw.
    title : str, default=""

    Attributes
    ----------
    ax_ : matplotlib Axes
        The linear axis if there is one, else the logarithmic one.
    distance_ax_ : matplotlib Axes or None
        The logarithmic axis.
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D

    See Also
    --------
    RadiusPathDisplay : Fits at many radii.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro import FedDROClassifier
    >>> from skdro.inspection import ConvergenceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FedDROClassifier(radius=0.05).fit(X, y, groups=np.arange(150) % 3)
    >>> display = ConvergenceDisplay.from_estimator(model)
    >>> list(display.lines_)
    ['objective', 'primal_residual', 'dual_residual']
    """

    def __init__(self, history: Mapping[str, np.ndarray], title: str = ""):
        self.history = history
        self.title = title

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, quantities: Sequence[str] | None = None, ax: Any = None
    ) -> "ConvergenceDisplay":
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : estimator instance
            Fitted, with `history_`; of a pipeline its last step.
        quantities : sequence of str, default=None
            Entries of `history_` to draw; if None all that have one number a round and say how the fit went on.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        sklearn.exceptions.NotFittedError
            The estimator is not fitted.
        TypeError
            The fit went through no rounds and has no history.
        ValueError
            See `from_history`.
        ImportError
            matplotlib is not installed.
        """
        check_is_fitted(estimator)
        name = type(estimator).__name__
        if not hasattr(estimator, "history_"):
            raise TypeError(
                f"{name} has no history_: this fit had no rounds to show. Of a pipeline or a search pass the fitted "
                "estimator itself, such as pipeline[-1]."
            )
        claim = getattr(estimator, "privacy_", None)
        title = f"{name}, from the noisy releases" if claim is not None and claim.private else name
        return cls.from_history(estimator.history_, quantities=quantities, title=title, ax=ax)

    @classmethod
    def from_history(
        cls, history: Mapping[str, Any], *, quantities: Sequence[str] | None = None, title: str = "", ax: Any = None
    ) -> "ConvergenceDisplay":
        """Draw a history that was kept.

        Parameters
        ----------
        history : mapping of str to array-like of shape (n_rounds, ...)
        quantities : sequence of str, default=None
            As in `from_estimator`.
        title : str, default=""
        ax : matplotlib Axes, default=None

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        ValueError
            `quantities` has a name that is not in the history, or one with more than a number a round; or the
            problem was solved in a single step.
        ImportError
            matplotlib is not installed.
        """
        scalar = {name: np.asarray(values, dtype=float) for name, values in history.items() if np.ndim(values) == 1}
        if quantities is None:
            quantities = [name for name in scalar if name not in BOOKKEEPING]
        unknown = [name for name in quantities if name not in scalar]
        if unknown:
            raise ValueError(f"quantities must be among {sorted(scalar)}, one number a round each; got {unknown}.")
        chosen = {name: scalar[name] for name in quantities}
        if not chosen or max(map(len, chosen.values())) < 2:
            raise ValueError("history_ has fewer than two rounds: the problem was solved at once.")
        return cls(chosen, title).plot(ax=ax)

    def plot(self, ax: Any = None) -> "ConvergenceDisplay":
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.

        Returns
        -------
        self : ConvergenceDisplay

        Raises
        ------
        ImportError
            matplotlib is not installed.
        """
        ax = axes_for(self, ax)
        levels = [name for name in self.history if name not in DISTANCES]
        distances = [name for name in self.history if name in DISTANCES]
        self.ax_, self.figure_ = ax, ax.figure
        self.lines_: dict = {}
        distance_ax = ax.twinx() if levels and distances else ax
        for k, name in enumerate(levels):
            self._draw(ax, name, self.history[name], f"C{k}", "-")
        for k, name in enumerate(distances, start=len(levels)):
            self._draw(distance_ax, name, self.history[name], f"C{k}", "--" if levels else "-")
        if levels:
            ax.set_ylabel(_words(levels))
        if distances:
            distance_ax.set_yscale("log", nonpositive="mask")
            distance_ax.set_ylabel(_words(distances))
        ax.set_xlabel("round")
        ax.set_title(self.title, fontsize="medium")
        self.distance_ax_ = distance_ax if distances else None
        distance_ax.legend(handles=[*self.lines_.values()], fontsize="small", framealpha=0.8)
        return self

    def _draw(self, ax, name, values, colour, style):
        rounds = np.arange(1, len(values) + 1)
        (self.lines_[name],) = ax.plot(rounds, values, color=colour, linestyle=style, label=name.replace("_", " "))


def _words(names):
    """Of an axis: what it shows, if that is not too much to be said there and not in the legend."""
    return ", ".join(name.replace("_", " ") for name in names) if len(names) <= 2 else "value"
