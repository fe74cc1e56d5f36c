"""Choice of the robustness on released moments: one half fits the candidates, the other half judges them.

Both halves are public, so that trying one candidate or a thousand costs no budget.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from .moments import MomentProblem, Robustness

__all__ = ["tuned"]

NOISE_RADII = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
RADII = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)

CAUTION = 2.0
"""Standard deviations of the noise by which a candidate must beat the asked robustness: without that, the best of
many noisy figures is often the luckiest."""


def tuned(
    training: MomentProblem,
    validation: MomentProblem,
    asked: Robustness,
    noise_radii: Sequence[float] = NOISE_RADII,
    radii: Sequence[float] = RADII,
) -> Robustness:
    """The candidate with the smallest validation loss, noise allowed for, under the mixture that was asked for.

    Candidates combine `noise_radii` and `radii`, both with the asked value added, under the nominal mixture; under
    the asked one they vary one at a time.

    Parameters
    ----------
    training, validation : MomentProblem
        Of disjoint groups of records.
    asked : Robustness
    noise_radii, radii : sequence of float

    Returns
    -------
    Robustness
    """
    noise_radii, radii = sorted({*noise_radii, asked.noise_radius}), sorted({*radii, asked.radius})
    candidates = [Robustness(noise_radius, radius, 0.0) for noise_radius, radius in product(noise_radii, radii)]
    if asked.mixture_radius:
        # each of these is a conic programme: vary one number at a time
        candidates += [replace(asked, noise_radius=noise_radius) for noise_radius in noise_radii]
        candidates += [replace(asked, radius=radius) for radius in radii]
    default = training.solve(asked)
    best, gain = asked, 0.0
    for candidate in candidates:
        W = training.solve(candidate)
        better = validation.loss(default, asked.mixture_radius) - validation.loss(W, asked.mixture_radius)
        better -= CAUTION * validation.difference_noise(W, default, asked.mixture_radius)
        if better > gain:
            best, gain = candidate, better
    return best
