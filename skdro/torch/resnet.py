"""ResNet-20 for small images with GroupNorm: no layer looks at two records.

Three stages of three blocks with 16, 32 and 64 channels; a shortcut that changes its shape is subsampled and padded
with zeros, so that it has no parameters (He et al. 2016, section 4.2, option A).  BatchNorm, which normalises a
record by the others of its batch, is replaced by GroupNorm (Wu and He 2018) with eight groups.
"""

import torch
from torch import nn
from torch.nn import functional

__all__ = ["ResNet20", "resnet20"]

GROUPS = 8
CHANNELS = (16, 32, 64)
BLOCKS = 3


def _conv(n_in, n_out, stride=1):
    return nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False)


class _Block(nn.Module):
    """Two convolutions beside a shortcut without parameters."""

    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.stride, self.added = stride, n_out - n_in
        self.body = nn.Sequential(
            _conv(n_in, n_out, stride),
            nn.GroupNorm(GROUPS, n_out),
            nn.ReLU(),
            _conv(n_out, n_out),
            nn.GroupNorm(GROUPS, n_out),
        )

    def forward(self, x):
        before = self.added // 2
        shortcut = x[:, :, :: self.stride, :: self.stride]
        shortcut = functional.pad(shortcut, (0, 0, 0, 0, before, self.added - before))
        return torch.relu(self.body(x) + shortcut)


class ResNet20(nn.Module):
    """ResNet-20 with GroupNorm: about 270 thousand parameters.

    Parameters
    ----------
    n_channels : int
        Of the images.
    n_outputs : int

    Examples
    --------
    >>> import torch
    >>> ResNet20(3, 10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(self, n_channels: int, n_outputs: int):
        super().__init__()
        layers, n_in = [_conv(n_channels, CHANNELS[0]), nn.GroupNorm(GROUPS, CHANNELS[0]), nn.ReLU()], CHANNELS[0]
        for n_out in CHANNELS:
            for k in range(BLOCKS):
                # each stage but the first begins by halving the image
                layers.append(_Block(n_in, n_out, 2 if k == 0 and n_out > CHANNELS[0] else 1))
                n_in = n_out
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(n_in, n_outputs)

    def forward(self, images):
        """Outputs of shape (n_images, n_outputs) for images of shape (n_images, n_channels, height, width)."""
        return self.head(self.body(images))


def resnet20(input_shape: tuple[int, ...], n_outputs: int) -> ResNet20:
    """ResNet-20 as `Network` calls it.

    Parameters
    ----------
    input_shape : tuple of int
        (n_channels, height, width) of an image, such as (1, 32, 32).
    n_outputs : int

    Returns
    -------
    ResNet20

    Examples
    --------
    >>> sum(parameter.numel() for parameter in resnet20((3, 32, 32), 10).parameters())
    269722
    """
    return ResNet20(input_shape[0], n_outputs)
