"""Sample images of clients, each above its mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedflat.data.palette import palette
from fedflat.plot_style import PAGE, plain


class MaskSample(NamedTuple):
    """An image of a client and its mask."""

    client: str
    image: Any
    """Height, width, channels."""
    mask: Any
    """The class of each pixel; 255 is ignored."""


def masks_height(samples: Sequence[MaskSample]) -> float:
    """The height of the samples in a page wide, in inches."""
    tall, wide = samples[0].mask.shape
    return float(0.6 + 2 * PAGE / len(samples) * tall / wide)


def draw_masks(part: Any, samples: Sequence[MaskSample], names: Sequence[str]) -> None:
    """Draw samples and a legend of the classes in them into a part of a figure.

    part
        A figure, or a part of one.
    samples
        One sample or more.
    names
        The names of the classes.
    """
    import numpy as np

    colors = palette(names, len(names))
    axes = part.subplots(2, len(samples), squeeze=False)
    for (top, bottom), sample in zip(axes.T, samples, strict=True):
        top.imshow(sample.image)
        top.set_title(plain(sample.client), fontsize=7)
        bottom.imshow(colors[sample.mask])
        top.set_axis_off()
        bottom.set_axis_off()
    there = np.unique(np.concatenate([sample.mask.ravel() for sample in samples]))
    keys = [
        axes[0, 0].scatter([], [], marker="s", color=colors[kind] / 255, label=plain(names[kind]))
        for kind in there[there < len(names)]
    ]
    part.legend(handles=keys, loc="outside lower left", ncols=10, handletextpad=0, columnspacing=1)
