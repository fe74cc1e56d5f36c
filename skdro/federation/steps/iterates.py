"""Public steps of a model along released directions: heavy ball, ridge, average of the last iterates.

All of it is post-processing of what was released, so none of it costs privacy.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["Iterates", "ModelStep", "bounded"]

LARGEST = 1e75
"""Parameters and shifts stay below this, so that no score, norm or difference of theirs overflows."""


def bounded(values: np.ndarray) -> np.ndarray:
    """Values within +-1e75, and zero for what is no number; public ones only.

    Examples
    --------
    >>> bounded(np.array([1.0, -np.inf, np.nan]))
    array([ 1.e+00, -1.e+75,  0.e+00])
    """
    return np.clip(np.nan_to_num(values), -LARGEST, LARGEST)


@dataclass(frozen=True)
class Iterates:
    """A model under way: x_t, x_{t-1}, the velocity, and the average so far (None before it begins).

    All have shape (n_parameters,).
    """

    current: np.ndarray
    previous: np.ndarray
    velocity: np.ndarray
    average: np.ndarray | None

    @classmethod
    def at(cls, start: np.ndarray) -> "Iterates":
        """Nothing moved yet."""
        return cls(start, start, np.zeros_like(start), None)

    @property
    def model(self) -> np.ndarray:
        """The average if it has begun, else the current iterate."""
        return self.current if self.average is None else self.average

    @property
    def moved(self) -> float:
        """||x_t - x_{t-1}||."""
        return float(np.linalg.norm(self.current - self.previous))


@dataclass(frozen=True)
class ModelStep:
    """x <- x - step * velocity  with  velocity <- momentum * velocity + direction + ridge * x.

    Parameters
    ----------
    step : float
    momentum : float
        In [0, 1).
    ridge : ndarray of shape (n_parameters,)
        Penalty of each parameter, >= 0.
    average_from : int
        The model is the average of the iterates that follow the iterations from this one on.
    """

    step: float
    momentum: float
    ridge: np.ndarray
    average_from: int

    def advance(self, iterates: Iterates, direction: np.ndarray, t: int) -> Iterates:
        """The iterates after iteration t."""
        x = iterates.current
        velocity = bounded(self.momentum * iterates.velocity + direction + self.ridge * x)
        new = bounded(x - self.step * velocity)
        n_behind = t - self.average_from
        average = iterates.average
        if n_behind >= 0:
            average = new if average is None else average + (new - average) / (n_behind + 1)
        return Iterates(new, x, velocity, average)
