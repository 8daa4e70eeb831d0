"""Which styles are drawn for whom."""

from __future__ import annotations

import pytest
import torch

from fedflat.data.styles.bank import StyleBank, chosen
from fedflat.errors import SettingError

TOWNS = ["one", "one", "two", "three"]
BANK = StyleBank((torch.arange(4.0), torch.arange(4.0) * 10), TOWNS)


def test_styles_of_the_own_domain_are_left_out() -> None:
    mean, std = BANK.draw(400, torch.Generator().manual_seed(0), exclude="one")
    assert mean.unique().tolist() == [2, 3]
    assert torch.equal(std, mean * 10)  # both of one and the same image
    assert BANK.draw(400, torch.Generator().manual_seed(0))[0].unique().tolist() == [0, 1, 2, 3]
    assert 140 < int((mean == 2).sum()) < 260


def test_every_second_image_has_a_style() -> None:
    assert chosen(torch.tensor([4, 7, 0, 3])).tolist() == [True, False, True, False]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingError, match="all 2 styles are of the domain 'one' itself"):
        StyleBank((torch.arange(2.0),), TOWNS[:2]).draw(1, torch.Generator(), exclude="one")
    with pytest.raises(SettingError, match="one style and one domain for each image"):
        StyleBank((torch.arange(3.0),), TOWNS)
