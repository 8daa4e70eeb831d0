"""Place images in files, and federations of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedflat.data.domains import Domain, Domains
from fedflat.data.federation import PartitionedFederation
from fedflat.data.files.pictures import Picture
from fedflat.data.on_disk import OnDisk
from fedflat.data.places.targets import with_role

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's colours, which published weights expect."""
CITY_APART = 100_000.0
"""Metres between the origins of cities, to the east: a query finds no image of another city."""


@dataclass(frozen=True)
class PlaceImage:
    """One image: its file, its position in metres, its role and its domain."""

    path: str
    where: tuple[float, float]
    role: int
    domain: Domain


def place_images(
    images: Sequence[PlaceImage],
    facets: tuple[str, ...],
    size: tuple[int, int],
    max_pixels: int,
) -> OnDisk:
    """Images as examples; all are resized to one height and width, whatever their shape."""
    where = torch.tensor([image.where for image in images], dtype=torch.float64).view(-1, 2)
    roles = torch.tensor([image.role for image in images], dtype=torch.float64)
    targets = with_role(where, 0)
    targets[:, 2] = roles
    return OnDisk(
        [image.path for image in images],
        Picture(3, size, max_pixels),
        targets,
        mean=MEAN,
        std=STD,
        domains=Domains(facets, tuple(image.domain for image in images)),
    )


@dataclass(frozen=True)
class PlaceFederation(PartitionedFederation):
    """Clients that hold images of places, query and database."""

    sequences: Sequence[int] = ()
    """The number of sequences of each client; empty if the data have none."""
    set_aside: Sequence[tuple[int, int]] = ()
    """Sequences and images of each client that is set aside for validation."""
    left_out: str = ""
    """What no client has; empty if nothing is left out."""

    def images_per_client(self) -> list[int]:
        """The number of images of each client, also of those set aside for validation."""
        return [*self.sizes(), *(count for _, count in self.set_aside)]

    def details(self) -> list[str]:
        """Lines for ``fedflat data show``: sizes of clients, as in Table 6.5 of the thesis."""
        sequences = [*self.sequences, *(one for one, _ in self.set_aside)]
        images = self.images_per_client()
        lines = [f"clients: {len(images)}"]
        if self.set_aside:
            lines[0] += f", of which {len(self.set_aside)} are set aside for validation"
        if sequences:
            lines.append(f"sequences per client: {mean_and_std(sequences)}")
        lines.append(f"images per client: {mean_and_std(images)}")
        return [*lines, self.left_out] if self.left_out else lines


def mean_and_std(values: Sequence[int]) -> str:
    """The mean and the standard deviation of all.

    >>> mean_and_std([7, 8])
    '7.5 ± 0.5'
    """
    return f"{np.mean(values):.1f} ± {np.std(values):.1f}"
