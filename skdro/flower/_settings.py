"""How long the server waits, and for how many."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """The server's patience.

    Parameters
    ----------
    min_clients : int
        Sites that must have joined before the first round.
    quorum : int
        Replies without which a round does not count.
    start_timeout : float
        Seconds until `min_clients` must have joined.
    round_timeout : float
        Seconds that a round waits for replies.
    """

    min_clients: int = 2
    quorum: int = 1
    start_timeout: float = 300.0
    round_timeout: float = 120.0

    @classmethod
    def of(cls, run_config: Mapping) -> "Settings":
        """From the keys min-clients, quorum, start-timeout and round-timeout of a run_config.

        Raises
        ------
        ValueError
            Names the key whose value is no number in its range.
        """
        default = cls()
        values = {}
        for name in cls.__dataclass_fields__:
            key, kind = name.replace("_", "-"), type(getattr(default, name))
            value = run_config.get(key, getattr(default, name))
            number = isinstance(value, Real) and not isinstance(value, bool)
            allowed = number and value > 0 and kind(value) == value
            if not allowed:
                raise ValueError(f"{key} in run_config must be a positive {kind.__name__}; got {value!r}.")
            values[name] = kind(value)
        if values["quorum"] > values["min_clients"]:
            raise ValueError("quorum in run_config must not be larger than min-clients.")
        return cls(**values)
