from __future__ import annotations

import pickle

import pytest
import torch

from fedflat.data.augment import CropFlip
from fedflat.data.examples import Batch, ClientData, Examples
from fedflat.data.federation import Dealt
from fedflat.errors import SettingError

X = torch.randint(256, (6, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def federation() -> Dealt:
    examples = Examples(X, Y, 3)
    return Dealt(examples, ClientData(examples, torch.arange(2)), [torch.tensor([5, 0]), torch.tensor([3])])


def test_a_batch_is_scaled_normalised_and_leaves_the_examples_alone():
    before = X.clone()
    index = torch.tensor([4, 1])
    plain = Examples(X, Y, 3).batch(index, torch.float64)
    torch.testing.assert_close(plain.x, X[index].double() / 255)
    assert torch.equal(plain.y, Y[index])
    normal = Examples(X, Y, 3, (0.5,), (0.25,)).batch(index, torch.float64)
    torch.testing.assert_close(normal.x, (X[index].double() / 255 - 0.5) / 0.25)
    floats = Examples(X.float(), Y, 3, (1.0,), (2.0,)).batch(index, torch.float32)
    torch.testing.assert_close(floats.x, (X[index].float() - 1) / 2)
    assert torch.equal(X, before)


def test_batches_of_floats_are_copies():
    x = torch.rand(4, 2)
    Examples(x, Y[:4], 3).batch(torch.arange(4), torch.float32).x.zero_()
    assert x.abs().sum() > 0


def test_augmentation_needs_a_generator():
    examples = Examples(X, Y, 3, augment=CropFlip(padding=2))
    index, rng = torch.arange(6), torch.Generator().manual_seed(0)
    assert torch.equal(examples.batch(index, torch.float32).x, Examples(X, Y, 3).batch(index, torch.float32).x)
    assert not torch.equal(examples.batch(index, torch.float32, rng).x, examples.batch(index, torch.float32).x)


def test_client_data_index_their_own_examples():
    data = federation().data(0)
    assert len(data) == 2
    assert data.labels.tolist() == [2, 0]
    batch = data.batch(torch.tensor([1]), torch.float32)
    torch.testing.assert_close(batch.x, X[:1].float() / 255)
    assert len(Batch(batch.x, batch.y)) == 1


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
        Dealt(examples, ClientData(examples, torch.arange(2)), [torch.tensor([5]), nothing])
