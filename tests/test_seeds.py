"""Numbers depend on all of (seed, purpose, path), and on nothing else."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedflat.core.seeds import derive, numpy_generator, torch_generator

small = st.integers(0, 9)
paths = st.tuples(small, st.sampled_from(["cohort", "batches", "model"]), small, small)


@given(paths, paths)
def test_another_path_gives_another_number(
    one: tuple[int, str, int, int], other: tuple[int, str, int, int]
) -> None:
    assert (derive(*one) == derive(*other)) == (one == other)
    assert 0 <= derive(*one) < 2**63


def test_a_shorter_path_is_another_path() -> None:
    found = {
        derive(0, "a"),
        derive(0, "a", 0),
        derive(0, "a", 0, 0),
        derive(1, "a"),
        derive(0, "b"),
    }
    assert len(found) == 5


def test_generators_repeat_and_leave_the_global_ones_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, again = (torch.rand(4, generator=torch_generator(1, "x", 2)) for _ in range(2))
    assert torch.equal(one, again)
    assert torch.equal(torch.rand(3), expected)
    draws = [numpy_generator(1, "x", t).random(4) for t in (2, 2, 3)]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_numbers_are_the_same_on_every_machine() -> None:
    """The first 63 bits of a known digest: blake2b of "0/cohort/3" in 8 bytes, little end first,
    halved."""
    digest = blake2b(b"0/cohort/3", digest_size=8).digest()
    assert derive(0, "cohort", 3) == sum(byte << (8 * i) for i, byte in enumerate(digest)) // 2
