"""What becomes of consensus rounds: the clients appraise the candidates, and one of them is the result.

ADMM is no descent method, so the best broadcast model of all rounds stands beside the last one.  What each is worth
only the clients can tell: the server asks once, after the last round.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..ambiguity.constant_model import Settled, appraise, settle_appraised
from ..federation.client_data import ClientBlock
from ..federation.protocol import Message
from ..federation.steps.consensus import ConsensusADMM, ServerState

__all__ = ["Outcome", "answer_on", "appraisals", "candidates"]


def candidates(server: ServerState) -> tuple[np.ndarray, np.ndarray]:
    """The models of which one is the result: that of the last round, and the best of all rounds."""
    return server.model, server.best_model


def appraisals(
    parts: Sequence[tuple[ConsensusADMM, Callable[[ClientBlock], ClientBlock]]],
    block: ClientBlock,
    models: np.ndarray,
) -> list[Message]:
    """What each client of a block says of the candidates of all problems.

    Parameters
    ----------
    parts : sequence of (ConsensusADMM, callable)
        The problems, each with the block that it makes of a block.
    block : ClientBlock
    models : ndarray of shape (n_problems, n_candidates, n_classes, n_columns)

    Returns
    -------
    answers : list of dict
        One a client, of arrays of shape (n_problems, n_candidates, ...); see `appraise`.
    """
    seen = [(admm, seen_as(block)) for admm, seen_as in parts]
    answers = []
    for g in range(block.n_clients):
        problems = [admm.risk(own, g) for admm, own in seen]
        said = [[appraise(problem, model) for model in pair] for problem, pair in zip(problems, models, strict=True)]
        answers.append({name: np.array([[one[name] for one in part] for part in said]) for name in said[0][0]})
    return answers


def answer_on(answer: Message, problem: int) -> list[Message]:
    """One client's appraisals of the candidates of one problem."""
    n_candidates = answer["risk"].shape[1]
    return [{name: value[problem, c] for name, value in answer.items()} for c in range(n_candidates)]


@dataclass(frozen=True)
class Outcome:
    """What the rounds made of one robust problem.

    Parameters
    ----------
    server : ServerState
        After the problem's last round.
    settled : Settled
        The best model of all rounds, or the constant one.
    last_risk : float
        Robust risk of the consensus model after the last round.
    converged : bool
    """

    server: ServerState
    settled: Settled
    last_risk: float
    converged: bool

    @classmethod
    def of(
        cls,
        admm: ConsensusADMM,
        server: ServerState,
        settings: dict[str, np.ndarray],
        answers: Sequence[Sequence[Message]],
        clients: Sequence[int],
    ) -> "Outcome":
        """The outcome by what these clients say; those that are silent do not count.

        Parameters
        ----------
        admm : ConsensusADMM
        server : ServerState
        settings : dict
            "radius" and "kappa" of shape (n_clients,).
        answers : sequence of shape (n_answers, n_candidates) of dict
            See `answer_on`.
        clients : sequence of int, shape (n_answers,)
        """
        which = list(clients)
        alpha = admm.alpha[which] / admm.alpha[which].sum()
        last_risk = float(alpha @ [float(last["risk"]) for last, _ in answers])
        best = 0 if last_risk <= server.best_objective else 1
        settled = settle_appraised(
            candidates(server)[best],
            [answer[best] for answer in answers],
            alpha,
            settings["radius"][which],
            settings["kappa"][which],
            admm.n_features,
        )
        return cls(server, settled, last_risk, admm.finished(server))
