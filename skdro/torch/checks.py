"""What a module must be for its records to be private: a deterministic function of one record, without memory.

``vmap`` keeps records apart whatever the module does.  Layers that would mix them, draw random numbers or remember
what they saw are refused all the same, by name and with the remedy: apart, they would compute something else than
their user means.
"""

import numpy as np
import torch
from torch import nn
from torch.func import vmap

from .memory import attributes
from .records import Passes

__all__ = ["check_layers", "check_passes"]

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
N_ROWS = 2


def _normalises_by_the_batch(layer):
    return isinstance(layer, BATCH_NORMS) and (layer.training or layer.running_mean is None)


def _remembers(layer):
    return isinstance(layer, INSTANCE_NORMS) and layer.training and layer.track_running_stats


def _drops(layer):
    return isinstance(layer, DROPOUTS) and layer.training and layer.p > 0


def _has_no_shape_yet(layer):
    return any(isinstance(value, nn.UninitializedParameter) for value in layer.parameters(recurse=False))


FAULTS = (
    (_has_no_shape_yet, "has no parameters yet. Give the number of its inputs, as in nn.Linear(784, 10)."),
    (
        _normalises_by_the_batch,
        "normalises a record by the others of its batch. Use nn.GroupNorm, which looks at one record only.",
    ),
    (_remembers, "keeps running statistics of the records. Use track_running_stats=False, or nn.GroupNorm."),
    (_drops, "drops units at random. Leave it out, or call eval() on it in the factory."),
)


def check_layers(module: nn.Module) -> None:
    """Refuse layers that mix, remember or randomise records.

    Parameters
    ----------
    module : nn.Module

    Raises
    ------
    ValueError
        Names the layer, its type, and the remedy.

    Examples
    --------
    >>> check_layers(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    Traceback (most recent call last):
    ...
    ValueError: module: layer '1' (BatchNorm1d) normalises a record by the others of its batch. Use nn.GroupNorm, ...
    """
    for name, layer in module.named_modules():
        for found, what in FAULTS:
            if found(layer):
                raise ValueError(f"module: layer {name!r} ({type(layer).__name__}) {what}")
    if not any(value.requires_grad for value in module.parameters()):
        raise ValueError("module has no parameters to train: none with requires_grad.")


def check_passes(passes: Passes, n_outputs: int, extremes: np.ndarray | None = None) -> None:
    """Pass public rows through a module, forward and back, and refuse what goes wrong.

    Random rows twice, and then the rows at the ends of what a record can be: a module that fails there would tell by
    failing that such a record is in the data.

    Parameters
    ----------
    passes : Passes
    n_outputs : int
        That the module is to have.
    extremes : ndarray of shape (n_rows, n_features), optional
        Public rows at the ends of the domain of a private fit.

    Raises
    ------
    ValueError
        The module fails, has another number of outputs, changes its buffers or its attributes, or answers differently
        the second time.
    """
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, size=(N_ROWS, int(np.prod(passes.input_shape))))
    parameters = {name: value.detach().clone() for name, value in passes.trainable().items()}
    constants, before = passes.constants(), attributes(passes.module)
    try:
        first, second = (_answers(passes, parameters, constants, rows) for _ in range(2))
    except Exception as error:
        raise ValueError(
            f"module must take records of shape {passes.input_shape} one by one under torch.func.vmap, without "
            f"random numbers, and be differentiable there. On public random records it failed: {error}"
        ) from error
    if first.shape[1] != n_outputs:
        raise ValueError(
            f"module must have {n_outputs} outputs for a record, as its factory was told; it has {first.shape[1]}."
        )
    if extremes is not None:
        _check_extremes(passes, parameters, constants, extremes)
    _check_memory(passes.module, before)
    changed = [name for name, value in passes.constants().items() if not torch.equal(value, constants[name])]
    if changed:
        raise ValueError(f"module changes its buffer {changed[0]!r} in a pass: records must leave no trace in it.")
    if not torch.equal(first, second):
        raise ValueError("module answers the same records differently from pass to pass: it must be deterministic.")


def _answers(passes, parameters, constants, rows):
    """Outputs for some rows, shape (n_rows, n_outputs), after a pass back as well."""
    answers = []
    for _, x in passes.batches(rows):
        answers.append(vmap(passes.output, in_dims=(None, None, 0))(parameters, constants, x))
        passes.gradients(parameters, x, np.zeros(len(x), dtype=int))
    return torch.cat(answers)


def _check_extremes(passes, parameters, constants, extremes):
    try:
        _answers(passes, parameters, constants, extremes)
    except Exception as error:
        raise ValueError(
            "module must take every record within the public bounds, or its failing would tell on a record. At their "
            f"ends (features up to {np.abs(extremes).max():g} in size) it failed: {error}. Clamp what it looks up, "
            "as in x.long().clamp(0, 9), or narrow feature_bounds or data_norm."
        ) from error


def _check_memory(module, before):
    after = attributes(module)
    changed = [key for key in (*before, *after) if key not in before or key not in after or before[key] != after[key]]
    if changed:
        layer, name = changed[0]
        raise ValueError(
            f"module: layer {layer!r} changes its attribute {name!r} in a pass: records must leave no trace in it. "
            "Keep what is computed from a record in local variables of forward."
        )
