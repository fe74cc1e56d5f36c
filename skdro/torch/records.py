"""Passes over records one by one: outputs, losses and gradients of a module, micro-batch by micro-batch.

Every record enters the module as a batch of one under ``torch.func.vmap``, so that no module can mix records: what
normalises or centres over the batch sees a batch of one.  The gradients of a micro-batch are formed and handed on,
and forgotten with it: memory is that of a few times ``micro_batch * n_parameters`` numbers.

Losses and norms are in float64 whatever the module computes in.  A gradient that is no number counts as zero, and so
does a score: both are functions of their own record, like everything else here.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

__all__ = ["MODULE_FAILED", "Passes", "flat", "norms", "without_cause"]

LARGEST = 1e75
"""Scores stay within this, as parameters do."""

MODULE_FAILED = (
    "module failed on a record. It must take every record within the public bounds (feature_bounds and data_norm). "
    "Nothing more is said here, since it would tell on the record; pass some of your own through it to see the cause."
)


@dataclass(frozen=True)
class Passes:
    """A module and how records are passed through it.

    Parameters
    ----------
    module : nn.Module
        Its trainable parameters are replaced by those passed in; the others, and its buffers, are constants.
    input_shape : tuple of int
        Of one record.
    micro_batch : int
    n_threads : int
    """

    module: nn.Module
    input_shape: tuple[int, ...]
    micro_batch: int
    n_threads: int

    def trainable(self) -> dict[str, nn.Parameter]:
        """Parameters by name, in the order of the flat vector."""
        return {name: value for name, value in self.module.named_parameters() if value.requires_grad}

    def unflattened(self, parameters: np.ndarray) -> dict[str, torch.Tensor]:
        """Parameters by name from a flat vector, in the module's own precision."""
        named = self.trainable()
        parts = torch.from_numpy(np.array(parameters, dtype=float)).split([like.numel() for like in named.values()])
        return {
            name: part.reshape(like.shape).to(like.dtype)
            for part, (name, like) in zip(parts, named.items(), strict=True)
        }

    def constants(self) -> dict[str, torch.Tensor]:
        """What is neither input nor trainable: copies, so that no call leaves a trace for the next."""
        frozen = {name: value for name, value in self.module.named_parameters() if not value.requires_grad}
        return {name: value.detach().clone() for name, value in (*frozen.items(), *self.module.named_buffers())}

    def output(self, parameters: dict, constants: dict, x: torch.Tensor) -> torch.Tensor:
        """Outputs for one record, shape (n_outputs,)."""
        out = functional_call(self.module, (parameters, constants), (x[None],))
        return torch.nan_to_num(out.reshape(-1).double(), nan=0.0, posinf=LARGEST, neginf=-LARGEST)

    def batches(self, X: np.ndarray) -> Iterator[tuple[slice, torch.Tensor]]:
        """Micro-batches in the order of the rows, each with its rows.

        Their composition depends on the number of rows alone: otherwise rounding might carry one record into the
        terms of another.
        """
        dtype = next(iter(self.trainable().values())).dtype
        for start in range(0, len(X), self.micro_batch):
            rows = slice(start, start + self.micro_batch)
            batch = torch.from_numpy(np.array(X[rows], dtype=float))
            yield rows, batch.to(dtype).reshape(-1, *self.input_shape)

    @contextmanager
    def threads(self):
        """Threads of PyTorch inside: sums must not depend on what the machine happens to allow."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.n_threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def outputs(self, parameters: dict, X: np.ndarray) -> np.ndarray:
        """Outputs of the module, shape (n_records, n_outputs)."""
        apart = vmap(self.output, in_dims=(None, None, 0))
        with self.threads(), torch.no_grad():
            return np.concatenate([apart(parameters, self.constants(), x).numpy() for _, x in self.batches(X)])

    def losses(self, parameters: dict, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Losses, shape (n_records,)."""
        with self.threads(), torch.no_grad():
            parts = [self._losses(parameters, x, y[rows]).numpy() for rows, x in self.batches(X)]
        return np.concatenate(parts)

    def loss_gradient(self, parameters: dict, x: torch.Tensor, y: np.ndarray, coefficient: np.ndarray) -> np.ndarray:
        """Gradient of a weighted sum of losses of one micro-batch: one pass back for all, and nothing clipped."""
        weights = torch.from_numpy(np.asarray(coefficient, dtype=float))
        with self.threads():
            total = grad(lambda named: weights @ self._losses(named, x, y))(parameters)
        return flat(total.values())

    def gradients(self, parameters: dict, x: torch.Tensor, y: np.ndarray) -> list[torch.Tensor]:
        """Gradients of the records of one micro-batch: for each parameter a matrix (n_records, size)."""
        with self.threads():
            formed = [part.detach().flatten(1) for part in self._apart(grad(self._loss), parameters, x, y).values()]
            fine = torch.isfinite(norms(formed))
            return formed if fine.all() else [torch.where(fine[:, None], part, 0.0) for part in formed]

    def _losses(self, parameters, x, y):
        return self._apart(self._loss, parameters, x, y)

    def _apart(self, function, parameters, x, y):
        labels = torch.from_numpy(np.asarray(y, dtype=np.int64))
        return vmap(function, in_dims=(None, None, 0, 0))(parameters, self.constants(), x, labels)

    def _loss(self, parameters, constants, x, label):
        outputs = self.output(parameters, constants, x)
        # a single output stands against a zero score
        scores = torch.cat([torch.zeros_like(outputs), outputs]) if len(outputs) == 1 else outputs
        return nn.functional.cross_entropy(scores[None], label[None])


def without_cause(function: Callable, *arguments):
    """function(*arguments), where whatever a module raises on a record gives way to one fixed text.

    That it failed at all is still one bit about the records: a module must be total within the public bounds.

    Raises
    ------
    ValueError
        `MODULE_FAILED`, with no cause and no context.
    """
    try:
        return function(*arguments)
    except Exception:
        pass
    # raised here and not where it failed, so that no cause hangs on it
    raise ValueError(MODULE_FAILED)


def norms(parts: list[torch.Tensor]) -> torch.Tensor:
    """l2 norm of each record whose numbers are spread over matrices (n_records, size), in float64."""
    return torch.stack([torch.linalg.vector_norm(part, dim=1, dtype=torch.float64) for part in parts]).norm(dim=0)


def flat(parts: Iterable[torch.Tensor]) -> np.ndarray:
    """Tensors as one float64 vector."""
    return torch.cat([part.detach().reshape(-1).double() for part in parts]).numpy()
