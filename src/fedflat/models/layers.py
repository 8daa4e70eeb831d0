"""Layers that several networks for images are made of: a convolution with its norm and its
non-linearity."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn.functional import pad

from fedflat.errors import SettingError


def norm(channels: int, kind: str, groups: int) -> nn.Module:
    """BatchNorm (``"batch"``), or GroupNorm of ``groups`` groups (``"group"``)."""
    return nn.BatchNorm2d(channels) if kind == "batch" else nn.GroupNorm(groups, channels)


class ConvNorm(nn.Sequential):
    """A convolution without bias that keeps the size but for its stride, a norm, and perhaps a
    non-linearity."""

    def __init__(
        self,
        before: int,
        after: int,
        size: int,
        kind: str,
        groups: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        fans: int = 1,
        relu: type[nn.Module] | None = nn.ReLU,
        called: str = "norm",
    ) -> None:
        around = dilation * (size // 2)
        conv = nn.Conv2d(before, after, size, stride, around, dilation, fans, bias=False)
        nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            [("conv", conv), (called, norm(after, kind, groups))]
        )
        if relu is not None:
            layers["relu"] = relu()
        super().__init__(layers)


def pointwise(before: int, after: int) -> nn.Conv2d:
    """A 1x1 convolution with bias, which starts at 0: a score for each class at each place."""
    conv = nn.Conv2d(before, after, 1)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    assert conv.bias is not None
    nn.init.zeros_(conv.bias)
    return conv


def widened(channels: int, factor: float) -> int:
    """Channels times a factor, as the nearest multiple of 8 that is not more than a tenth smaller.

    >>> widened(32, 0.5), widened(24, 0.35), widened(16, 1.0)
    (16, 8, 16)
    """
    wanted = channels * factor
    found = max(8, int(wanted + 4) // 8 * 8)
    return found if found >= 0.9 * wanted else found + 8


def whole(x: Tensor, multiple: int) -> Tensor:
    """Images with zeros to the right and below, so that their sides are multiples of
    ``multiple``."""
    below, right = (-side % multiple for side in x.shape[-2:])
    return pad(x, (0, right, 0, below)) if below or right else x


def check_groups(owner: str, groups: int) -> None:
    """Refuse groups that do not divide 8, of which all widths are multiples."""
    if groups not in (1, 2, 4, 8):
        raise SettingError(
            f"{owner}: groups must be 1, 2, 4 or 8, which divide all layers' widths, found {groups!r}."
        )
