from __future__ import annotations

import pickle

import pytest
import torch

from fedflat.data.augment import CropFlip
from fedflat.data.examples import (
    Batch,
    ClientData,
    Examples,
    Mixed,
    leaves,
    regrown,
    rows,
    shape_of,
    stacked,
)
from fedflat.data.federation import PartitionedFederation
from fedflat.errors import SettingError

X = torch.randint(256, (6, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def federation() -> PartitionedFederation:
    examples = Examples(X, Y, 3)
    return PartitionedFederation(
        examples, ClientData(examples, torch.arange(2)), [torch.tensor([5, 0]), torch.tensor([3])]
    )


def test_a_batch_is_scaled_normalised_and_leaves_the_examples_alone():
    before = X.clone()
    index = torch.tensor([4, 1])
    plain = Examples(X, Y, 3).batch(index, torch.float64)
    torch.testing.assert_close(plain.inputs, X[index].double() / 255)
    assert torch.equal(plain.targets, Y[index])
    normal = Examples(X, Y, 3, (0.5,), (0.25,)).batch(index, torch.float64)
    torch.testing.assert_close(normal.inputs, (X[index].double() / 255 - 0.5) / 0.25)
    floats = Examples(X.float(), Y, 3, (1.0,), (2.0,)).batch(index, torch.float32)
    torch.testing.assert_close(floats.inputs, (X[index].float() - 1) / 2)
    assert torch.equal(X, before)


def test_batches_of_floats_are_copies():
    x = torch.rand(4, 2)
    Examples(x, Y[:4], 3).batch(torch.arange(4), torch.float32).inputs.zero_()
    assert x.abs().sum() > 0


def test_augmentation_needs_a_generator():
    examples = Examples(X, Y, 3, augment=CropFlip(padding=2))
    index, rng = torch.arange(6), torch.Generator().manual_seed(0)
    unchanged = examples.batch(index, torch.float32).inputs
    assert torch.equal(unchanged, Examples(X, Y, 3).batch(index, torch.float32).inputs)
    assert not torch.equal(examples.batch(index, torch.float32, rng).inputs, unchanged)


def test_client_data_index_their_own_examples():
    data = federation().data(0)
    assert len(data) == 2
    assert data.labels.tolist() == [2, 0]
    batch = data.batch(torch.tensor([1]), torch.float32)
    torch.testing.assert_close(batch.inputs, X[:1].float() / 255)
    assert len(Batch(batch.inputs, batch.targets)) == 1


def test_a_federation():
    fed = federation()
    assert (fed.population, fed.classes, fed.shape) == (2, 3, (1, 4, 4))
    assert fed.own_test(0) is None
    pooled = fed.pooled()
    assert pooled.population == 1
    assert pooled.data(0).index.tolist() == [5, 0, 3]
    assert torch.equal(pickle.loads(pickle.dumps(fed)).data(0).labels, fed.data(0).labels)


def test_an_empty_client_is_refused():
    examples, nothing = Examples(X, Y, 3), torch.tensor([], dtype=torch.long)
    with pytest.raises(SettingError, match="client 1 of 2 holds no example"):
        PartitionedFederation(
            examples, ClientData(examples, torch.arange(2)), [torch.tensor([5]), nothing]
        )


def test_whole_numbers_stay_whole_and_several_inputs_stay_several() -> None:
    requests, heights = torch.arange(24).view(6, 4), torch.linspace(0, 1, 6, dtype=torch.float64)
    masks = torch.arange(12, dtype=torch.uint8).view(6, 2)
    batch = Examples((requests, X), (masks, heights)).batch(torch.tensor([4, 0]), torch.float32)
    assert torch.equal(batch.inputs[0], requests[[4, 0]])
    torch.testing.assert_close(batch.inputs[1], X[[4, 0]].float() / 255)
    assert torch.equal(batch.targets[0], masks[[4, 0]].long())
    assert torch.equal(batch.targets[1], heights[[4, 0]].float())
    assert len(batch) == 2


def test_examples_without_classes_say_so_where_one_is_needed() -> None:
    with pytest.raises(SettingError, match=r"not have one class each.*iid\(\)"):
        Examples(X, torch.rand(6)).labels  # noqa: B018


def test_a_stack_of_batches_comes_apart_again() -> None:
    ones = [Batch((X[k : k + 2], Y[k : k + 2]), Mixed(Y[k : k + 2], Y[:2], 0.0)) for k in range(3)]
    again = list(rows(stacked(ones)))
    for one, other in zip(ones, again, strict=True):
        pairs = zip(leaves(one), leaves(other), strict=True)
        assert all(torch.equal(torch.as_tensor(a).double(), b.double()) for a, b in pairs)
    empty = shape_of(ones[0])
    assert all(
        a is b
        for a, b in zip(leaves(regrown(empty, leaves(ones[0]))), leaves(ones[0]), strict=True)
    )
    assert hash(empty) == hash(shape_of(ones[1]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_counts_on_the_device_are_the_counts(dtype: torch.dtype):
    data = ClientData(Examples(X, Y.to(dtype), 5), torch.tensor([0, 3, 5]))
    assert data.counts_on_device(5).tolist() == data.counts(5).tolist() == [2, 0, 1, 0, 0]
    assert data.to("meta").counts_on_device(5).is_meta
