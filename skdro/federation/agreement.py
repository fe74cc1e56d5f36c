"""What the parties of a federation agree on before the first round, and what each of them then knows.

Every site states the shape of its data (`Schema`) and a few numbers about them; the server makes public terms of
these, and from the terms every party builds the same `Federation`: the frame, the algorithm, the clients.  A fit
in one process takes the same way, with all clients at hand.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..privacy.plan import PrivacyPlan
from .client_data import ClientBlock, prepare
from .frames import Frame
from .protocol import Algorithm

__all__ = ["Federation", "Records", "Schema", "agree"]


@dataclass(frozen=True)
class Records:
    """Validated rows of one or more clients.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        Class indices, or responses.
    index : ndarray of int, shape (n_rows,)
        Client of each row; zero throughout at a site.
    weight : ndarray of shape (n_rows,), optional
        Weight of each record within its client.
    """

    X: np.ndarray
    y: np.ndarray
    index: np.ndarray
    weight: np.ndarray | None = None


@dataclass(frozen=True)
class Federation:
    """What all parties of a fit know: public numbers only.

    Parameters
    ----------
    clients : ndarray of shape (n_clients,)
        Sorted client labels.
    frame : Frame
        Coordinates of the rounds.
    algorithm : Algorithm or None
        None where the records of all clients are at hand and the problem is solved at once.
    shape : tuple of int
        Shape of the model.
    settings : dict of str to ndarray of shape (n_clients,)
        Public numbers of each client, in frame coordinates.
    plan : PrivacyPlan, optional
        What will be released; None if the fit is not private.
    facts : object, optional
        Public facts that the estimator needs after the rounds.
    """

    clients: np.ndarray
    frame: Frame
    algorithm: Algorithm | None
    shape: tuple[int, ...]
    settings: dict[str, np.ndarray] = field(default_factory=dict)
    plan: PrivacyPlan | None = None
    facts: Any = None

    def block(self, records: Records, which: np.ndarray | None = None) -> ClientBlock:
        """The block of the clients whose rows these are.

        Parameters
        ----------
        records : Records
        which : ndarray of int, optional
            Position in the federation of each client that ``records.index`` counts; all clients by default.
        """
        which = np.arange(len(self.clients)) if which is None else np.asarray(which)
        block = prepare(records.X, records.y, records.index, self.clients[which], self.frame, records.weight)
        return replace(block, index=which, settings={name: value[which] for name, value in self.settings.items()})


@dataclass(frozen=True)
class Schema:
    """The shape of one site's data, and the settings that it computes with.

    Parameters
    ----------
    n_features : int
    feature_names : tuple of str, optional
        None if the columns have no names.
    classes : ndarray, optional
        Sorted labels: the public list, or those that occur.  None for a regression.
    parameters : dict of str to str
        Class and parameters of the site's estimator, as text.
    """

    n_features: int
    feature_names: tuple[str, ...] | None
    classes: np.ndarray | None
    parameters: Mapping[str, str]


def agree(
    schemas: Mapping[str, Schema], parameters: Mapping[str, str], classes: np.ndarray | None = None
) -> tuple[Schema, dict[str, str]]:
    """The schema that holds for all, and why some sites are refused.

    The parameters are the server's.  Number and names of the features are those of most sites (of the site that
    sorts first in a tie).  The classes are the public ones if given, else all that occur.

    Parameters
    ----------
    schemas : mapping from site name to Schema
    parameters : mapping of str to str
        Of the server's estimator.
    classes : ndarray, optional
        Public list of labels.

    Returns
    -------
    agreed : Schema
    refused : dict of str to str
        The reason, by site.

    Examples
    --------
    >>> three = Schema(3, None, np.array(["no", "yes"]), {})
    >>> four = Schema(4, None, np.array(["no", "yes"]), {})
    >>> agreed, refused = agree({"north": three, "south": four, "west": three}, {})
    >>> agreed.n_features, refused
    (3, {'south': 'has 4 features, the others 3'})
    """
    refused = {}
    for name, schema in schemas.items():
        differing = sorted(
            key for key in {*parameters, *schema.parameters} if parameters.get(key) != schema.parameters.get(key)
        )
        if differing:
            refused[name] = f"computes with other settings than the server: {', '.join(differing)}"
    left = {name: schema for name, schema in sorted(schemas.items()) if name not in refused}
    reference = _most_common(left.values())
    for name, schema in left.items():
        reason = _columns_differ(schema, reference) or _labels_differ(schema, reference, classes)
        if reason:
            refused[name] = reason
    accepted = [schema for name, schema in left.items() if name not in refused]
    if classes is None and accepted and accepted[0].classes is not None:
        classes = np.unique(np.concatenate([schema.classes for schema in accepted]))
    if reference is None:
        return Schema(0, None, classes, parameters), refused
    return Schema(reference.n_features, reference.feature_names, classes, parameters), refused


def _most_common(schemas) -> Any:
    schemas = list(schemas)
    if not schemas:
        return None
    keys = [(s.n_features, s.feature_names, _kind(s.classes)) for s in schemas]
    return schemas[keys.index(Counter(keys).most_common(1)[0][0])]


def _kind(classes):
    """What labels may be mixed: text, numbers, or something else of one type."""
    if classes is None:
        return None
    return {"U": "text", "T": "text", "S": "bytes"}.get(classes.dtype.kind, "numbers")


def _columns_differ(schema, reference):
    if schema.n_features != reference.n_features:
        return f"has {schema.n_features} features, the others {reference.n_features}"
    if schema.feature_names != reference.feature_names:
        return "has other feature names, or in another order, than the others"
    return None


def _labels_differ(schema, reference, classes):
    if _kind(schema.classes) != _kind(reference.classes if classes is None else classes):
        return "has labels of another type than the others"
    if classes is not None and not np.isin(schema.classes, classes).all():
        return "has labels outside the public classes"
    return None
