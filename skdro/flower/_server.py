"""The server's half: the rounds, and the fitted estimator at their end; no algorithm is known here.

    facts     every node that connects says what its data look like, until enough have
    terms     those that agree get the public terms; a site may refuse them
    round     broadcast, replies, one server step, if at least a quorum has replied; else the model stays
    closing   a last question to the sites, if the estimator has one

A node that comes back is asked for its facts again and goes on under its old name; if what it remembers is not what
the server remembers, it goes on from the server's memory.
"""

import logging
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ..estimators._between_sites import Rounds, runs_between_sites
from ..federation.agreement import Federation
from ..federation.protocol import Algorithm, Message, Resumable
from ._channel import Channel, Question
from ._roster import Roster, made_up_record
from ._settings import Settings
from ._wire import Parcel, fault_in

__all__ = ["conduct"]

log = logging.getLogger("skdro.flower")

FAILED_ROUNDS = 3  # in a row, after which the run ends
CLOSING_ATTEMPTS = 3


def conduct(channel: Channel, estimator: Any, run_config: Mapping, classes: Any = None) -> Any:
    """Fit an estimator with the sites behind a channel.

    Parameters
    ----------
    channel : Channel
    estimator : object
        Unfitted.
    run_config : mapping
        With the keys of `Settings`.
    classes : array-like, optional
        Public list of labels.

    Returns
    -------
    estimator : object
        Fitted; its `history_` also has "replied" of shape (n_iter_, n_clients), which sites replied in each round,
        and "attempt" of shape (n_iter_,), the number of the round: one is missing where too few replied.

    Raises
    ------
    RuntimeError
        Too few sites joined, or replied in three rounds in a row; names each with the reason.
    ValueError
        A parameter or a key of run_config is invalid, or the estimator's parameters need all records in one place.
    TypeError
        The estimator cannot be fitted between sites.
    """
    if not runs_between_sites(estimator):
        raise TypeError(f"{type(estimator).__name__} cannot be fitted between sites yet; fit it in one process.")
    estimator._validate_params()
    estimator._check_between_sites()
    classes = None if classes is None else np.unique(np.asarray(classes))
    roster = Roster(channel, Settings.of(run_config), estimator, classes)
    roster.gather()
    rounds, participation = _rounds(roster)
    estimator._conclude(roster.federation, rounds)
    estimator.history_ = {**estimator.history_, **participation}
    return estimator


def _rounds(roster: Roster) -> tuple[Rounds, dict[str, np.ndarray]]:
    """All rounds and the last question; who replied in each of those that counted."""
    federation, quorum = cast(Federation, roster.federation), roster.settings.quorum  # the roster has gathered
    algorithm = cast(Algorithm, federation.algorithm)  # between sites nothing is solved at once
    server = algorithm.server_start(len(roster.sites), federation.shape)
    names = list(roster.sites)
    reports, replied, attempts, failed = [], [], [], 0
    for t in range(roster.estimator.n_rounds):
        replies = _one_round(roster, t, server)
        if len(replies) < quorum:
            failed += 1
            log.warning("round %d: %d of %d sites replied, the model stays", t, len(replies), len(names))
            if failed == FAILED_ROUNDS or all(site.gone for site in roster.sites.values()):
                break
            continue
        failed = 0
        clients = [g for g, name in enumerate(names) if name in replies]
        server = algorithm.server_step(server, [replies[names[g]] for g in clients], clients)
        reports.append(algorithm.report(server))
        replied.append(np.isin(names, list(replies)))
        attempts.append(t)
        if algorithm.finished(server):
            break
    if failed or not reports:
        raise RuntimeError(
            f"Fewer than quorum={quorum} sites replied in the last {failed} round(s), up to round {t}: the run ends "
            f"without a model.{roster.reasons()}"
        )
    history = {name: np.array([report[name] for report in reports]) for name in reports[0]}
    answers, answered = _last_question(roster, server)
    return Rounds(server, history, answers, answered), {"replied": np.array(replied), "attempt": np.array(attempts)}


