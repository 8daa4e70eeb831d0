"""What a client's images look like, one row for each: FedDrive's banks of styles are made of them.

    spectra(share)    amplitudes of low frequencies of each channel; CFSI's
    colours()         means and spreads of the colours, in LAB; LAB's

The first number of a row is that of the image's domain, or of the client where no domain is known.
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
from fedflat.data.styles.colours import colour_style
from fedflat.data.styles.frequencies import amplitudes, halves
from fedflat.errors import SettingError
from fedflat.registry.specs import register

AT_ONCE = 16
"""Images that are looked at together."""


class Looks(Describer):
    """A row of numbers for each image that a client trains on, its domain first."""

    channels = 0
    """How many channels images must have; 0: any number."""

    def check(self, fed: Federation, learner: Learner, public: ClientData | None) -> None:
        """Refuse what is no picture of bytes."""
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
                f"{self}: styles are those of pictures{colours} in bytes, from 0 to 255, and these data have {kind}. "
                "Use driving scenes, such as street()."
            )

    def describe(self, client: ClientWork) -> Tensor:
        """A row for each image."""
        data = client.data
        looks = own_looks(data, client.request.client)
        parts = [
            self.rows(data.examples.raw(places).inputs.cpu())
            for places in data.index.split(AT_ONCE)
        ]
        return torch.cat([looks.unsqueeze(1), torch.cat(parts).float()], dim=1)

    @abstractmethod
    def rows(self, images: Tensor) -> Tensor:
        """The styles of some images, a row for each."""


@register("describer", "spectra")
@dataclass(frozen=True, repr=False)
class Spectra(Looks):
    """Amplitudes of low frequencies, up to a ``share`` of the height and the width, of each channel
    of each image."""

    share: float = 0.05

    reveals = (
        "the server and every client learn of each training image of everybody how strong its low frequencies are, not "
        "where they stand in it, and a number for its domain"
    )

    def rows(self, images: Tensor) -> Tensor:
        """One half of each window, for the other half mirrors it."""
        windows = amplitudes(
            images.double(), halves(images.shape[-2], images.shape[-1], self.share)
        ).flatten(2)
        return windows[..., : windows.shape[-1] // 2 + 1].flatten(1)


@register("describer", "colours")
@dataclass(frozen=True, repr=False)
class Colours(Looks):
    """Mean and spread of the three colours of each image, in LAB."""

    channels = 3
    reveals = (
        "the server and every client learn of each training image of everybody the mean and the spread of its colours, "
        "and a number for its domain"
    )

    def rows(self, images: Tensor) -> Tensor:
        """Three means and three spreads."""
        return torch.cat(colour_style(images), dim=1)


def own_looks(data: ClientData, client: int) -> Tensor:
    """A number for each of a client's images: that of its domain, or the client's own."""
    domains = data.domains
    return torch.tensor(domains.looks if domains else [client] * len(data), dtype=torch.float32)


def windows_of(rows: Tensor, channels: int, half: tuple[int, int]) -> Tensor:
    """The windows ``(N, channels, 2r+1, 2c+1)`` that `Spectra` has sent one half of."""
    halved = rows.view(len(rows), channels, -1)
    whole = torch.cat([halved, halved[..., :-1].flip(-1)], dim=-1)
    return whole.view(len(rows), channels, 2 * half[0] + 1, 2 * half[1] + 1)
