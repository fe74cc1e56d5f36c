"""What crosses between a site and the server: named numbers and named groups of arrays, never an object.

Arrays travel in numpy's own format without pickle, so float64 arrives bit for bit and nothing that arrives can
run code.  A site's answer is a reply, or a refusal or a failure with one of the fixed texts below.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..federation.agreement import Schema
from ..federation.protocol import Message

__all__ = [
    "FAILURE",
    "REFUSALS",
    "Parcel",
    "Refusal",
    "decode",
    "encode",
    "fault_in",
    "pack_schema",
    "unpack_schema",
]

CONFIG = "config"
FAILURE = "the site could not answer; the reason is in its own log"
REFUSALS = {
    "random-state": "random_state comes with the run, but the noise of a site is its own",
    "trusted": 'aggregation="trusted" would send exact sums to the server; between sites only "local" is possible',
    "diagnostics": "diagnostics would send exact objectives to the server",
    "classes": "classes must be a public list in a private run",
    "no-cap": "a private run needs max-epsilon (> 0) in the node_config of the site",
    "no-state-dir": "a private run needs state-dir in the node_config of the site, where its privacy ledger lives",
    "not-private": "the site has a privacy budget (max-epsilon) and answers private runs only",
    "adjacency": "the run's adjacency is not that of the site (adjacency in its node_config, replace_one by default)",
    "ledger-adjacency": "the site's ledger has releases under another adjacency than its node_config",
    "over-budget": "the site's max-epsilon does not allow for it",
    "no-name": "the node_config of the site has no site-name",
    "terms": "the terms of the run do not fit the site's data",
    "rounds": "the round is outside the run's plan",
    "unaccounted": "the step released nothing that could be accounted for",
}
"""Every reason that a site gives, by code: fixed texts, so that no refusal tells of a record."""


class Refusal(Exception):
    """A site does not take part; `code` is one of `REFUSALS`."""

    def __init__(self, code: str):
        super().__init__(REFUSALS[code])
        self.code = code


@dataclass(frozen=True)
class Parcel:
    """Content of one message.

    Parameters
    ----------
    config : dict
        Numbers and texts.
    arrays : dict of Message
        Groups of arrays.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Message] = field(default_factory=dict)


def encode(parcel: Parcel) -> Any:
    """The parcel as a Flower RecordDict."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    record = RecordDict({CONFIG: ConfigRecord(dict(parcel.config))})
    for group, message in parcel.arrays.items():
        record[group] = ArrayRecord({name: Array(_plain(value)) for name, value in message.items()})
    return record


def _plain(value):
    """An array of a type that needs no pickle: texts in object arrays become numpy texts."""
    array = np.asarray(value)
    return np.array(array.tolist()) if array.dtype.kind in "OT" else array


def decode(record: Any) -> Parcel:
    """The parcel in a Flower RecordDict."""
    arrays = {
        group: {name: array.numpy() for name, array in content.items()}
        for group, content in record.array_records.items()
    }
    return Parcel(dict(record.config_records[CONFIG]), arrays)


def pack_schema(schema: Schema) -> Parcel:
    """A schema for the wire; the classes are an array."""
    names = None if schema.feature_names is None else list(schema.feature_names)
    text = json.dumps(
        {"n_features": schema.n_features, "feature_names": names, "parameters": dict(schema.parameters)}
    )
    return Parcel({"schema": text}, {} if schema.classes is None else {"schema": {"classes": schema.classes}})


def unpack_schema(parcel: Parcel) -> Schema:
    """The schema in a parcel."""
    fields = json.loads(parcel.config["schema"])
    names = fields["feature_names"]
    return Schema(
        int(fields["n_features"]),
        None if names is None else tuple(names),
        parcel.arrays.get("schema", {}).get("classes"),
        fields["parameters"],
    )


def fault_in(message: Message, template: Message) -> str | None:
    """What is wrong with a message that should look like `template`; None if nothing is.

    Numbers must be finite wherever those of the template are.
    """
    if message.keys() != template.keys():
        return f"has the arrays {sorted(message)} instead of {sorted(template)}"
    for name, expected in template.items():
        array, expected = np.asarray(message[name]), np.asarray(expected)
        if array.shape != expected.shape or array.dtype.kind != expected.dtype.kind:
            return f"{name!r} is {array.dtype} of shape {array.shape} instead of {expected.dtype} {expected.shape}"
        if not np.isfinite(array).all() and np.isfinite(expected).all():
            return f"{name!r} is not finite"
    return None
