"""One way to read `random_state` for every generator of the subpackage."""

from numbers import Integral

import numpy as np

RandomStateLike = int | np.random.RandomState | np.random.Generator | None


def as_generator(random_state: RandomStateLike) -> np.random.Generator:
    """Turn None, an int, a `RandomState` or a `Generator` into a `Generator`.

    None asks the operating system for entropy (the global state of numpy is never touched), a
    `Generator` is used as it is, and a `RandomState` gives one draw as the seed, so that both advance.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if random_state is None or (isinstance(random_state, Integral) and random_state >= 0):
        return np.random.default_rng(random_state)
    raise ValueError(
        "random_state must be None, a nonnegative int, a numpy RandomState or a numpy Generator, "
        f"got {random_state!r}."
    )
