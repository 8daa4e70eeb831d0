"""Masks in which no pixel counts: at one client, at all, in the test set; and classes without
pixels."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fedflat as ff
from fedflat.errors import DataError
from fedflat.report import collect

IGNORED = 255
Pair = tuple[Tensor, Tensor]


def scenes(seed: int, classes: int = 3) -> Pair:
    """Four images of random colours, and masks of the first classes."""
    rng = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (4, 3, 16, 16), generator=rng, dtype=torch.uint8)
    return images, torch.randint(0, classes, (4, 16, 16), generator=rng)


def ignored(seed: int) -> Pair:
    images, masks = scenes(seed)
    return images, torch.full_like(masks, IGNORED)


def run(
    parts: list[Pair], test: Pair, method: str = "fedavg", task: str = "segmentation()", **more: Any
) -> ff.Result:
    on = ff.clients_of(parts, test=test, classes=4)
    settings = {
        "model": "small_unet(width=4)",
        "rounds": 2,
        "batch_size": 2,
        "threads": 1,
        "lr": 0.2,
        "quiet": True,
    }
    settings |= {} if "cohorts" in more else {"clients_per_round": len(parts)}
    return ff.run(method, on=on, task=task, **{**settings, **more})


def weights(result: ff.Result) -> Tensor:
    return torch.cat([p.detach().flatten() for p in result.module().parameters()])


@pytest.mark.parametrize(
    "task", ["segmentation()", "segmentation(hard=0.25)", "segmentation(weights=[1, 2, 1, 1])"]
)
@pytest.mark.parametrize("executor", ["in-process", "stacked"])
def test_a_client_without_a_label_changes_nothing(task: str, executor: str) -> None:
    """The others' mean is theirs: the same weights, losses and scores as without that client, to
    rounding."""
    test = scenes(9)
    alone = run([scenes(0)], test, task=task, executor=executor)
    both = run([scenes(0), ignored(1)], test, task=task, executor=executor)
    torch.testing.assert_close(weights(both), weights(alone), rtol=1e-5, atol=1e-6)
    for name in ("train_loss", "loss", "miou"):
        assert [row[name] for row in both.rows] == pytest.approx(
            [row[name] for row in alone.rows], rel=1e-5
        )


@pytest.mark.parametrize(
    "method", ["mofedsam", "scaffold", "feddyn", "fedgloss(rho_s=0.1, rho_l=0.1)", "fedadam"]
)
def test_its_loss_does_not_count_where_clients_count_alike(method: str) -> None:
    """The mean loss is that of the other client, as if it had been asked alone."""
    parts, test = [ignored(1), scenes(0)], scenes(9)
    alone, both = (run(parts, test, method, rounds=1, cohorts=[cohort]) for cohort in ([1], [0, 1]))
    assert both.rows[-1]["train_loss"] == pytest.approx(alone.rows[-1]["train_loss"])
    assert torch.isfinite(weights(both)).all()


@pytest.mark.parametrize("method", ["fedavg", "fedsam", "mofedsam", "fedavg + median"])
def test_no_client_has_a_label(method: str) -> None:
    """Nothing is learnt, and nothing breaks."""
    result = run([ignored(0), ignored(1)], scenes(9), method)
    assert [row["train_loss"] for row in result.rows] == [0.0, 0.0]
    assert result.status == "done"
    before = run([ignored(0), ignored(1)], scenes(9), method, rounds=1, lr=1e-9)
    torch.testing.assert_close(weights(result), weights(before), rtol=1e-6, atol=1e-7)


def test_a_test_set_without_a_label(tmp_path: Path) -> None:
    """It has no score, which is written as such, and the page shows the rest."""
    result = run([scenes(0)], ignored(9), out=tmp_path / "run")
    assert result.status == "done"
    assert math.isnan(result.final())
    written = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert written["miou"] is None
    assert collect([tmp_path / "run"])["problems"] == []


def test_a_class_that_no_test_image_has(tmp_path: Path) -> None:
    """The mean is over the classes that are there; taking something for the other is a mistake all
    the same."""
    result = run([scenes(0, classes=4)], scenes(9), out=tmp_path / "run")
    row = result.rows[-1]
    each = [row[f"iou_{c}"] for c in range(4)]
    assert math.isnan(each[3])
    assert row["miou"] == pytest.approx(sum(each[:3]) / 3)
    assert (
        json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])["iou_3"]
        is None
    )
    [method] = collect([tmp_path / "run"])["methods"]
    assert method["score"] == pytest.approx(result.final(), rel=1e-4)
    assert [method["classes"][str(c)][0] for c in range(3)] == pytest.approx(each[:3], rel=1e-4)
    assert method["classes"]["3"] == [None, None]


@pytest.mark.parametrize("executor", ["in-process", "stacked"])
@pytest.mark.parametrize("where", ["train", "test"])
def test_a_label_that_is_no_class(where: str, executor: str) -> None:
    """In one pixel of the last mask, which no look at a few examples finds."""
    train, test = scenes(0), scenes(9)
    (train if where == "train" else test)[1][3, 15, 15] = 9
    with pytest.raises(
        DataError, match="the classes 0 to 3, or 255 where a pixel is ignored: Target 9"
    ):
        run([train], test, executor=executor)
