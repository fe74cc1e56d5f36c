"""Asking sites and waiting for their answers: our own poll loop over a Flower Grid.

A question is answered once, by the node that was asked, with the number of the question's round in it; whatever
else arrives is ignored.  Nobody is waited for longer than the timeout, which is the message's time to live too.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._wire import FAILURE, REFUSALS, Parcel, decode, encode

__all__ = ["Answer", "Channel", "Question"]

PATIENCE = 0.05
"""Pause between two looks as a share of the wait so far: looks cost the SuperLink time that apps could use."""

TYPES = {"facts": "query.facts", "terms": "query.terms", "round": "train", "closing": "evaluate"}
"""Flower's message type for each kind of question."""


@dataclass(frozen=True)
class Question:
    """What a node is asked."""

    kind: str
    parcel: Parcel


@dataclass(frozen=True)
class Answer:
    """What came of a question: a parcel, or a reason why there is none."""

    parcel: Parcel | None = None
    reason: str = ""
    refused: bool = False


@dataclass(frozen=True)
class Channel:
    """Questions and answers over a Grid.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    poll : float
        Least number of seconds between two looks for answers.
    """

    grid: Any
    poll: float = 0.2

    def nodes(self) -> set[int]:
        """The nodes that are connected now."""
        return set(self.grid.get_node_ids())

    def ask(self, questions: Mapping[int, Question], number: int, timeout: float) -> dict[int, Answer]:
        """Ask nodes, and wait until all have answered or the time is over.

        Parameters
        ----------
        questions : mapping from node id to Question
        number : int
            Of this round of questions; an answer must carry it.
        timeout : float
            Seconds.

        Returns
        -------
        answers : dict of Answer
            One for each question.
        """
        from flwr.app import Message

        answers = {node: Answer(reason=f"no answer within {timeout:g} s") for node in questions}
        messages = [
            Message(
                encode(Parcel({**question.parcel.config, "number": number}, question.parcel.arrays)),
                node,
                TYPES[question.kind],
                group_id=str(number),
                ttl=timeout,
            )
            for node, question in questions.items()
        ]
        ids = list(self.grid.push_messages(messages)) if messages else []
        pending = {key: node for key, node in zip(ids, questions, strict=False) if key is not None}
        answers |= {node: Answer(reason="is not connected") for node in questions.keys() - set(pending.values())}
        began = time.monotonic()
        while pending:
            for reply in self.grid.pull_messages(list(pending)):
                node = pending.get(reply.metadata.reply_to_message_id)
                if node is not None and (answer := _read(reply, node, number)) is not None:
                    answers[node] = answer
                    del pending[reply.metadata.reply_to_message_id]
            waited = time.monotonic() - began
            if not pending or waited > timeout:
                break
            time.sleep(max(self.poll, PATIENCE * waited))
        return answers


def _read(reply, node, number) -> Answer | None:
    """The answer in a reply; None if it is not the one that was asked for."""
    if reply.has_error():
        # the text of a Flower error may come from a site: only the code is worth passing on
        return Answer(reason=f"Flower error {reply.error.code}")
    if reply.metadata.src_node_id != node:
        return None
    try:
        parcel = decode(reply.content)
    except Exception:
        return Answer(reason="its answer cannot be read")
    if parcel.config.get("number") != number:
        return None
    if "refused" in parcel.config:
        return Answer(reason=REFUSALS.get(parcel.config["refused"], FAILURE), refused=True)
    if "failed" in parcel.config:
        return Answer(reason=FAILURE)
    return Answer(parcel)
