"""Who takes part in a run: sites join, agree and accept the terms; later some go and come back.

Nodes are numbers that change when a site restarts; what counts is the site's name.  A site that is refused, and
why, is written down: the reasons end up in the log and in the error that a run without enough sites ends with.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from ..federation.agreement import Federation, Records, Schema, agree
from ..federation.protocol import Message
from ._channel import Answer, Channel, Question
from ._settings import Settings
from ._wire import Parcel, fault_in, pack_schema, unpack_schema

__all__ = ["Participant", "Roster", "made_up_record"]

log = logging.getLogger("skdro.flower")


def made_up_record(n_features: int) -> Records:
    """A record of zeros, from which the server learns what answers look like."""
    nobody = np.zeros(1, dtype=int)
    return Records(np.zeros((1, n_features)), nobody, nobody, np.ones(1))


@dataclass
class Participant:
    """One site of the run, as the server sees it.

    Parameters
    ----------
    node : int
        Its present number.
    facts : Message
    heard : int
        Round of its last reply that counted, -1 before the first.
    doubtful : bool
        It may remember something else than the server does.
    gone : str
        Why it is not asked any more; empty while it is.
    """

    node: int
    facts: Message
    heard: int = -1
    doubtful: bool = False
    gone: str = ""


@dataclass
class Roster:
    """The sites of one run and what they have agreed on.

    Parameters
    ----------
    channel : Channel
    settings : Settings
    estimator : object
        The server's, unfitted; takes over what is agreed.
    classes : ndarray, optional
        Public list of labels.
    """

    channel: Channel
    settings: Settings
    estimator: Any
    classes: np.ndarray | None = None
    sites: dict[str, Participant] = field(default_factory=dict)  # in the order of the clients
    refused: dict[str, str] = field(default_factory=dict)
    schema: Schema | None = None
    terms: Message = field(default_factory=dict)
    federation: Federation | None = None
    _met: set[int] = field(default_factory=set)
    _number: int = 0

    def ask(self, questions: Mapping[int, Question], timeout: float | None = None) -> dict[int, Answer]:
        """Ask nodes under a number of its own."""
        self._number += 1
        return self.channel.ask(questions, self._number, timeout or self.settings.round_timeout)

    def gather(self) -> None:
        """Wait until enough sites have joined, agree, and have accepted the terms.

        Raises
        ------
        RuntimeError
            They have not within the start timeout; names who was refused and why.
        """
        deadline = time.monotonic() + self.settings.start_timeout
        candidates: dict[str, tuple[int, Parcel]] = {}
        while True:
            left = deadline - time.monotonic()
            newcomers = self.newcomers(self.channel.nodes())
            answers = self.ask(newcomers, min(max(left, self.channel.poll), self.settings.round_timeout))
            for node, answer in answers.items():
                self._introduce(node, answer, candidates)
            if len(candidates) >= self.settings.min_clients and self._settle_terms(candidates):
                return
            if left <= 0:
                raise RuntimeError(
                    f"min-clients={self.settings.min_clients} sites did not join within start-timeout="
                    f"{self.settings.start_timeout:g} s: {len(candidates)} did.{self.reasons()}"
                )
            time.sleep(self.channel.poll)

    def newcomers(self, connected: set[int]) -> dict[int, Question]:
        """What nodes are asked that have not been met."""
        return dict.fromkeys(sorted(connected - self._met), Question("facts", Parcel()))

    def _introduced(self, node, answer) -> str | None:
        """Name of the site behind a new node; None if it did not say."""
        if answer.parcel is None:
            self.refuse(f"node {node}", answer.reason)
            if answer.refused:
                self._met.add(node)  # anybody else is asked again
            return None
        self._met.add(node)
        return str(answer.parcel.config["site-name"])

    def _introduce(self, node, answer, candidates):
        name = self._introduced(node, answer)
        if name is None:
            return
        if name in candidates and candidates[name][0] in self.channel.nodes():
            self.refuse(f"node {node}", f"calls itself {name!r}, as another node does")
        else:
            candidates[name] = (node, answer.parcel)

    def _settle_terms(self, candidates) -> bool:
        """Find terms that enough candidates accept; those that do not leave the candidates."""
        schemas = {name: unpack_schema(parcel) for name, (_, parcel) in candidates.items()}
        self.schema, refused = agree(schemas, self.estimator._settings(), self.classes)
        template = self.estimator._facts(made_up_record(self.schema.n_features))
        for name in schemas.keys() - refused.keys():
            fault = fault_in(candidates[name][1].arrays["facts"], template)
            if fault:
                refused[name] = f"its facts: {fault}"
        self._dismiss(refused, candidates)
        while len(candidates) >= self.settings.min_clients:
            self.sites = {
                name: Participant(node, parcel.arrays["facts"]) for name, (node, parcel) in sorted(candidates.items())
            }
            self._make_terms()
            nodes = {site.node: name for name, site in self.sites.items()}
            answers = self.ask(dict.fromkeys(nodes, Question("terms", self.with_terms(Parcel()))))
            refused = {nodes[node]: answer.reason for node, answer in answers.items() if answer.parcel is None}
            if not refused:
                return True
            self._dismiss(refused, candidates)
        return False

    def _dismiss(self, refused, candidates):
        for name, reason in refused.items():
            self.refuse(name, reason)
            del candidates[name]

    def _make_terms(self):
        self.estimator._adopt(self.schema)
        facts = [site.facts for site in self.sites.values()]
        together = {key: np.concatenate([one[key] for one in facts]) for key in facts[0]}
        self.terms = self.estimator._terms(np.array(list(self.sites)), together)
        self.federation = self.estimator._federation(self.terms)

    def with_terms(self, parcel: Parcel) -> Parcel:
        """The parcel with schema and terms, which a site needs with every question."""
        schema = pack_schema(cast(Schema, self.schema))  # agreed before there are terms
        return Parcel({**parcel.config, **schema.config}, {**parcel.arrays, **schema.arrays, "terms": self.terms})

    def taking_part(self, connected: set[int]) -> dict[int, str]:
        """Names of the sites that can be asked, by node, in the order of the clients."""
        return {site.node: name for name, site in self.sites.items() if site.node in connected and not site.gone}

    def come_back(self, node: int, answer: Answer, connected: set[int]) -> None:
        """A node that was not there before: a site of this run takes its place again, others are sent away."""
        name = self._introduced(node, answer)
        if name is None:
            return
        site = self.sites.get(name)
        if site is None:
            self.refuse(name, "came after the run had begun")
        elif site.node in connected:
            self.refuse(f"node {node}", f"calls itself {name!r}, as another node does")
        elif fault_in(facts := cast(Parcel, answer.parcel).arrays["facts"], site.facts) or not all(
            np.array_equal(value, facts[key]) for key, value in site.facts.items()
        ):
            self.refuse(name, "came back with other data")
        else:
            log.info("%s: is back as node %d", name, node)
            site.node, site.doubtful, site.gone = node, True, ""

    def refuse(self, who: str, reason: str) -> None:
        """Write down why something that was sent does not count."""
        if self.refused.get(who) != reason:
            log.warning("%s: %s", who, reason)
        self.refused[who] = reason

    def reasons(self) -> str:
        """Who was refused and why, for an error."""
        return "".join(f"\n  {who}: {reason}" for who, reason in self.refused.items())
