"""Styles of a client's images, one row per image. FedDrive's style banks consist of them.

    spectra(share)    amplitudes of the low frequencies of each channel, for CFSI
    colours()         means and standard deviations of the colours in LAB, for LAB

The first number of a row is that of the image's domain, or of the client if the domain is unknown.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.instructions import Describer
from fedflat.client.learner import Learner
from fedflat.client.training import ClientWork
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.data.styles import amplitudes, colour_style, halves
from fedflat.errors import SettingError
from fedflat.registry.specs import register

AT_ONCE = 16
"""Number of images in a batch."""


class ImageStyles(Describer):
    """A row of numbers for each training image, its domain first."""

    channels = 0
    """Number of channels that images must have; 0 for any number."""

    def check(self, fed: Federation, learner: Learner, public: ClientData | None) -> None:
        """Refuse inputs that are not images of bytes."""
        found = fed.test.examples.raw(torch.tensor([0], device=fed.test.index.device)).inputs
        pictures = isinstance(found, Tensor) and found.dim() == 4 and found.dtype == torch.uint8
        if not pictures or (self.channels and found.shape[1] != self.channels):
            kind = (
                f"{found.dtype}, shape {tuple(found.shape[1:])}"
                if isinstance(found, Tensor)
                else "several tensors"
            )
            colours = " of three colours" if self.channels else ""
            raise SettingError(
                f"{self}: styles need pictures{colours} in bytes, from 0 to 255, but these data "
                f"have {kind}. Use driving scenes, such as street()."
            )

    def describe(self, client: ClientWork) -> Tensor:
        data = client.data
        looks = own_styles(data, client.request.client)
        parts = [
            self.rows(data.examples.raw(indices).inputs.cpu())
            for indices in data.index.split(AT_ONCE)
        ]
        return torch.cat([looks.unsqueeze(1), torch.cat(parts).float()], dim=1)

    @abstractmethod
    def rows(self, images: Tensor) -> Tensor:
        """Return the styles of some images, a row for each."""


@register("describer", "spectra")
@dataclass(frozen=True, repr=False)
class Spectra(ImageStyles):
    """Amplitudes of the low frequencies of each channel.

    ``share`` limits them to a share of the height and the width.
    """

    share: float = 0.05

    reveals = (
        "the server and every client learn the amplitudes of the low frequencies of each training "
        "image, not their phases, and a number for its domain"
    )

    def rows(self, images: Tensor) -> Tensor:
        """Return one half of each window; the other half is its mirror image."""
        windows = amplitudes(
            images.double(), halves(images.shape[-2], images.shape[-1], self.share)
        ).flatten(2)
        return windows[..., : windows.shape[-1] // 2 + 1].flatten(1)


@register("describer", "colours")
@dataclass(frozen=True, repr=False)
class Colours(ImageStyles):
    """Mean and standard deviation of the three colours of each image, in LAB."""

    channels = 3
    reveals = (
        "the server and every client learn the mean and the standard deviation of the colours of "
        "each training image, and a number for its domain"
    )

    def rows(self, images: Tensor) -> Tensor:
        """Return three means and three standard deviations."""
        return torch.cat(colour_style(images), dim=1)


def own_styles(data: ClientData, client: int) -> Tensor:
    """Return a number for each of a client's images: that of its domain, or the client's own."""
    domains = data.domains
    return torch.tensor(domains.looks if domains else [client] * len(data), dtype=torch.float32)


def windows_of(rows: Tensor, channels: int, half: tuple[int, int]) -> Tensor:
    """Return the windows ``(N, channels, 2r+1, 2c+1)`` of which `Spectra` sends one half."""
    halved = rows.view(len(rows), channels, -1)
    whole = torch.cat([halved, halved[..., :-1].flip(-1)], dim=-1)
    return whole.view(len(rows), channels, 2 * half[0] + 1, 2 * half[1] + 1)
