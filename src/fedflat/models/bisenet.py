"""BiSeNetV2: semantic segmentation with a detail branch and a semantic branch.

Yu et al., BiSeNet V2: Bilateral Network with Guided Aggregation for Real-time Semantic
Segmentation, IJCV 2021, arXiv:2004.02147, tables 1 and 2. The layers are in
`fedflat.models.bisenet_layers`.

In training the module gives five outputs, the main one first, then those of four auxiliary heads;
in evaluation, or without auxiliary heads, the main one alone. Images whose sides are no multiples
of 32 are padded with zeros to the right and below, and the scores are cut to the image.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from fedflat.errors import choice, flag, number
from fedflat.models.bisenet_layers import Aggregation, Head, detail, semantic_stages
from fedflat.models.inputs import image
from fedflat.models.layers import check_groups, pad_to_multiple, scale_width
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import register

STRIDE = 32


@dataclass(frozen=True, repr=False)
class BiSeNetV2(ModelSpec):
    """BiSeNetV2: class scores at every pixel, for images of 32x32 pixels or more.

    >>> sum(p.numel() for p in bisenetv2().build((3, 64, 64), 19).parameters())
    8196416
    """

    auxiliary: bool = True
    """Four auxiliary heads, which are trained too but not used in evaluation."""
    norm: str = "batch"
    """``"batch"`` or ``"group"``."""
    groups: int = 8
    """Groups of every GroupNorm; divides 8. BatchNorm ignores it."""
    width: float = 1.0
    """Factor of the channels of every layer; they are rounded to multiples of 8."""
    dropout: float = 0.1
    """Dropout rate of every head, in training."""

    def __post_init__(self) -> None:
        flag("bisenetv2", "auxiliary", self.auxiliary)
        choice("bisenetv2", "norm", self.norm, ["batch", "group"])
        check_groups("bisenetv2", self.groups)
        number("bisenetv2", "width", self.width, low=0, high=10, open_low=True)
        number("bisenetv2", "dropout", self.dropout, low=0, high=1)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, _, _ = image("bisenetv2", shape, classes, smallest=32)
        return Bilateral(self, channels, classes)


class Bilateral(nn.Module):
    """Both branches, their aggregation, and the heads."""

    head_layers = ("auxiliary", "head")

    def __init__(self, spec: BiSeNetV2, channels: int, classes: int) -> None:
        super().__init__()
        norm = (spec.norm, spec.groups)

        def wide(count: int) -> int:
            return scale_width(count, spec.width)

        self.detail = detail(channels, wide, *norm)
        self.semantic = semantic_stages(channels, wide, *norm)
        self.aggregation = Aggregation(wide(128), *norm)
        inside = wide(128)
        self.auxiliary = nn.ModuleList(
            Head(wide(count), inside, classes, up, spec.dropout, *norm)
            for count, up in zip((16, 32, 64, 128), (4, 8, 16, 32), strict=True)
            if spec.auxiliary
        )
        self.head = Head(
            inside, wide(1024), classes, 8, spec.dropout, *norm
        )  # the last layer is the classifier

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Scores at every pixel; in training with auxiliary heads, those of all five heads."""
        height, width = x.shape[-2:]
        x = pad_to_multiple(x, STRIDE)
        stages = []
        y = x
        for stage in self.semantic:
            y = stage(y)
            stages.append(y)
        main = self.head(self.aggregation(self.detail(x), y))
        outputs = [main]
        if self.training:
            outputs += [
                head(features) for head, features in zip(self.auxiliary, stages, strict=False)
            ]
        cut = tuple(scores[..., :height, :width] for scores in outputs)
        return cut if len(cut) > 1 else cut[0]


bisenetv2 = register("model", "bisenetv2")(BiSeNetV2)
