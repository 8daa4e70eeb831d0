"""Mixup and cutout as pieces: what they do to a batch, and from which random numbers."""

from __future__ import annotations

import pytest
import torch

from client.stages import vector, visiting
from fedflat.client.batch_transforms import Cutout, Mixup
from fedflat.core.schedules import steps
from fedflat.data.examples import Batch

BATCH = Batch(torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(6))


def test_mixup_blends_examples_and_labels_alike() -> None:
    piece = Mixup(1.0)
    mixed = piece.batch(visiting(piece, vector(0.0)), BATCH)
    targets = mixed.targets
    assert 0 < targets.lam < 1
    assert torch.equal(targets.first, BATCH.targets)
    assert sorted(targets.second.tolist()) == list(range(6))
    other = BATCH.inputs[targets.second]  # labels are places here
    torch.testing.assert_close(mixed.inputs, targets.lam * BATCH.inputs + (1 - targets.lam) * other)


def test_cutout_blanks_a_square_in_each_image() -> None:
    piece = Cutout(3)
    cut = piece.batch(visiting(piece, vector(0.0)), BATCH)
    assert torch.equal(cut.targets, BATCH.targets)
    holes = cut.inputs == 0
    assert torch.equal(cut.inputs[~holes], BATCH.inputs[~holes])
    for hole in holes[:, 0]:
        rows, columns = hole.any(1).nonzero(), hole.any(0).nonzero()
        height, width = len(rows), len(columns)
        assert 2 <= height <= 3
        assert 2 <= width <= 3
        assert int(hole.sum()) == height * width
        assert int(rows[-1] - rows[0]) == height - 1
        assert height == 3 or int(rows[0]) == 0 or int(rows[-1]) == 7


@pytest.mark.parametrize("piece", [Mixup(1.0), Cutout(3)])
def test_a_request_draws_its_own_numbers(piece: Mixup | Cutout) -> None:
    def first(**place: int) -> torch.Tensor:
        return piece.batch(visiting(piece, vector(0.0), **place), BATCH).inputs

    assert torch.equal(first(), first())
    for other in ({"seed": 1}, {"round": 1}, {"client": 1}):
        assert not torch.equal(first(), first(**other))
    v = visiting(piece, vector(0.0))
    assert not torch.equal(piece.batch(v, BATCH).inputs, piece.batch(v, BATCH).inputs)


def test_settings() -> None:
    piece = Mixup(steps([0, 1], [1.0, 1e-6]))
    late = piece.batch(visiting(piece, vector(0.0), round=1), BATCH)
    assert min(late.targets.lam, 1 - late.targets.lam) < 1e-3  # Beta(1e-6, 1e-6) is all but 0 or 1
    for wrong in (lambda: Mixup(0), lambda: Cutout(0), lambda: Cutout(1.5)):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="must be"):
            wrong()
