"""Pieces that give a client's images the styles of other clients' images: FedDrive's CFSI and LAB.

Fantauzzo et al., FedDrive: Generalizing Federated Learning to Semantic Segmentation in Autonomous
Driving, IROS 2022.

Before round 0 every client adds the styles of its images to a bank, which all clients receive. In
training every second image of a client, always the same ones, gets a random style from the bank
before it is augmented.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from fedflat.client.describers.image_styles import Colours, Spectra, own_styles, windows_of
from fedflat.client.instructions import Describer, Descriptions
from fedflat.client.piece import ClientContext, Piece
from fedflat.core.stage import Stage
from fedflat.data.examples import ClientData
from fedflat.data.styles import StyleBank, chosen, halves, mix, recoloured
from fedflat.errors import SettingError, choice, number


@dataclass(frozen=True, repr=False)
class Restyle(Piece):
    """Gives every second image a style from the bank.

    It is from another domain unless ``exclude`` is "none".
    """

    _: KW_ONLY
    exclude: str = "domain"

    stage = Stage.BATCH

    def __post_init__(self) -> None:
        choice(self.key, "exclude", self.exclude, ["domain", "none"])

    @property
    @abstractmethod
    def describers(self) -> tuple[Describer, ...]:
        """What the bank consists of."""

    @abstractmethod
    def restyle(self, images: Tensor, styles: Tensor, rng: torch.Generator) -> Tensor:
        """Return the images in these styles."""

    def shared_with_clients(self, descriptions: Descriptions) -> Mapping[str, Tensor]:
        styles: Sequence[Tensor] = descriptions[self.describers[0]]
        if len({rows.shape[1] for rows in styles}) > 1:
            raise SettingError(
                f"{self}: clients have images of several sizes, but styles need one. Resize all "
                "images to one size."
            )
        bank = torch.cat(list(styles))
        if self.exclude == "domain":
            StyleBank(bank, bank[:, 0]).others(float(bank[0, 0]))
        return {"bank": bank}

    def data(self, v: ClientContext, data: ClientData) -> ClientData:
        """Return the data with new styles for every second image."""
        rows = v.shared["bank"].cpu()
        bank, looks, rng = StyleBank(rows[:, 1:], rows[:, 0]), own_styles(data, v.client), v.rng

        def change(images: Tensor, indices: Tensor) -> Tensor:
            mask = chosen(indices.cpu())
            if not mask.any():
                return images
            styles = bank.draw(looks[indices.cpu()[mask]], rng, own=self.exclude == "none")
            rows = mask.nonzero().squeeze(-1).to(images.device)
            restyled = self.restyle(images[rows].cpu(), styles, rng).to(images.device)
            return images.clone().index_copy_(0, rows, restyled)

        return data.changed(change)


@dataclass(frozen=True, repr=False)
class Cfsi(Restyle):
    """Moves amplitudes of low frequencies towards those of another image; phases do not change.

    share
        The window: frequencies up to this share of the height and the width.
    lam
        How far to move, from 0 to 1; if not given, a random number for each image.
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
        return (Spectra(self.share),)

    def restyle(self, images: Tensor, styles: Tensor, rng: torch.Generator) -> Tensor:
        """Return the images with mixed amplitudes (`fedflat.data.styles.mix`)."""
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
    """Replaces the mean and the standard deviation of each colour, in LAB, by another image's."""

    key = "lab"

    @property
    def describers(self) -> tuple[Describer, ...]:
        """The means and standard deviations."""
        return (Colours(),)

    def restyle(self, images: Tensor, styles: Tensor, rng: torch.Generator) -> Tensor:
        """Return the images with new colours (`fedflat.data.styles.recoloured`)."""
        mean, std = styles.double().split(3, dim=1)
        return recoloured(images, mean, std)
