"""The picture of a module's attributes: what changes it, and what does not."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from skdro.torch.memory import attributes  # noqa: E402


class Thing:
    """An object with attributes, one of which leads back to it."""

    def __init__(self):
        self.itself, self.rows = self, []


def module_with(value):
    module = nn.Sequential(nn.Linear(2, 2))
    module[0].kept = value
    return module


CHANGES = {
    "number": (1.0, lambda layer: setattr(layer, "kept", 2.0)),
    "tensor": (torch.zeros(3), lambda layer: layer.kept.add_(1.0)),
    "tensor of another type": (torch.zeros(3, dtype=torch.bfloat16), lambda layer: layer.kept.data.add_(1.0)),
    "tensor of no dimension": (torch.tensor(1), lambda layer: layer.kept.add_(1)),
    "tensor put in place of another": (torch.zeros(3), lambda layer: setattr(layer, "kept", torch.zeros(3))),
    "array": (np.zeros(3), lambda layer: layer.kept.__setitem__(0, 1.0)),
    "bytes": (bytearray(3), lambda layer: layer.kept.__setitem__(0, 1)),
    "list": ([], lambda layer: layer.kept.append(None)),
    "set": (set(), lambda layer: layer.kept.add(1)),
    "dict": ({"row": None}, lambda layer: layer.kept.update(row=torch.zeros(1))),
    "tensor in a tuple": ((torch.zeros(2), 1), lambda layer: layer.kept[0].add_(1.0)),
    "object": (Thing(), lambda layer: layer.kept.rows.append(1)),
    "gone": (1, lambda layer: delattr(layer, "kept")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_changes_the_picture_of_its_attribute_only(change):
    value, act = CHANGES[change]
    module = module_with(value)
    before = attributes(module)
    assert attributes(module) == before
    act(module[0])
    after = attributes(module)
    assert {key for key in {*before, *after} if before.get(key) != after.get(key)} == {("0", "kept")}


@pytest.mark.parametrize(
    "value", [float("nan"), torch.tensor([float("nan")]), np.array([np.nan]), {"a": np.nan}, Thing()]
)
def test_what_stays_is_equal_even_if_it_is_no_number(value):
    module = module_with(value)
    assert attributes(module) == attributes(module)


def test_a_shape_may_be_made_anew():
    module = module_with(torch.zeros(2, 3).shape)
    before = attributes(module)
    module[0].kept = torch.ones(2, 3).shape
    assert attributes(module) == before
