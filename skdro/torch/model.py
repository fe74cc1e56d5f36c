"""A module as a model of `skdro.losses.models`: parameters as one vector, passes over records, and clipped terms.

A term is formed, measured, clipped and added in one place and in float64.  What is added is what was measured, so
that its norm is at most the clip whatever precision the gradient was computed in, and however it was rounded there.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import nn

from ..losses.clipping import clip_coefficients
from ..losses.models import Records, all_scores
from .records import Passes, flat, norms, without_cause

__all__ = ["ModuleEvaluation", "ModuleModel", "ModuleTerms", "seeded_module"]

Factory = Callable[[tuple[int, ...], int], nn.Module]


def seeded_module(factory: Factory, input_shape: tuple[int, ...], n_outputs: int, seed: int) -> nn.Module:
    """A module whose random start is a function of `seed`; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return factory(input_shape, n_outputs)


@dataclass(frozen=True)
class ModuleModel:
    """Settings of a model whose outputs are those of a module.

    Parameters
    ----------
    factory : callable
        From the shape of a record and the number of outputs to a module.
    passes : Passes
    n_outputs : int
    n_features : int
        Columns that the module sees; a constant column behind them is left out, since modules have biases.
    """

    factory: Factory
    passes: Passes
    n_outputs: int
    n_features: int

    @cached_property
    def n_parameters(self) -> int:
        """Numbers in the trainable parameters."""
        return sum(value.numel() for value in self.passes.trainable().values())

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """The parameters that the factory gives a module, with its random numbers seeded from `rng`."""
        seed = int(rng.integers(2**63 - 1))
        module = seeded_module(self.factory, self.passes.input_shape, self.n_outputs, seed)
        return flat(value for value in module.parameters() if value.requires_grad)

    def scores(self, parameters: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Scores of all classes, shape (n_records, n_classes)."""
        named = self.passes.unflattened(parameters)
        return all_scores(without_cause(self.passes.outputs, named, X[:, : self.n_features]))

    def evaluate(self, parameters: np.ndarray, records: Records) -> "ModuleEvaluation":
        """One pass over the records."""
        named, X = self.passes.unflattened(parameters), records.X[:, : self.n_features]
        losses = without_cause(self.passes.losses, named, X, records.y)
        return ModuleEvaluation(self.passes, named, X, records.y, losses)

    def penalised(self) -> np.ndarray:
        """Weights of layers, which have two dimensions or more; neither biases nor the scales of a norm."""
        return np.concatenate([np.full(value.numel(), value.ndim > 1) for value in self.passes.trainable().values()])


@dataclass(frozen=True)
class ModuleEvaluation:
    """One pass over the records: losses, and gradients that are formed again whenever they are asked for."""

    passes: Passes
    parameters: dict[str, torch.Tensor]
    X: np.ndarray
    y: np.ndarray
    losses: np.ndarray

    def gradient_norms(self) -> np.ndarray:
        """l2 norm of each record's gradient, shape (n_records,)."""
        return np.concatenate([norms(gradients).numpy() for _, gradients in self.gradients()])

    def gradient_sum(self, coefficient: np.ndarray) -> np.ndarray:
        """Sum over records of ``coefficient[i]`` times the gradient of record i, shape (n_parameters,)."""
        return sum(
            without_cause(self.passes.loss_gradient, self.parameters, x, self.y[rows], coefficient[rows])
            for rows, x in self.passes.batches(self.X)
        )

    def clipped(self, weight: np.ndarray, clip_norm: float) -> "ModuleTerms":
        """Terms  clip(w_i g_i, C)."""
        return ModuleTerms(self, weight, clip_norm)

    def gradients(self) -> Iterator[tuple[slice, list[torch.Tensor]]]:
        """Gradients of the records of each micro-batch, with its rows."""
        for rows, x in self.passes.batches(self.X):
            yield rows, without_cause(self.passes.gradients, self.parameters, x, self.y[rows])


@dataclass(frozen=True)
class ModuleTerms:
    """Clipped gradients of a pass."""

    evaluation: ModuleEvaluation
    weight: np.ndarray
    clip_norm: float

    def total(self, rows: np.ndarray) -> np.ndarray:
        """Sum of  rows_i c_i,  shape (n_parameters,)."""
        return self._sum((rows[batch], terms) for batch, terms in self._terms())

    def change(self, old: "ModuleTerms", rows: np.ndarray, clip: float) -> np.ndarray:
        """Sum of  rows_i clip(c_i - c'_i),  shape (n_parameters,)."""
        return self._sum(
            (rows[batch] * clip_coefficients(np.ones(len(rows[batch])), norms(change).numpy(), clip), change)
            for batch, change in self._changes(old)
        )

    def _terms(self):
        """Terms of each micro-batch in float64, with its rows."""
        for batch, gradients in self.evaluation.gradients():
            coefficient = clip_coefficients(self.weight[batch], norms(gradients).numpy(), self.clip_norm)
            yield batch, [torch.from_numpy(coefficient)[:, None] * part for part in gradients]

    def _changes(self, old):
        """Terms less those of another pass, record by record."""
        for (batch, terms), (_, before) in zip(self._terms(), old._terms(), strict=True):
            yield batch, [new.sub_(its) for new, its in zip(terms, before, strict=True)]

    def _sum(self, weighted: Iterable[tuple[np.ndarray, list[torch.Tensor]]]) -> np.ndarray:
        total = np.zeros(sum(value.numel() for value in self.evaluation.parameters.values()))
        for share, parts in weighted:
            with self.evaluation.passes.threads():
                total += flat(torch.from_numpy(share) @ part for part in parts)
        return total
