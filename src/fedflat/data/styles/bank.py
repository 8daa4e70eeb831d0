"""Whose style an image is given: a bank of styles, each from some domain, drawn from by a generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.errors import SettingError


@dataclass(frozen=True)
class StyleBank:
    """One style for each entry, of images of all clients, and the domain each image is from (such as a town)."""

    styles: tuple[Tensor, ...]
    """What a style is made of, such as amplitudes, or means and spreads; the first axis counts the entries."""
    domains: Sequence[object]

    def __post_init__(self) -> None:
        lengths = {len(part) for part in self.styles} | {len(self.domains)}
        if len(lengths) != 1 or 0 in lengths:
            raise SettingError(
                f"a bank of styles needs one style and one domain for each image, found {sorted(lengths)} of them."
            )

    def __len__(self) -> int:
        return len(self.domains)

    def draw(self, count: int, rng: torch.Generator, exclude: object = None) -> tuple[Tensor, ...]:
        """Styles of ``count`` entries, drawn with replacement from those of other domains than ``exclude``."""
        open_to = torch.tensor([i for i, domain in enumerate(self.domains) if exclude is None or domain != exclude])
        if len(open_to) == 0:
            raise SettingError(
                f"a bank of styles: all {len(self)} styles are of the domain {exclude!r} itself. Use clients of "
                "several domains, or let them draw from their own."
            )
        drawn = open_to[torch.randint(len(open_to), (count,), generator=rng)]
        return tuple(part.index_select(0, drawn) for part in self.styles)


def chosen(index: Tensor) -> Tensor:
    """Which of a client's images are given a style: every second one, always the same.

    >>> chosen(torch.arange(5)).tolist()
    [True, False, True, False, True]
    """
    return index % 2 == 0
