"""The two apps that a study needs, made of an estimator and a way to load a site's data."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import joblib

from ._channel import Channel
from ._server import conduct
from ._site import Site
from ._wire import Parcel, Refusal, decode, encode

__all__ = ["client_app_of", "make_client_app", "make_server_app"]

log = logging.getLogger("skdro.flower")

STATE = "skdro"


def make_client_app(make_estimator: Callable[[Mapping], Any], load_data: Callable[[Mapping], tuple]) -> Any:
    """The ClientApp of a study: what a site runs.

    The site's `node_config` has "site-name", which is the client's label, and whatever `load_data` needs.  For a
    private run it also has "max-epsilon", the most that the site ever spends on the records of its "state-dir",
    where its ledger and its checkpoint are, at "max-delta" (default 1e-5).

    Parameters
    ----------
    make_estimator : callable
        ``make_estimator(run_config)`` returns the unfitted estimator; the same function as at the server.
    load_data : callable
        ``load_data(node_config)`` returns (X, y) of the site.

    Returns
    -------
    app : flwr.clientapp.ClientApp

    Notes
    -----
    Whatever goes wrong at the site is written to the site's own log; what the server gets is a fixed text.

    Examples
    --------
    >>> from skdro import FedDROClassifier
    >>> from skdro.flower import make_client_app
    >>> def make_estimator(run_config):
    ...     return FedDROClassifier(radius=run_config["radius"])
    >>> def load_data(node_config):
    ...     table = np.loadtxt(node_config["data"], delimiter=",")
    ...     return table[:, :-1], table[:, -1]
    >>> app = make_client_app(make_estimator, load_data)  # doctest: +SKIP
    """
    return client_app_of(Site(make_estimator, load_data))


def client_app_of(site: Site) -> Any:
    """The ClientApp around a site."""
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    def handler(kind):
        def handle(message, context):
            return Message(encode(_answer(site, kind, message, context)), reply_to=message)

        return handle

    app.query("facts")(handler("facts"))
    app.query("terms")(handler("terms"))
    app.train()(handler("round"))
    app.evaluate()(handler("closing"))
    return app


def _answer(site, kind, message, context) -> Parcel:
    """The site's answer; failures and refusals become fixed texts, since the server reads them."""
    from flwr.app import ConfigRecord

    number = -1
    try:
        question = decode(message.content)
        number = int(question.config["number"])
        state = context.state.config_records.get(STATE)
        answer, kept = site.answer(
            kind,
            question,
            run=context.run_id,
            run_config=context.run_config,
            node_config=context.node_config,
            kept=None if state is None else state["kept"],
        )
    except Refusal as refusal:
        log.warning("refused: %s", refusal)
        return Parcel({"number": number, "refused": refusal.code})
    except Exception:
        log.exception("the site could not answer")
        return Parcel({"number": number, "failed": True})
    if kept is not None:
        context.state[STATE] = ConfigRecord({"kept": kept})
    return Parcel({**answer.config, "number": number}, answer.arrays)


def make_server_app(
    make_estimator: Callable[[Mapping], Any],
    out: str | Path | Callable[[Any, Mapping], None],
    *,
    classes: Any = None,
) -> Any:
    """The ServerApp of a study: it conducts the rounds and saves an ordinary fitted estimator.

    Keys of the run_config: "min-clients" (default 2), how many sites must join before the first round, within
    "start-timeout" seconds (300); "quorum" (1), how many replies a round needs within "round-timeout" seconds
    (120).  A round without quorum leaves the model as it is; three in a row end the run with an error.

    Parameters
    ----------
    make_estimator : callable
        ``make_estimator(run_config)`` returns the unfitted estimator; the same function as at the sites.
    out : path-like or callable
        Where the fitted estimator is saved with joblib, or ``out(estimator, run_config)`` to do something else.
    classes : array-like, optional
        Public list of labels: a site that has others is refused.  None takes all labels that occur, or those of
        the estimator's own `classes`.

    Returns
    -------
    app : flwr.serverapp.ServerApp

    Examples
    --------
    >>> from skdro import FedDROClassifier
    >>> from skdro.flower import make_server_app
    >>> def make_estimator(run_config):
    ...     return FedDROClassifier(radius=run_config["radius"])
    >>> app = make_server_app(make_estimator, out="model.joblib")  # doctest: +SKIP
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid, context) -> None:
        estimator = conduct(Channel(grid), make_estimator(context.run_config), context.run_config, classes)
        if callable(out):
            out(estimator, context.run_config)
        else:
            joblib.dump(estimator, out)

    return app
