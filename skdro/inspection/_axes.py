"""What the displays share: axes from a matplotlib that is imported late, and curves with a band of their error."""

from collections.abc import Mapping

import numpy as np

__all__ = ["axes_for", "by_name", "draw_mean", "legend_above", "mean_and_error"]


def axes_for(display, ax):
    """The axes to draw a display on: `ax`, or those of a new figure.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f'{type(display).__name__} needs matplotlib; pip install "skdro[plot]".') from error
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def by_name(tables, n_points: int, axis: str) -> dict[str, np.ndarray]:
    """Named tables of shape (n_points, n_repeats) from one table or a mapping of them; a single one has no name.

    Parameters
    ----------
    tables : array-like of shape (n_points,) or (n_points, n_repeats), or mapping of them by name
    n_points : int
    axis : str
        What the points are, for the error.

    Raises
    ------
    ValueError
        A table has another shape.
    """
    named = tables if isinstance(tables, Mapping) else {"": tables}
    arrays = {str(name): np.asarray(table, dtype=float) for name, table in named.items()}
    for name, array in arrays.items():
        if array.ndim not in (1, 2) or array.shape[0] != n_points or array.size == 0:
            raise ValueError(
                f"scores{f' of {name!r}' if name else ''} must have shape ({n_points},) or ({n_points}, n_repeats), "
                f"one row for each of the {axis}; got {array.shape}."
            )
    return {name: array.reshape(n_points, -1) for name, array in arrays.items()}


def mean_and_error(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the repeats, and its standard error; zero where there is one repeat.

    Parameters
    ----------
    table : ndarray of shape (n_points, n_repeats)

    Examples
    --------
    >>> mean_and_error(np.array([[1.0, 3.0], [2.0, 2.0]]))
    (array([2., 2.]), array([1., 0.]))
    """
    n_repeats = table.shape[1]
    spread = table.std(axis=1, ddof=1) if n_repeats > 1 else np.zeros(len(table))
    return table.mean(axis=1), spread / np.sqrt(n_repeats)


def draw_mean(ax, x: np.ndarray, table: np.ndarray, **line):
    """Draw the mean over repeats against `x`, with a band of one standard error; return the line.

    Parameters
    ----------
    ax : matplotlib Axes
    x : ndarray of shape (n_points,)
    table : ndarray of shape (n_points, n_repeats)
    **line : object
        Passed to ``ax.plot``.
    """
    order = np.argsort(x, kind="stable")
    mean, error = mean_and_error(table[order])
    (drawn,) = ax.plot(x[order], mean, marker="o", markersize=4, **line)
    if table.shape[1] > 1:
        ax.fill_between(x[order], mean - error, mean + error, color=drawn.get_color(), alpha=0.2, linewidth=0)
    return drawn


def legend_above(ax, handles) -> None:
    """A legend in lines of four above the axes, where it hides nothing.

    Parameters
    ----------
    ax : matplotlib Axes
    handles : list of matplotlib Artist
    """
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "borderaxespad": 0.2}
    ax.legend(handles=handles, fontsize="small", ncols=min(len(handles), 4), frameon=False, **place)
