"""Where standard normal numbers come from: the operating system, or a known seed for tests.

Both sources are callables  noise(shape, clients=..., round=..., release=...)  that return one block of
`shape` for each client, stacked on the first axis.  A source is a small picklable value, so that a client can
carry it to another process.  Neither touches numpy's global random state.
"""

import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from typing import ClassVar, Protocol, cast

import numpy as np
from scipy.special import ndtri

from .opendp_noise import OpenDPNoise

__all__ = ["NOISES", "NoiseSource", "OSNoise", "StreamNoise", "noise_source"]


class NoiseSource(Protocol):
    """What `mechanism.release` expects of a source of noise.

    Attributes
    ----------
    description : str
        The source in words, for the privacy report.
    seeded : bool
        Whether somebody knows a seed from which the noise can be computed, and subtracted.
    """

    @property
    def description(self) -> str:
        """The source in words."""

    @property
    def seeded(self) -> bool:
        """Whether the noise can be computed from a seed."""

    def __call__(
        self, shape: tuple[int, ...], *, clients: Sequence[int] | np.ndarray, round: int, release: str
    ) -> np.ndarray:
        """Standard normals of shape ``(len(clients), *shape)``."""


@dataclass(frozen=True)
class OSNoise:
    """Standard normals from operating-system entropy, for fits whose guarantee is meant to hold.

    Each number uses 8 bytes of `os.urandom`: 53 bits give a uniform number in (0, 1/2], whose normal quantile
    is the magnitude, and one more bit gives the sign.  The quantile is never taken at 0 or 1.

    Examples
    --------
    >>> OSNoise()((4, 11), clients=range(30), round=0, release="gradient").shape
    (30, 4, 11)
    """

    description: ClassVar[str] = "operating-system entropy (os.urandom)"
    seeded: ClassVar[bool] = False

    def __call__(
        self, shape: tuple[int, ...], *, clients: Sequence[int] | np.ndarray, round: int, release: str
    ) -> np.ndarray:
        """Fresh standard normals of shape ``(len(clients), *shape)``, whatever the key."""
        size = len(clients) * prod(shape)
        bits = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
        lower_half = ((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-54
        negative = ndtri(lower_half)
        return np.where(bits & np.uint64(1), negative, -negative).reshape(len(clients), *shape)


@dataclass(frozen=True)
class StreamNoise:
    """Reproducible standard normals, one stream for each (client, round, release).

    For tests and simulations: whoever knows the seed can subtract the noise, so a fit that uses it is not
    private.  The streams are keyed one by one, hence neither the order of the draws nor the way clients are
    put into blocks changes a number.

    Parameters
    ----------
    random_state : int or numpy.random.Generator
        A Generator is asked once, here, for the seed.

    Raises
    ------
    ValueError
        If `random_state` is neither a non-negative int nor a Generator.

    Examples
    --------
    >>> noise = StreamNoise(0)
    >>> both = noise((2,), clients=[3, 5], round=1, release="gradient")
    >>> bool((both[1:] == noise((2,), clients=[5], round=1, release="gradient")).all())
    True
    """

    random_state: int | np.random.Generator
    description: ClassVar[str] = "seeded streams (reproducible: anyone who knows the seed can subtract them)"
    seeded: ClassVar[bool] = True

    def __post_init__(self):
        object.__setattr__(self, "random_state", _seed(self.random_state))

    def __call__(
        self, shape: tuple[int, ...], *, clients: Sequence[int] | np.ndarray, round: int, release: str
    ) -> np.ndarray:
        """The standard normals of these keys, shape ``(len(clients), *shape)``."""
        out = np.empty((len(clients), *shape))
        name = int.from_bytes(blake2b(release.encode(), digest_size=8).digest())
        seed = cast(int, self.random_state)  # a Generator was asked for it at the start
        for row, client in enumerate(clients):
            key = np.random.SeedSequence(seed, spawn_key=(int(client), round, name))
            out[row] = np.random.Generator(np.random.PCG64(key)).standard_normal(shape)
        return out


def _seed(random_state):
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    try:
        seed = operator.index(random_state)
    except TypeError:
        seed = -1
    if seed < 0 or isinstance(random_state, bool):
        raise ValueError(
            "random_state must be None (noise from the operating system), a non-negative int or a "
            f"numpy.random.Generator; got {random_state!r}."
        )
    return seed


NOISES: dict[str, type[OSNoise] | type[OpenDPNoise]] = {"os": OSNoise, "opendp": OpenDPNoise}
"""Sources that nobody can repeat, by the name that an estimator's `noise` has."""


def noise_source(
    random_state: int | np.random.Generator | None, noise: str = "os"
) -> OSNoise | StreamNoise | OpenDPNoise:
    """The source that an estimator's `random_state` and `noise` ask for.

    Parameters
    ----------
    random_state : None, int or numpy.random.Generator
        None means noise that nobody can repeat; anything else is a known seed.
    noise : {"os", "opendp"}
        Where noise comes from if it is not seeded.

    Raises
    ------
    ValueError
        If `random_state` is none of these, or seeds what cannot be seeded.
    ImportError
        If `noise` needs an extra that is not installed.

    Examples
    --------
    >>> noise_source(None).seeded, noise_source(0).seeded
    (False, True)
    """
    if random_state is None:
        return NOISES[noise]()
    if noise != "os":
        raise ValueError(f"noise={noise!r} cannot be seeded: use random_state=None.")
    return StreamNoise(random_state)
