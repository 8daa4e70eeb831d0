"""Whose style an image is given: a bank of the styles of all clients' images, drawn from by a
generator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.errors import SettingError


@dataclass(frozen=True)
class StyleBank:
    """A style for each image of all clients, and a number that is the same for those that look
    alike (of one town)."""

    styles: Tensor
    """What a style is made of; the first axis counts the images."""
    looks: Tensor

    def __post_init__(self) -> None:
        if len(self.styles) != len(self.looks) or len(self.looks) == 0:
            raise SettingError(
                "a bank of styles needs one style and one domain for each image, found "
                f"{len(self.styles)} styles and {len(self.looks)} domains."
            )

    def __len__(self) -> int:
        return len(self.looks)

    def draw(self, looks: Tensor, rng: torch.Generator, *, own: bool = False) -> Tensor:
        """A style for each of some images with these looks, drawn with replacement from images that
        look otherwise, or with ``own`` from all of them."""
        drawn = []
        for look in looks.tolist():
            others = torch.arange(len(self)) if own else self.others(look)
            drawn.append(int(others[torch.randint(len(others), (1,), generator=rng)]))
        return self.styles.index_select(0, torch.tensor(drawn, dtype=torch.long))

    def others(self, look: float) -> Tensor:
        """The images that look otherwise."""
        found = (self.looks != look).nonzero().squeeze(-1)
        if len(found) == 0:
            raise SettingError(
                f"a bank of styles: all {len(self)} images are of one domain, and there is none of another to take a "
                'style from. Use clients of several domains, or let them take any: exclude="none".'
            )
        return found


def chosen(index: Tensor) -> Tensor:
    """Which of a client's images are given a style: every second one, always the same.

    >>> chosen(torch.arange(5)).tolist()
    [True, False, True, False, True]
    """
    return index % 2 == 0
