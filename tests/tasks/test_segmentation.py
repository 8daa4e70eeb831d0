"""The task of a class for each pixel: hardest pixels, weights, several outputs, and runs with the
papers' networks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

import fedflat as ff
from fedflat.data.examples import Batch, ClientData, Examples
from fedflat.data.federation import DataSpec, Federation, PartitionedFederation
from fedflat.errors import SettingError
from fedflat.registry.specs import parse
from fedflat.tasks.segmentation import Segmentation, hard_loss

RNG = torch.Generator().manual_seed(0)
OUTPUT = torch.randn(2, 3, 4, 5, generator=RNG, dtype=torch.float64)
LABELS = torch.randint(3, (2, 4, 5), generator=RNG)
LABELS[0, :2] = 255
BATCH = Batch(torch.zeros(2, 1, 4, 5), LABELS)


def scenes() -> Federation:
    """Two clients, one of whom has nothing but ignored pixels."""
    rng = torch.Generator().manual_seed(0)
    masks = torch.randint(2, (8, 32, 32), generator=rng)
    images = torch.stack([masks, 1 - masks, masks], 1).float() + 0.1 * torch.randn(
        8, 3, 32, 32, generator=rng
    )
    masks[3:6] = 255
    examples = Examples(images, masks, 2)
    return PartitionedFederation(
        examples, ClientData(examples, torch.tensor([6, 7])), [torch.arange(3), torch.arange(3, 6)]
    )


@dataclass(frozen=True, repr=False)
class TwoClients(DataSpec):
    """The same, given as data."""

    def open(self, seed: int) -> Federation:
        return scenes()


def test_what_is_lost() -> None:
    each = torch.nn.functional.cross_entropy(OUTPUT, LABELS, ignore_index=255, reduction="none")
    mean, _ = Segmentation().mean(OUTPUT, BATCH)
    assert float(mean) == pytest.approx(float(each.sum() / 30))
    mean, count = Segmentation(hard=0.25).mean(OUTPUT, BATCH)
    assert float(mean) == pytest.approx(float(each.flatten(1).sort(1).values[:, -5:].mean()))
    assert int(count) == 2
    task = Segmentation(weights=[1.0, 0.0, 2.0])
    weight = torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)
    expected = torch.nn.functional.cross_entropy(OUTPUT, LABELS, weight=weight, ignore_index=255)
    assert float(task.mean(OUTPUT, BATCH)[0]) == pytest.approx(float(expected))
    both = Segmentation(hard=0.25).mean((OUTPUT, OUTPUT.flip(1)), BATCH)[0]
    one, other = (hard_loss(out, LABELS)[0] / 2 for out in (OUTPUT, OUTPUT.flip(1)))
    assert float(both) == pytest.approx(float(one + other))


@pytest.mark.parametrize("text", ["segmentation()", "segmentation(hard=0.25, weights=[1.0, 2.0])"])
def test_spelling(text: str) -> None:
    assert repr(parse(text, "task")) == text


@pytest.mark.parametrize("model", ["bisenetv2(width=0.25)", "deeplabv3(norm='group', width=0.25)"])
def test_the_papers_networks_learn(model: str) -> None:
    """Also with a client whose pixels are all ignored: its loss counts nothing, and nothing becomes
    NaN."""
    task = "segmentation(hard=0.25)" if "bise" in model else "segmentation(weights=[1.0, 2.0])"
    result = ff.run(
        "fedavg",
        on=TwoClients(),
        model=model,
        task=task,
        rounds=2,
        clients_per_round=2,
        batch_size=3,
        lr=0.05,
        quiet=True,
    )
    assert result.status == "done"
    assert all(0 <= row["miou"] <= 1 for row in result.rows)
    assert all(math.isfinite(row["train_loss"]) for row in result.rows if "train_loss" in row)


def test_weights_that_do_not_fit() -> None:
    with pytest.raises(SettingError, match="weights must be one for each of 3 classes, found 2"):
        Segmentation(weights=(1.0, 2.0)).check(scenes(), OUTPUT, BATCH)
    with pytest.raises(SettingError, match="hard must be a number above 0"):
        Segmentation(hard=0)