def _one_round(roster, t, server) -> dict[str, Message]:
    """The replies of this round that count, by site."""
    algorithm = roster.federation.algorithm
    broadcast = algorithm.broadcast(server)
    connected = roster.channel.nodes()
    asked, newcomers = roster.taking_part(connected), roster.newcomers(connected)
    answers = roster.ask({**_questions(roster, asked, t, server, broadcast), **newcomers})
    template = _rehearsal(roster, broadcast)
    replies = {}
    for node, name in asked.items():
        reply = _accepted(roster, name, answers[node], template, t)
        if reply is not None:
            replies[name] = reply
    for node in newcomers:
        roster.come_back(node, answers[node], connected)
    enough = len(replies) >= roster.settings.quorum
    for name in asked.values():
        site = roster.sites[name]
        # a reply that was lost, or that came and does not count, has moved the site's state
        site.doubtful = not (enough and name in replies)
        site.heard = site.heard if site.doubtful else t
    return replies


def _questions(roster, asked, t, server, broadcast):
    """The broadcast, for each site with what it should remember where that is in doubt."""
    algorithm = roster.federation.algorithm
    places = {name: g for g, name in enumerate(roster.sites)}
    questions = {}
    for node, name in asked.items():
        site = roster.sites[name]
        arrays = {"message": broadcast}
        if site.doubtful and isinstance(algorithm, Resumable):
            memory = algorithm.memory(server, places[name])
            arrays |= {} if memory is None else {"memory": memory}
        config = {"round": t, "heard": site.heard, "resume": site.doubtful}
        questions[node] = Question("round", roster.with_terms(Parcel(config, arrays)))
    return questions


def _rehearsal(roster, broadcast) -> Message:
    """What a reply to this broadcast looks like, learnt from a client with one made-up record."""
    algorithm = roster.federation.algorithm
    block = roster.federation.block(made_up_record(roster.schema.n_features), [0])
    replies, _ = algorithm.client_step(algorithm.client_start(block), block, broadcast)
    return replies[0]


def _accepted(roster, name, answer, template, t) -> Message | None:
    """The reply in an answer if it counts; else the reason is written down."""
    if answer.refused:
        roster.sites[name].gone = answer.reason
    if answer.parcel is None:
        roster.refuse(name, answer.reason)
        return None
    if answer.parcel.config.get("out-of-step"):
        log.info("%s: remembers another round; next time it goes on from the server's memory", name)
        return None
    fault = fault_in(answer.parcel.arrays.get("message", {}), template)
    if answer.parcel.config.get("round") != t:
        fault = "answers another round"
    if fault:
        roster.refuse(name, f"its reply was ignored: {fault}")
        return None
    return answer.parcel.arrays["message"]


def _last_question(roster, server) -> tuple[list[Message], list[int]]:
    """Answers to the estimator's last question, and whose they are."""
    estimator, federation = roster.estimator, roster.federation
    question = estimator._question(federation, server)
    if question is None:
        return [], []
    block = federation.block(made_up_record(roster.schema.n_features), [0])
    template = estimator._answers(federation, block, question)[0]
    asking = Question("closing", roster.with_terms(Parcel({}, {"message": question})))
    places = {name: g for g, name in enumerate(roster.sites)}
    for _ in range(CLOSING_ATTEMPTS):
        asked = roster.taking_part(roster.channel.nodes())
        given = {}
        for node, answer in roster.ask(dict.fromkeys(asked, asking)).items():
            if answer.parcel is None:
                roster.refuse(asked[node], answer.reason)
            elif fault := fault_in(answer.parcel.arrays.get("message", {}), template):
                roster.refuse(asked[node], f"its answer was ignored: {fault}")
            else:
                given[places[asked[node]]] = answer.parcel.arrays["message"]
        if len(given) >= roster.settings.quorum:
            clients = sorted(given)
            return [given[g] for g in clients], clients
    raise RuntimeError(
        f"Fewer than quorum={roster.settings.quorum} sites answered the last question, which decides on the model."
        f"{roster.reasons()}"
    )
