"""What a module remembers: a picture of all attributes of all its layers, to be compared before and after a pass.

The picture holds names, identities and contents, as far as they can be seen from the module: containers, tensors,
arrays and the attributes of other objects, a few levels deep.  Globals, closures and files are out of its sight.
"""

from collections import deque
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["attributes"]

PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)
ORDERED = (list, tuple, deque, set, frozenset)
DEPTH = 6


class _Same:
    """One object: equal to itself alone, and kept alive so that no other takes its place in memory."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]  # the typing of object knows no other way


def attributes(module: nn.Module) -> dict[tuple[str, str], Any]:
    """Pictures of the attributes by name of the layer and of the attribute; equal if nothing has changed.

    Examples
    --------
    >>> module = nn.Linear(2, 2)
    >>> module.seen = []
    >>> before = attributes(module)
    >>> attributes(module) == before
    True
    >>> module.seen.append(1)
    >>> [name for name, picture in attributes(module).items() if picture != before[name]]
    [('', 'seen')]
    """
    pictured: set[int] = set()
    return {
        (layer_name, name): _picture(value, pictured, DEPTH)
        for layer_name, layer in module.named_modules()
        for name, value in vars(layer).items()
    }


def _picture(value, pictured, depth):
    if isinstance(value, PLAIN):
        return type(value), repr(value)
    # layers have their own pictures, and parameters are replaced in a pass
    if isinstance(value, nn.Module | nn.Parameter) or id(value) in pictured or depth == 0:
        return _Same(value)
    pictured.add(id(value))
    if isinstance(value, torch.Tensor):
        return _Same(value), tuple(value.shape), _digest_of_tensor(value)
    if isinstance(value, np.ndarray | bytearray):
        return _Same(value), _digest(bytes(value))
    if isinstance(value, Mapping):
        return _Same(value), [[_picture(part, pictured, depth - 1) for part in pair] for pair in value.items()]
    if isinstance(value, ORDERED):
        # a tuple of numbers, such as a shape, may be made anew
        who = None if isinstance(value, tuple) else _Same(value)
        return who, [_picture(its, pictured, depth - 1) for its in value]
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return _Same(value)
    return _Same(value), _picture(vars(value), pictured, depth - 1)


def _digest(content):
    return blake2b(content).digest()


def _digest_of_tensor(value):
    """Of the bytes; None for tensors that have none to show, which identity alone must tell apart."""
    try:
        return _digest(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    except RuntimeError:
        return None
