"""The site's half: what one message makes a site do, whatever carries the messages.

Each message may find a new process.  So the data are loaded and everything public is built anew for each, and what
must last from round to round (the algorithm's client state and the number of the last round answered) is handed in
and out as bytes, and kept in a file as well if the site has a `state-dir`.

The site trusts nobody with its records: noise, clipping and the number of records are its own, it charges its
ledger before anything leaves, and what it may not do it refuses, with a fixed text.
"""

import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from ..federation.agreement import Federation, Records
from ..federation.protocol import Resumable
from ..privacy.ledger import check_ledger
from ._ledger import ADJACENCY, SiteLedger
from ._wire import Parcel, Refusal, pack_schema, unpack_schema

__all__ = ["Memory", "Site"]

DELTA = 1e-5


@dataclass(frozen=True)
class Memory:
    """What a site keeps between two messages of a run.

    Parameters
    ----------
    run : int
    sent : int
        Round of its last answer, -1 before the first.
    state : object
        The algorithm's client state; None before the first round.
    """

    run: int
    sent: int = -1
    state: Any = None


@dataclass(frozen=True)
class Site:
    """One site; `answer` is all it does.

    Parameters
    ----------
    make_estimator : callable
        From run_config to an unfitted estimator.
    load_data : callable
        From node_config to (X, y).
    accept_seed : bool
        For tests alone: accept estimators with a `random_state`.  No configuration reaches it.
    """

    make_estimator: Callable[[Mapping], Any]
    load_data: Callable[[Mapping], tuple]
    accept_seed: bool = False

    def answer(
        self, kind: str, parcel: Parcel, *, run: int, run_config: Mapping, node_config: Mapping, kept: bytes | None
    ) -> tuple[Parcel, bytes | None]:
        """Answer one message.

        Parameters
        ----------
        kind : {"facts", "terms", "round", "closing"}
        parcel : Parcel
        run : int
        run_config, node_config : mapping
        kept : bytes, optional
            What the last call returned.

        Returns
        -------
        answer : Parcel
        kept : bytes or None
            To be handed in with the next message of this run.

        Raises
        ------
        Refusal
            The site does not take part.
        """
        estimator = self._checked_estimator(run_config, node_config)
        data = self.load_data(node_config)
        if kind == "facts":
            return self._facts(estimator, data, node_config), kept
        federation, records, g = self._federation(estimator, data, parcel, node_config)
        if kind == "terms":
            self._check_budget(federation, g, run, node_config)
            return Parcel({"accepted": True}), kept
        # where the user makes numpy raise on underflow, it would tell on the records
        with np.errstate(all="ignore"):
            block = estimator._site_block(federation, records, g)
            if kind == "closing":
                return Parcel(
                    arrays={"message": estimator._answers(federation, block, parcel.arrays["message"])[0]}
                ), kept
            memory = _recall(kept, run, node_config)
            self._check_budget(federation, g, run, node_config)
            return self._round(estimator, federation, block, parcel, memory, node_config)

    def _checked_estimator(self, run_config, node_config):
        """The run's estimator, if the site's own rules allow for it."""
        if "site-name" not in node_config:
            raise Refusal("no-name")
        if "random_state" in run_config or "random-state" in run_config:
            raise Refusal("random-state")
        estimator = self.make_estimator(run_config)
        estimator._validate_params()
        parameters = estimator.get_params()
        if parameters.get("random_state") is not None and not self.accept_seed:
            raise Refusal("random-state")
        if parameters.get("aggregation", "local") != "local":
            raise Refusal("trusted")
        if parameters.get("diagnostics") is not None:
            raise Refusal("diagnostics")
        private = estimator._is_private()
        if private and parameters.get("classes", ()) is None:
            raise Refusal("classes")
        if private and not 0 < _number(node_config.get("max-epsilon")) < inf:
            raise Refusal("no-cap")
        if private and not node_config.get("state-dir"):
            raise Refusal("no-state-dir")
        if not private and "max-epsilon" in node_config:
            raise Refusal("not-private")
        return estimator

    def _facts(self, estimator, data, node_config):
        """Shape of the data, and what the terms are made of."""
        facts = estimator._facts(estimator._records_of_site(*data))
        schema = pack_schema(estimator._schema())
        return Parcel(
            {"site-name": str(node_config["site-name"]), **schema.config}, {"facts": facts, **schema.arrays}
        )

    def _federation(self, estimator, data, parcel, node_config) -> tuple[Federation, Records, int]:
        """What the terms say, the site's records under them, and its place among the clients."""
        agreed, terms = unpack_schema(parcel), parcel.arrays["terms"]
        (place,) = np.nonzero(terms["clients"] == str(node_config["site-name"]))
        if len(place) != 1:
            raise Refusal("terms")
        if agreed.classes is not None:
            estimator.classes_ = agreed.classes
        try:
            records = estimator._records_of_site(*data)
        except ValueError as error:  # a label outside the classes: what was agreed was something else
            raise Refusal("terms") from error
        own = estimator._schema()
        if (
            own.n_features != agreed.n_features
            or own.feature_names != agreed.feature_names
            or not np.array_equal(own.classes, agreed.classes)  # type: ignore[arg-type]  # None: missing in numpy's stubs
        ):
            raise Refusal("terms")
        return estimator._federation(terms), records, int(place[0])

    def _check_budget(self, federation, g, run, node_config):
        """Before the first round: refuse a run whose whole plan the cap does not allow for."""
        if federation.plan is None:
            return
        if federation.plan.adjacency.name != _adjacency(node_config):
            raise Refusal("adjacency")
        ledger = _ledger(node_config)
        planned = sum(float(release.mu_squared[g]) for release in federation.plan.releases.values())
        if not ledger.has_run(run):
            ledger.check(planned)

    def _round(self, estimator, federation, block, parcel, memory, node_config):
        algorithm, t = federation.algorithm, int(parcel.config["round"])
        if not 0 <= t < estimator.n_rounds:
            raise Refusal("rounds")
        state = algorithm.client_start(block) if memory.state is None else memory.state
        if memory.sent != int(parcel.config["heard"]) and isinstance(algorithm, Resumable):
            if not parcel.config["resume"]:
                return Parcel({"round": t, "out-of-step": True}), pickle.dumps(memory)
            state = algorithm.resume(state, block, parcel.arrays.get("memory"))
        replies, new_state = algorithm.client_step(state, block, parcel.arrays["message"])
        if estimator._is_private():
            self._account(federation, state, new_state, memory.run, t, node_config)
        kept = pickle.dumps(Memory(memory.run, t, new_state))
        _keep(kept, memory.run, node_config)
        return Parcel({"round": t}, {"message": replies[0]}), kept

    def _account(self, federation, before, after, run, t, node_config):
        """Check what a step has released against the plan, and charge for it."""
        algorithm, plan = federation.algorithm, federation.plan
        nothing = algorithm.server_start(len(federation.clients), federation.shape)
        old, new = (algorithm.ledger(nothing, [state]) for state in (before, after))
        lines = new[len(old) :]
        if not lines:
            raise Refusal("unaccounted")
        check_ledger(plan, lines, stopped=True)
        _ledger(node_config).charge(lines, run=run, round=t)


