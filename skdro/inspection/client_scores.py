"""Scores by client, side by side for several models: who is served worst, and by how much."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.utils import check_consistent_length

from ..model_selection import client_scores
from ._axes import axes_for, legend_above

__all__ = ["ClientScoresDisplay"]

ALL = "all rows"
WIDTH = 0.8  # of the bars of one client together
SLANTED = 6  # clients from which on their labels are slanted


class ClientScoresDisplay:
    """A bar for each client and model; the client that a model serves worst has a black frame.

    Prefer `from_estimator`, `from_predictions` or `from_scores` to the constructor.

    Parameters
    ----------
    scores : dict of str to dict of float or ndarray of shape (n_repeats,)
        Model by model, the score of each client; of several repeats the mean is drawn, with the standard deviation
        as an error bar.
    overall : dict of str to float or ndarray of shape (n_repeats,), default=None
        Score of each model on all rows, drawn to the right of the clients.
    score_name : str, default="score"
    greater_is_better : bool, default=True
        False for a loss, whose worst value is the largest.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : dict of str to matplotlib BarContainer
        By model.
    worst_ : dict of str to object
        By model, the client with the worst (mean) score; the first one of several.

    See Also
    --------
    skdro.model_selection.client_scores : The numbers.
    skdro.model_selection.make_client_scorer : The worst client as a scorer.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro import FedDROClassifier
    >>> from skdro.inspection import ClientScoresDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> site = np.array(["Lyon", "Porto", "Turin"])[np.arange(150) % 3]
    >>> models = {f"radius {r}": FedDROClassifier(radius=r).fit(X, y, groups=site) for r in (0.01, 0.1)}
    >>> display = ClientScoresDisplay.from_estimator(models, X, y, site)
    >>> sorted(display.worst_)
    ['radius 0.01', 'radius 0.1']
    """

    def __init__(self, scores, overall=None, score_name="score", greater_is_better=True):
        self.scores = scores
        self.overall = overall
        self.score_name = score_name
        self.greater_is_better = greater_is_better

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        groups: Any,
        *,
        metric: str | Callable[..., float] = "accuracy",
        greater_is_better: bool = True,
        ax: Any = None,
    ) -> "ClientScoresDisplay":
        """Score fitted estimators at each client and draw the scores.

        Parameters
        ----------
        estimator : estimator instance, or mapping of them by name
            Fitted.
        X : array-like of shape (n_samples, n_features)
            Rows to score on, best ones that no estimator has seen.
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,)
            Client of each row.
        metric : str or callable, default="accuracy"
            Name of a scikit-learn scorer, or ``metric(y_true, y_pred)``.
        greater_is_better : bool, default=True
            False for a callable loss; scorers that are named have their sign.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.

        Returns
        -------
        ClientScoresDisplay

        Raises
        ------
        ValueError
            `X`, `y` and `groups` have different lengths, or `greater_is_better` is False for a named scorer.
        ImportError
            matplotlib is not installed.
        """
        if isinstance(metric, str) and not greater_is_better:
            raise ValueError("greater_is_better=False is for a callable metric; named scorers have their sign.")
        models = dict(estimator) if isinstance(estimator, Mapping) else {type(estimator).__name__: estimator}
        scores = {name: client_scores(model, X, y, groups, metric) for name, model in models.items()}
        overall = {name: _on_all_rows(model, X, y, metric) for name, model in models.items()}
        return cls.from_scores(
            scores, overall=overall, score_name=_name_of(metric), greater_is_better=greater_is_better, ax=ax
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        groups: Any,
        *,
        metric: Callable[..., float] = accuracy_score,
        greater_is_better: bool = True,
        ax: Any = None,
    ) -> "ClientScoresDisplay":
        """Score predictions at each client and draw the scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        y_pred : array-like of shape (n_samples,), or mapping of them by name
        groups : array-like of shape (n_samples,)
        metric : callable, default=accuracy_score
            ``metric(y_true, y_pred)``.
        greater_is_better : bool, default=True
            False for a loss.
        ax : matplotlib Axes, default=None

        Returns
        -------
        ClientScoresDisplay

        Raises
        ------
        ValueError
            The arrays have different lengths.
        ImportError
            matplotlib is not installed.

        Examples
        --------
        >>> from skdro.inspection import ClientScoresDisplay
        >>> display = ClientScoresDisplay.from_predictions([0, 1, 0, 1], [0, 1, 0, 0], ["a", "a", "b", "b"])
        >>> display.worst_
        {'predictions': 'b'}
        """
        predictions = dict(y_pred) if isinstance(y_pred, Mapping) else {"predictions": y_pred}
        for predicted in predictions.values():
            check_consistent_length(y_true, predicted, groups)
        # rows stand for themselves: the estimator that predicts row i is the list of predictions
        rows = np.arange(len(y_true)).reshape(-1, 1)
        models = {name: _Predictions(np.asarray(predicted)) for name, predicted in predictions.items()}
        return cls.from_estimator(
            models, rows, y_true, groups, metric=metric, greater_is_better=greater_is_better, ax=ax
        )

    @classmethod
    def from_scores(
        cls,
        scores: Mapping[str, Mapping],
        *,
        overall: Mapping[str, Any] | None = None,
        score_name: str = "score",
        greater_is_better: bool = True,
        ax: Any = None,
    ) -> "ClientScoresDisplay":
        """Draw scores that were computed elsewhere.

        Parameters
        ----------
        scores : mapping of str to mapping of object to float or array-like of shape (n_repeats,)
            Model by model, the score of each client.
        overall : mapping of str to float or array-like of shape (n_repeats,), default=None
        score_name : str, default="score"
        greater_is_better : bool, default=True
        ax : matplotlib Axes, default=None

        Returns
        -------
        ClientScoresDisplay

        Raises
        ------
        ValueError
            The models have no scores, or scores of different clients.
        ImportError
            matplotlib is not installed.
        """
        tables = [set(table) for table in scores.values()]
        if not tables or not tables[0] or any(clients != tables[0] for clients in tables):
            raise ValueError("scores must hold, for each model, a score of each of the same clients.")
        if overall is not None and set(overall) != set(scores):
            raise ValueError(f"overall must have a score of each model, {sorted(scores)}; got {sorted(overall)}.")
        return cls(scores, overall, score_name, greater_is_better).plot(ax=ax)

    def plot(self, ax: Any = None) -> "ClientScoresDisplay":
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.

        Returns
        -------
        self : ClientScoresDisplay

        Raises
        ------
        ImportError
            matplotlib is not installed.
        """
        ax = axes_for(self, ax)
        from matplotlib.patches import Patch

        self.ax_, self.figure_, self.bars_, self.worst_ = ax, ax.figure, {}, {}
        clients = list(next(iter(self.scores.values())))
        place = np.arange(len(clients) + (self.overall is not None), dtype=float)
        place[len(clients) :] += 0.4  # all rows are no client
        width = WIDTH / len(self.scores)
        for m, (name, table) in enumerate(self.scores.items()):
            values = [table[client] for client in clients]
            mean = np.array([np.mean(value) for value in values])
            worst = int(mean.argmin() if self.greater_is_better else mean.argmax())
            if self.overall is not None:
                values, mean = [*values, self.overall[name]], np.append(mean, np.mean(self.overall[name]))
            spread = [np.std(value, ddof=1) if np.size(value) > 1 else np.nan for value in values]
            error = None if np.isnan(spread).all() else spread
            offset = (m - (len(self.scores) - 1) / 2) * width
            bars = ax.bar(place + offset, mean, 0.94 * width, yerr=error, label=name, error_kw={"linewidth": 0.8})
            bars[worst].set(edgecolor="black", linewidth=1.6)
            self.bars_[name], self.worst_[name] = bars, clients[worst]
        slant = {"rotation": 30, "ha": "right"} if len(place) > SLANTED else {}
        ax.set_xticks(place, [*map(str, clients), *([ALL] if self.overall is not None else [])], **slant)
        ax.set_ylabel(self.score_name.replace("_", " "))
        framed = Patch(facecolor="none", edgecolor="black", linewidth=1.6, label="worst client")
        plain = [Patch(facecolor=bars[-1].get_facecolor(), label=name) for name, bars in self.bars_.items()]
        handles = [*(plain if len(plain) > 1 else []), framed]
        legend_above(ax, handles)
        return self


class _Predictions:
    """Stands for the model behind given predictions."""

    def __init__(self, predicted):
        self.predicted = predicted

    def predict(self, rows):
        return self.predicted[rows.ravel()]


def _on_all_rows(model, X, y, metric):
    if isinstance(metric, str):
        return float(get_scorer(metric)(model, X, y))
    return float(metric(np.asarray(y), np.asarray(model.predict(X))))


def _name_of(metric):
    return metric if isinstance(metric, str) else getattr(metric, "__name__", "score")
