"""Networks of PyTorch as models of the divergence classifiers (extra ``torch``), with per-record gradients.

    DROSpiderClassifier(epsilon=5.0, network=Network(resnet20, input_shape=(1, 32, 32)), ...)

`Network` makes a model of `skdro.losses.models` out of any module whose records do not depend on each other;
`resnet20` is the reference case.  A fitted estimator that holds a network needs PyTorch to be unpickled.
"""

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ImportError('skdro.torch needs PyTorch, an optional extra: pip install "skdro[torch]".')

from .network import Network
from .resnet import ResNet20, resnet20

__all__ = ["Network", "ResNet20", "resnet20"]
