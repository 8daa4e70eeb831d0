"""Targets of place recognition: where an image is from, and whether it is a query.

floats (N, 2)      metres east and north; every image is a query and in the database
floats (N, 3)      the same and the role: 0 for a query, 1 for the database
integers (N,)      the number of the place; every image is both
integers (N, 2)    the number of the place and the role
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedflat.data.domains import Domain, Domains
from fedflat.data.federation import PartitionedFederation
from fedflat.data.files.pictures import Picture
from fedflat.data.on_disk import OnDisk
from fedflat.errors import SettingError

QUERY, DATABASE = 0, 1
ROLES = ("query", "database")
SAME_NUMBER = 0.25
"""Radius that stands for "the same number" where places are numbers."""


@dataclass(frozen=True)
class Places:
    """Positions and roles of some examples, made from their targets.

    >>> found = Places.of(torch.tensor([[0.0, 0.0, 0], [3.0, 4.0, 1], [60.0, 0.0, 1]]))
    >>> found.queries.tolist(), found.database.tolist()
    ([0], [1, 2])
    >>> [hits.tolist() for hits in found.database_within(found.queries, 10)]
    [[1]]
    """

    where: Tensor
    """Metres east and north, doubles ``(N, 2)``; for numbers of places, the number and 0."""
    roles: Tensor | None
    """`QUERY` or `DATABASE` for each example; None: every example is both."""
    numbered: bool
    """True if places are numbers, so that distances have no meaning."""

    @classmethod
    def of(cls, targets: Tensor) -> Places:
        """The places that these targets describe; an error if they describe none."""
        if not isinstance(targets, Tensor) or not _fits(targets):
            found = tuple(targets.shape) if isinstance(targets, Tensor) else "several tensors"
            raise SettingError(
                "retrieval needs the place of every example: metres east and north, floats of "
                "shape (N, 2), or a number, integers of shape (N,); a further column may hold the "
                f"role, 0 for a query and 1 for the database. Found {found}. Use a set of places, "
                "such as street(targets='place'), msls() or berlin()."
            )
        numbered = not targets.is_floating_point()
        table = targets.view(len(targets), -1).double()
        width = 1 if numbered else 2
        where = torch.nn.functional.pad(table[:, :1], (0, 1)) if numbered else table[:, :2]
        roles = table[:, width].long() if table.shape[1] > width else None
        return cls(where, roles, numbered)

    def __len__(self) -> int:
        return self.where.shape[0]

    def check(self, whose: str) -> None:
        """Refuse examples without a position, and roles that are neither query nor database."""
        unknown = int((~self.where.isfinite()).any(1).sum())
        if unknown:
            raise SettingError(
                f"retrieval: {unknown} of the {len(self)} examples of {whose} have no position "
                "(GPS). Leave them out of the data, or use numbers of places."
            )
        if self.roles is not None and not bool(((self.roles == 0) | (self.roles == 1)).all()):
            raise SettingError(
                f"retrieval: the role of an example is 0 (query) or 1 (database), and {whose} "
                f"have others, such as {int(self.roles.max())}."
            )

    @property
    def queries(self) -> Tensor:
        return self._all if self.roles is None else (self.roles == QUERY).nonzero().squeeze(1)

    @property
    def database(self) -> Tensor:
        return self._all if self.roles is None else (self.roles == DATABASE).nonzero().squeeze(1)

    @property
    def _all(self) -> Tensor:
        return torch.arange(len(self), device=self.where.device)

    def radius(self, metres: float) -> float:
        """The radius to use for a number of metres."""
        return SAME_NUMBER if self.numbered else metres

    def database_within(self, queries: Tensor, metres: float) -> list[np.ndarray]:
        """For each query, the positions in the list of the database images within that distance.

        A query that is in the database itself does not find itself.
        """
        from scipy.spatial import cKDTree  # type: ignore[import-untyped]

        database = self.database.cpu().numpy()
        if len(database) == 0 or len(queries) == 0:
            return [np.empty(0, dtype=np.int64) for _ in queries]
        where = self.where.cpu().numpy()
        tree = cKDTree(where[database])
        chosen = queries.cpu().numpy()
        found = tree.query_ball_point(where[chosen], self.radius(metres), return_sorted=True)
        hits = [database[np.asarray(one, dtype=np.int64)] for one in found]
        if self.roles is None:
            return [one[one != own] for one, own in zip(hits, chosen, strict=True)]
        return hits

    def usable_queries(self, within: float, beyond: float) -> Tensor:
        """Queries with a positive and a negative: positions in the list, in ascending order.

        A positive is a database image ``within`` that many metres, a negative one further than
        ``beyond``.
        """
        queries = self.queries
        database = len(self.database) - (self.roles is None)
        near = [len(hits) for hits in self.database_within(queries, within)]
        close = [len(hits) for hits in self.database_within(queries, beyond)]
        usable = torch.tensor([p > 0 and c < database for p, c in zip(near, close, strict=True)])
        return queries[usable.to(queries.device)] if len(queries) else queries


def _fits(targets: Tensor) -> bool:
    if targets.is_floating_point():
        return targets.dim() == 2 and targets.shape[1] in (2, 3)
    return targets.dim() == 1 or (targets.dim() == 2 and targets.shape[1] == 2)


def with_role(where: Tensor, role: int) -> Tensor:
    """Targets of images at these positions that all have one role.

    >>> with_role(torch.tensor([[5.0, 7.0]]), DATABASE).tolist()
    [[5.0, 7.0, 1.0]]
    """
    return torch.cat([where, torch.full((len(where), 1), float(role), dtype=where.dtype)], dim=1)


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
