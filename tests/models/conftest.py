"""Every test of a model starts from one random state and leaves torch's as it found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_random_state() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
