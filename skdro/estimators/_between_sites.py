"""The seam of the federated estimators: what a site does and what the server does, for whoever runs the rounds.

    site     records = _records_of_site(X, y);  facts = _facts(records)          what it tells about its data
    server   terms = _terms(clients, facts)                                      what all have to know
    both     federation = _federation(terms)                                     frame, algorithm, plan
    site     block = _site_block(federation, records, g);  client_step ...       the rounds
    server   server_step ...
    server   question = _question(federation, server);  site: _answers(...)      one last question, if any
    server   _conclude(federation, rounds)                                       fitted attributes

`fit` takes the same steps with all clients in one process, so that both ways give the same model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..federation.agreement import Federation, Records, Schema
from ..federation.client_data import ClientBlock
from ..federation.protocol import Message

__all__ = ["BetweenSites", "Rounds", "runs_between_sites"]


@dataclass(frozen=True)
class Rounds:
    """What the rounds have left behind.

    Parameters
    ----------
    server : object
        The server's state.
    history : dict of str to ndarray of shape (n_rounds,)
        The algorithm's reports.
    answers : list of dict
        To the last question; empty if there was none.
    answered : sequence of int
        Which clients the answers are from.
    """

    server: Any
    history: dict[str, np.ndarray]
    answers: Sequence[Message] = ()
    answered: Sequence[int] = ()


class BetweenSites:
    """Federated estimators that can be fitted between sites.

    A subclass supplies `_records_of_site(X, y)`, `_facts(records)`, `_terms(clients, facts)`,
    `_federation(terms)` and `_conclude(federation, rounds)`; facts and terms are dicts of arrays, facts with one
    entry a client on the first axis.  One that lacks them, or whose rounds hold several exchanges, runs in one
    process only.
    """

    _between_sites: ClassVar[bool] = True
    # scikit-learn's
    get_params: Callable[..., dict[str, Any]]
    set_params: Callable[..., Any]
    _validate_params: Callable[..., None]

    def _check_between_sites(self) -> None:
        """ValueError that names the parameter, where these parameters need the records of all sites in one place."""

    def _is_private(self) -> bool:
        """Whether what leaves a site is noisy and accounted for."""
        return False

    def _schema(self) -> Schema:
        """Shape of the data that `_records_of_site` has seen."""
        names = getattr(self, "feature_names_in_", None)
        return Schema(
            self.n_features_in_,
            None if names is None else tuple(names.tolist()),
            getattr(self, "classes_", None),
            self._settings(),
        )

    def _settings(self) -> dict[str, str]:
        """Class and parameters as text: all parties must compute with the same."""
        parameters = {name: repr(value) for name, value in self.get_params().items() if name != "n_jobs"}
        return {"class": type(self).__name__, **parameters}

    def _adopt(self, schema: Schema) -> None:
        """Take over what was agreed, as if the data of all sites had been seen."""
        self.n_features_in_ = schema.n_features
        if schema.feature_names is not None:
            self.feature_names_in_ = np.array(schema.feature_names, dtype=object)
        if schema.classes is not None:
            self.classes_ = schema.classes

    def _site_block(self, federation: Federation, records: Records, g: int) -> ClientBlock:
        """The block of the g-th client alone, from its own records."""
        return federation.block(records, np.array([g]))

    def _question(self, federation: Federation, server: Any) -> Message | None:
        """What the server still has to ask the clients after the last round."""
        return None

    def _answers(self, federation: Federation, block: ClientBlock, question: Message) -> list[Message]:
        """The answers of a block's clients to the last question."""
        return []


def runs_between_sites(estimator: Any) -> bool:
    """Whether a class or an estimator can be fitted between sites."""
    return getattr(estimator, "_between_sites", False) and callable(getattr(estimator, "_federation", None))
