"""Layers that several image networks share: a convolution with its norm and non-linearity."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn.functional import pad

from fedflat.errors import SettingError


def norm(channels: int, kind: str, groups: int) -> nn.Module:
    """BatchNorm (``"batch"``), or GroupNorm with ``groups`` groups (``"group"``)."""
    return nn.BatchNorm2d(channels) if kind == "batch" else nn.GroupNorm(groups, channels)


class ConvNorm(nn.Sequential):
    """A padded convolution without bias, a norm, and a non-linearity unless ``relu`` is None."""

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
    """A 1x1 convolution with a bias that starts at 0: class scores at each position."""
    conv = nn.Conv2d(before, after, 1)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    assert conv.bias is not None
    nn.init.zeros_(conv.bias)
    return conv


def scale_width(channels: int, factor: float) -> int:
    """Channels times a factor, as the nearest multiple of 8 that is at most a tenth smaller.

    >>> scale_width(32, 0.5), scale_width(24, 0.35), scale_width(16, 1.0)
    (16, 8, 16)
    """
    exact = channels * factor
    rounded = max(8, int(exact + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * exact else rounded + 8


def pad_to_multiple(x: Tensor, multiple: int) -> Tensor:
    """Images padded with zeros to the right and below, to multiples of ``multiple`` pixels."""
    below, right = (-side % multiple for side in x.shape[-2:])
    return pad(x, (0, right, 0, below)) if below or right else x


def check_groups(owner: str, groups: int) -> None:
    """Refuse groups that do not divide 8; all widths are multiples of 8."""
    if groups not in (1, 2, 4, 8):
        raise SettingError(
            f"{owner}: groups must be 1, 2, 4 or 8, which divide all layers' widths, found "
            f"{groups!r}."
        )