def _number(value):
    """A number from a configuration; NaN if it is none, which no comparison accepts."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _adjacency(node_config):
    return node_config.get("adjacency", ADJACENCY)


def _ledger(node_config):
    directory = Path(node_config["state-dir"])
    directory.mkdir(parents=True, exist_ok=True)
    delta = _number(node_config.get("max-delta", DELTA))
    if not 0 < delta < 1:
        raise Refusal("no-cap")
    return SiteLedger(directory / "ledger.jsonl", _number(node_config["max-epsilon"]), delta, _adjacency(node_config))


def _checkpoint(run, node_config):
    return Path(node_config["state-dir"]) / f"run-{run}.state"


def _recall(kept, run, node_config):
    """The memory handed in, or else that of the checkpoint file, or else an empty one."""
    if kept is None and node_config.get("state-dir") and _checkpoint(run, node_config).exists():
        kept = _checkpoint(run, node_config).read_bytes()
    memory = Memory(run) if kept is None else pickle.loads(kept)
    return memory if memory.run == run else Memory(run)


def _keep(kept, run, node_config):
    """Replace the checkpoint file in one step, so that a crash leaves the old or the new one."""
    if not node_config.get("state-dir"):
        return
    path = _checkpoint(run, node_config)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    with open(fresh, "wb") as file:
        file.write(kept)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
