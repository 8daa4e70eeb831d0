"""The client to whom each test example belongs, if clients hold out their own test examples."""

from __future__ import annotations

import torch
from torch import Tensor

from fedflat.data.federation import Federation


def owners_of_tests(fed: Federation) -> Tensor | None:
    """The client of each example of the main test set; None if an example belongs to no client.

    With ``pool=True`` the main test set is what the clients hold out.
    """
    if fed.held_out is None or len(fed.test) != sum(map(len, fed.held_out)):
        return None
    if not torch.equal(fed.test.index.cpu(), torch.cat(list(fed.held_out)).cpu()):
        return None
    sizes = torch.tensor([len(part) for part in fed.held_out])
    return torch.arange(len(sizes)).repeat_interleave(sizes)
