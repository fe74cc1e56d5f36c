"""`Network`: which module the divergence classifiers train, and how its records are passed through it."""

from collections.abc import Callable
from math import prod
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator
from torch import nn

from ..losses.models import n_outputs
from .checks import check_layers, check_passes
from .model import ModuleModel, seeded_module
from .records import Passes

__all__ = ["Network"]

TEMPLATE_SEED = 0


class Network(BaseEstimator):
    """A PyTorch module as the model of a divergence classifier, with per-record gradients by ``torch.func``.

    In a private fit the gradient of every record is clipped on its own, whatever the module is: records enter it one
    by one.  Modules that mean to mix records (BatchNorm), to remember them, or to draw random numbers (Dropout) are
    refused; use GroupNorm.  What a module raises on a record is replaced by one fixed text, but **that a fit fails is
    one bit about the records** all the same: the module must take every record within the public bounds, and it is
    tried at their ends before a private fit.  There is no private pre-training: a fit starts where the factory does.

    Parameters
    ----------
    module : callable
        Factory: from ``input_shape`` and the number of outputs to an ``nn.Module`` that maps an array of shape
        (1, *input_shape) to one of (1, n_outputs).  One output for two classes (the score of the second against
        zero), otherwise one each.  A function or class at the top of a module, so that estimators can be pickled.
        Random starts are seeded from the estimator's `init_seed`; weights that the factory loads must be **public**.
    input_shape : tuple of int, default=None
        Shape of one record, such as (1, 32, 32) for images; rows of `X` are reshaped to it.  None: (n_features,).
    micro_batch : int, default=64
        Records whose gradients are formed at a time; public.  Memory grows with it, results do not depend on it but
        for rounding.
    n_threads : int, default=1
        Threads of PyTorch; sums may differ in the last digits from number to number.

    Notes
    -----
    Memory is that of about ``3 * micro_batch * n_parameters`` numbers, and of the activations of a micro-batch.
    Losses, norms, clips and sums are in float64 whatever the module computes in; a float32 module is faster than
    a float64 one.
    Ridge (`reg`) falls on parameters of two or more dimensions: neither on biases nor on the scales of a norm.
    Everything runs on the processor; there is no support for accelerators yet.

    Examples
    --------
    >>> from torch import nn
    >>> from sklearn.datasets import load_iris
    >>> from skdro import DROSpiderClassifier
    >>> from skdro.torch import Network
    >>> def perceptron(input_shape, n_outputs):
    ...     return nn.Sequential(nn.Linear(*input_shape, 8), nn.Tanh(), nn.Linear(8, n_outputs))
    >>> X, y = load_iris(return_X_y=True)
    >>> private = DROSpiderClassifier(
    ...     epsilon=8.0, delta=1e-4, classes=[0, 1, 2], feature_bounds=([4, 2, 1, 0], [8, 4.5, 7, 2.5]),
    ...     network=Network(perceptron), data_norm=2.0, aggregation="trusted").fit(X, y)
    >>> private.predict(X).shape, round(private.privacy_.epsilon, 6)
    ((150,), 8.0)
    """

    def __init__(
        self,
        module: Callable[[tuple[int, ...], int], nn.Module],
        input_shape: tuple[int, ...] | None = None,
        *,
        micro_batch: int = 64,
        n_threads: int = 1,
    ):
        self.module = module
        self.input_shape = input_shape
        self.micro_batch = micro_batch
        self.n_threads = n_threads

    def build(self, n_classes: int, n_features: int, extremes: np.ndarray | None = None) -> ModuleModel:
        """The model for this many classes and features.

        Parameters
        ----------
        n_classes, n_features : int
        extremes : ndarray of shape (n_rows, n_features), optional
            Public rows at the ends of what a private record can be, which the module must take as well.

        Returns
        -------
        ModuleModel

        Raises
        ------
        ValueError
            A parameter is invalid, or the module cannot be trained record by record.
        TypeError
            The factory does not return a module.

        Notes
        -----
        The factory is called twice, and must make a new module each time: one that it kept could keep records.
        """
        shape, outputs = self._shape(n_features), n_outputs(n_classes)
        for name in ("micro_batch", "n_threads"):
            if not isinstance(getattr(self, name), Integral) or getattr(self, name) < 1:
                raise ValueError(f"{name} of Network must be an int of at least 1; got {getattr(self, name)!r}.")
        if isinstance(self.module, nn.Module) or not callable(self.module):
            raise TypeError(
                "module of Network must be a factory: a callable from input_shape and the number of outputs to an "
                f"nn.Module; got {type(self.module).__name__}."
            )
        module = seeded_module(self.module, shape, outputs, TEMPLATE_SEED)
        if not isinstance(module, nn.Module):
            raise TypeError(f"module of Network must return an nn.Module; it returned {type(module).__name__}.")
        if seeded_module(self.module, shape, outputs, TEMPLATE_SEED) is module:
            raise ValueError(
                "module of Network must be a factory that makes a new module at each call; it returned the same one "
                "twice, which would last longer than the fit. Construct the module inside the factory."
            )
        passes = Passes(module, shape, int(self.micro_batch), int(self.n_threads))
        check_layers(module)
        check_passes(passes, outputs, extremes)
        return ModuleModel(self.module, passes, outputs, n_features)

    def _shape(self, n_features):
        shape = (n_features,) if self.input_shape is None else tuple(self.input_shape)
        if any(not isinstance(side, Integral) or side < 1 for side in shape):
            raise ValueError(f"input_shape of Network must hold positive ints; got {self.input_shape!r}.")
        if prod(shape) != n_features:
            raise ValueError(
                f"input_shape={shape} of Network holds {prod(shape)} numbers, but X has {n_features} features."
            )
        return shape
