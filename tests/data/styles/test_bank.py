"""Which styles are sampled for which client."""

from __future__ import annotations

import pytest
import torch

from fedflat.data.styles import StyleBank, chosen
from fedflat.errors import SettingError

LOOKS = torch.tensor([1.0, 1.0, 2.0, 3.0])
BANK = StyleBank(torch.arange(4.0).view(4, 1), LOOKS)


def test_styles_of_the_own_domain_are_left_out() -> None:
    drawn = BANK.draw(torch.ones(400), torch.Generator().manual_seed(0)).squeeze(1)
    assert drawn.unique().tolist() == [2, 3]
    assert 140 < int((drawn == 2).sum()) < 260
    every = BANK.draw(torch.ones(400), torch.Generator().manual_seed(0), own=True)
    assert every.unique().tolist() == [0, 1, 2, 3]


def test_each_image_by_its_own_domain() -> None:
    looks = torch.tensor([2.0, 3.0]).repeat(200)
    drawn = BANK.draw(looks, torch.Generator().manual_seed(0)).squeeze(1)
    assert drawn[::2].unique().tolist() == [0, 1, 3]
    assert drawn[1::2].unique().tolist() == [0, 1, 2]


def test_every_second_image_has_a_style() -> None:
    assert chosen(torch.tensor([4, 7, 0, 3])).tolist() == [True, False, True, False]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingError, match=r'all 2 images are of one domain.*exclude="none"'):
        StyleBank(torch.zeros(2, 1), LOOKS[:2]).draw(LOOKS[:1], torch.Generator())
    with pytest.raises(SettingError, match="found 3 styles and 4 domains"):
        StyleBank(torch.zeros(3, 1), LOOKS)
