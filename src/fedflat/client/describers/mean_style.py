"""LADD's style: the mean amplitudes of the lowest frequencies of a client's images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.instructions import Describer
from fedflat.client.learner import Learner
from fedflat.client.training import ClientWork
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.data.styles import amplitudes, resized
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register

CHUNK = 16
"""Number of images in a batch."""


@register("describer", "mean_style")
@dataclass(frozen=True, repr=False)
class MeanStyle(Describer):
    """The mean over a client's images of the amplitudes of their lowest frequencies, as in LADD.

    half
        Frequencies from ``-half`` to ``half`` in both directions: 1 gives 3 x 3 numbers per
        channel.
    size
        Height and width to resize images to, such as [512, 1024]; None leaves them as they are.
    """

    reveals = (
        "the server learns the mean amplitudes of the lowest frequencies of every client's images: "
        "their brightness, colours and light, and no image"
    )

    half: int = 1
    size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        number("mean_style", "half", self.half, low=0, whole=True)
        if self.size is not None:
            if not isinstance(self.size, list | tuple) or len(self.size) != 2:
                raise SettingError(
                    "mean_style: size must be height and width, as [512, 1024], found "
                    f"{self.size!r}."
                )
            for side in self.size:
                number("mean_style", "each side", side, low=1, high=1 << 16, whole=True)
            object.__setattr__(self, "size", tuple(self.size))

    def check(self, fed: Federation, learner: Learner, public: ClientData | None) -> None:
        """Refuse inputs that are not images, and images that are too small."""
        if len(fed.test.examples.shape) != 3:
            raise SettingError(
                "mean_style: a style needs images, found inputs of shape "
                f"{fed.test.examples.shape}. Use data with images."
            )
        self.each(fed.test, torch.arange(1))

    def describe(self, client: ClientWork) -> Tensor:
        """Return the mean of its images' styles."""
        return self.each(client.data, torch.arange(len(client.data))).mean(0)

    def each(self, data: ClientData, indices: Tensor) -> Tensor:
        """Return the styles ``(N, channels, 2 half + 1, 2 half + 1)`` of some images."""
        found = []
        for some in indices.split(CHUNK):
            raw = data.examples.raw(data.index.index_select(0, some.to(data.index.device))).inputs
            levels = raw.double() if raw.dtype == torch.uint8 else raw.double() * 255
            found.append(amplitudes(resized(levels, self.size), (self.half, self.half)).cpu())
        return torch.cat(found)
