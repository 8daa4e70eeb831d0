"""Pieces that give a client's images the styles of others': FedDrive's CFSI and LAB.

Fantauzzo et al., FedDrive: Generalizing Federated Learning to Semantic Segmentation in Autonomous
Driving, IROS 2022.

Before round 0 every client puts the styles of its images into a bank, which everybody is told. In
training every second image of a client, always the same ones, is given a style drawn from the bank
each time, before it is augmented.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from fedflat.client.describers.looks import Colours, Spectra, own_looks, windows_of
from fedflat.client.instructions import Describer, Descriptions
from fedflat.client.piece import ClientContext, Piece
from fedflat.core.stage import Stage
from fedflat.data.examples import ClientData
from fedflat.data.styles.bank import StyleBank, chosen
from fedflat.data.styles.colours import recoloured
from fedflat.data.styles.frequencies import halves, mix
from fedflat.errors import SettingError, choice, number


@dataclass(frozen=True, repr=False)
class Restyle(Piece):
    """Gives every second image a style from the bank, of another domain than its own unless
    ``exclude`` is "none"."""

    _: KW_ONLY
    exclude: str = "domain"

    stage = Stage.BATCH

    def __post_init__(self) -> None:
        choice(self.key, "exclude", self.exclude, ["domain", "none"])

    @property
    @abstractmethod
    def describers(self) -> tuple[Describer, ...]:
        """What the bank is made of."""

    @abstractmethod
    def restyle(self, images: Tensor, styles: Tensor, rng: torch.Generator) -> Tensor:
        """The images in these styles."""

    def shared_with_clients(self, descriptions: Descriptions) -> Mapping[str, Tensor]:
        """The whole bank."""
        said: Sequence[Tensor] = descriptions[self.describers[0]]
        if len({rows.shape[1] for rows in said}) > 1:
            raise SettingError(
                f"{self}: clients have images of several sizes, and styles need one. Give all one size."
            )
        bank = torch.cat(list(said))
        if self.exclude == "domain":
            StyleBank(bank, bank[:, 0]).others(float(bank[0, 0]))
        return {"bank": bank}

    def data(self, v: ClientContext, data: ClientData) -> ClientData:
        """The same data, every second image of which has a style of somebody else's."""
        told = v.shared["bank"].cpu()
        bank, looks, rng = StyleBank(told[:, 1:], told[:, 0]), own_looks(data, v.client), v.rng

        def change(images: Tensor, places: Tensor) -> Tensor:
            there = places.cpu()
            mine = chosen(there)
            if not mine.any():
                return images
            styles = bank.draw(looks[there[mine]], rng, own=self.exclude == "none")
            where, changed = mine.nonzero().squeeze(-1).to(images.device), images.clone()
            return changed.index_copy_(
                0, where, self.restyle(images[where].cpu(), styles, rng).to(images.device)
            )

        return data.changed(change)


@dataclass(frozen=True, repr=False)
class Cfsi(Restyle):
    """Amplitudes of low frequencies go a share ``lam`` of the way to another image's; phases stay.

    share
        The window: frequencies up to this share of the height and the width.
    lam
        How far; drawn from 0 to 1 for each image if nothing is said.
    """

    share: float = Spectra.share
    lam: float | None = None

    key = "cfsi"

    def __post_init__(self) -> None:
        super().__post_init__()
        number("cfsi", "share", self.share, low=0, high=0.5)
        if self.lam is not None:
            number("cfsi", "lam", self.lam, low=0, high=1)

    @property
    def describers(self) -> tuple[Describer, ...]:
        """Spectra."""
        return (Spectra(self.share),)

    def restyle(self, images: Tensor, styles: Tensor, rng: torch.Generator) -> Tensor:
        """See `fedflat.data.styles.frequencies.mix`."""
        channels, height, width = images.shape[1:]
        lam = torch.rand(len(images), generator=rng, dtype=torch.float64)
        lam = lam if self.lam is None else torch.full_like(lam, self.lam)
        return mix(
            images.double(),
            windows_of(styles, channels, halves(height, width, self.share)).double(),
            lam,
        )


@dataclass(frozen=True, repr=False)
class Lab(Restyle):
    """Mean and spread of each colour, in LAB, become another image's."""

    key = "lab"

    @property
    def describers(self) -> tuple[Describer, ...]:
        """Colours."""
        return (Colours(),)

    def restyle(self, images: Tensor, styles: Tensor, rng: torch.Generator) -> Tensor:
        """See `fedflat.data.styles.colours.recoloured`."""
        mean, std = styles.double().split(3, dim=1)
        return recoloured(images, mean, std)
