"""A bank of the styles of all clients' images, for random style transfer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.errors import SettingError


@dataclass(frozen=True)
class StyleBank:
    """A style and a look number per image of all clients; equal looks have equal numbers."""

    styles: Tensor
    """The styles; the first axis counts the images."""
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
        """A random style per image, with replacement, from images of other looks (``own``: from
        all)."""
        indices = []
        for look in looks.tolist():
            others = torch.arange(len(self)) if own else self.others(look)
            indices.append(int(others[torch.randint(len(others), (1,), generator=rng)]))
        return self.styles.index_select(0, torch.tensor(indices, dtype=torch.long))

    def others(self, look: float) -> Tensor:
        """The images with another look."""
        candidates = (self.looks != look).nonzero().squeeze(-1)
        if len(candidates) == 0:
            raise SettingError(
                f"a bank of styles: all {len(self)} images are of one domain, and there is none "
                "of another to take a style from. Use clients of several domains, or let them "
                'take any: exclude="none".'
            )
        return candidates


def chosen(index: Tensor) -> Tensor:
    """Mask of a client's images that get a style: every second one, always the same.

    >>> chosen(torch.arange(5)).tolist()
    [True, False, True, False, True]
    """
    return index % 2 == 0
