from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from fedflat import by_user, clients_from, clients_of, lda, pam, tensors
from fedflat.data.cohort import CohortData
from fedflat.errors import SettingError

X, Y = torch.rand(40, 3, 4, 4), torch.arange(40) % 4
TEST = (torch.rand(8, 3, 4, 4), torch.arange(8) % 4)


def test_tensors_are_dealt_out():
    fed = tensors(X, Y, *TEST, lda(0), clients=8).open(0)
    assert (fed.population, fed.classes, fed.shape) == (8, 4, (3, 4, 4))
    assert torch.equal(fed.train.inputs, X)
    assert torch.equal(fed.test.batch(torch.arange(8), torch.float32).inputs, TEST[0])
    assert fed.skew().classes_max == 1
    assert all(torch.equal(fed.data(k).labels, Y[fed.parts[k]]) for k in range(8))


def test_iid_is_the_default_and_the_seed_may_be_fixed():
    spec = tensors(X, Y, *TEST, clients=4, seed=1)
    assert [part.tolist() for part in spec.open(5).parts] == [
        part.tolist() for part in spec.open(6).parts
    ]
    assert repr(spec) == "tensors(<40 of 3x4x4>, iid(), clients=4)"


def test_bytes_are_scaled_and_normalised():
    x = torch.randint(256, (10, 3, 4, 4), dtype=torch.uint8)
    fed = tensors(x, Y[:10], x, Y[:10], clients=2, mean=(0.1, 0.2, 0.3), std=(1, 2, 3)).open(0)
    batch = fed.train.batch(torch.arange(10), torch.float64)
    expected = (
        x.double() / 255 - torch.tensor([0.1, 0.2, 0.3]).double().view(1, 3, 1, 1)
    ) / torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64).view(1, 3, 1, 1)
    torch.testing.assert_close(batch.inputs, expected, rtol=1e-6, atol=1e-6)


def test_numbers_masks_and_letters():
    numbers, masks, requests = (
        torch.rand(40, 2),
        X[:, 0].round().long() + 254 * (X[:, 1] > 0.9),
        (9 * X[:, 0, 0]).long(),
    )
    fed = tensors(X, numbers, TEST[0], numbers[:8], clients=4).open(0)
    assert fed.classes == 0
    assert torch.equal(fed.train.batch(torch.arange(40), torch.float64).targets, numbers.double())
    fed = tensors(X, masks, TEST[0], masks[:8], clients=4, classes=2).open(0)
    assert torch.equal(fed.train.batch(torch.arange(40), torch.float32).targets, masks)
    fed = tensors(requests, Y, requests[:8], TEST[1], clients=4).open(0)
    assert torch.equal(fed.train.batch(torch.arange(40), torch.float32).inputs, requests)
    fed = clients_of(
        [(X[:9], numbers[:9]), (X[9:], numbers[9:])], test=(TEST[0], numbers[:8])
    ).open(0)
    assert [len(part) for part in fed.parts] == [9, 31]
    pairs = [(x, float(y[0])) for x, y in zip(X, numbers, strict=True)]
    fed = tensors(_Listed(pairs), test_x=_Listed(pairs[:8]), clients=4).open(0)
    assert torch.equal(fed.train.targets, numbers[:, 0].double())


class _Listed(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, place):
        return self.items[place]


def test_without_test_examples_the_held_out_parts_are_the_test_set():
    fed = tensors(X, Y, clients=4, split=0.5).open(0)
    assert fed.held_out is not None
    assert torch.equal(fed.test.index, torch.cat(list(fed.held_out)))
    assert len(fed.test) == 20
    with pytest.raises(SettingError, match="nothing to test on"):
        tensors(X, Y, clients=4)


def test_owners_and_coarse_classes():
    fed = tensors(X, Y, *TEST, by_user(), users=torch.arange(40) // 15).open(0)
    assert [len(part) for part in fed.parts] == [15, 15, 10]
    fed = tensors(X, Y, *TEST, pam(), clients=4, coarse=Y // 2).open(0)
    assert sorted(torch.cat(list(fed.parts)).tolist()) == list(range(40))


def test_clients_of_keeps_the_clients_as_given():
    mine = [(torch.full((n, 2), float(n)), torch.full((n,), n % 3)) for n in (4, 1, 7)]
    fed = clients_of(mine, test=(torch.rand(5, 2), torch.zeros(5, dtype=torch.long))).open(9)
    assert fed.population == 3
    for k, (x, y) in enumerate(mine):
        batch = fed.data(k).batch(torch.arange(len(y)), torch.float32)
        assert torch.equal(batch.inputs, x)
        assert torch.equal(batch.targets, y)
    assert (
        pickle.loads(pickle.dumps(clients_of(mine, split=None, test=mine[0]))).open(0).population
        == 3
    )


def test_a_cohort_is_the_data_of_its_clients():
    """By columns, if clients hold equally many examples of one set."""
    x, y = torch.randn(30, 4), torch.arange(30) % 3
    sizes = [len(y) // 5] * 5
    equal = clients_of(
        [*zip(x.split(sizes), y.split(sizes), strict=True)], test=(x, y), classes=3
    ).open(0)
    parts = (x.split([20, 10]), y.split([20, 10]))
    unequal = clients_of([*zip(*parts, strict=True)], test=(x, y), classes=3).open(0)
    for fed, cohort in ((equal, [3, 0, 4]), (unequal, [1, 0])):
        found = fed.cohort(cohort)
        assert isinstance(found, CohortData) is (fed is equal)
        assert len(found) == len(cohort)
        for client, data, again in zip(cohort, found, found[0:], strict=True):
            expected = fed.data(client)
            assert data.examples is again.examples is expected.examples
            assert torch.equal(data.index, expected.index)
            assert torch.equal(again.index, expected.index)
    found = equal.cohort([3, 0, 4])
    assert torch.equal(found[-1].index, equal.data(4).index)
    assert [data.index[0].item() for data in found[1:]] == [0, 24]
    with pytest.raises(IndexError, match="there are 3 clients, found 3"):
        found[3]


def test_clients_of_with_a_split():
    mine = [(torch.rand(10, 2), torch.zeros(10, dtype=torch.long)) for _ in range(3)]
    fed = clients_of(mine, split=0.7, classes=2).open(0)
    assert [len(part) for part in fed.parts] == [7, 7, 7]
    assert fed.classes == 2
    assert len(fed.test) == 9


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: tensors(X, Y[:-1], *TEST), "a label for each"),
        (lambda: tensors(X, Y, TEST[0]), "give both test_x and test_y"),
        (
            lambda: tensors(X, Y.float(), *TEST),
            "all labels must be alike, .* of torch.float32, found .* torch.int64",
        ),
        (
            lambda: tensors(X, X[:, 0].long(), TEST[0], TEST[0][:, 0].long()),
            "say how many classes: classes=2",
        ),
        (
            lambda: tensors(X, Y.cfloat(), TEST[0], TEST[1].cfloat()),
            "labels must be whole numbers .* torch.complex64",
        ),
        (
            lambda: tensors(X, X[:, 0].long() - 1, TEST[0], TEST[0][:, 0].long(), classes=2),
            "labels must be whole numbers from 0",
        ),
        (lambda: tensors(X, Y, TEST[0][:, :1], TEST[1]), "all inputs must be alike"),
        (lambda: tensors(X, Y, TEST[0].double(), TEST[1]), "all inputs must be alike"),
        (
            lambda: tensors(X.bool(), Y, TEST[0].bool(), TEST[1]),
            "inputs must be floats, uint8 or whole numbers",
        ),
        (lambda: tensors(X, Y, *TEST, classes=3), "below classes=3, found 3"),
        (lambda: tensors(X, Y, *TEST, mean=(0.5,), std=(1,)), "one number for each channel"),
        (lambda: tensors(X, Y, *TEST, mean=(0.5,) * 3), "one number for each channel"),
        (lambda: tensors(X, Y, *TEST, "iid"), "partition must be one of"),
        (
            lambda: tensors(X, Y, *TEST, users=Y[:3]),
            "users must have an entry for each of 40 examples, found 3",
        ),
        (lambda: clients_of([]), "at least one client"),
        (lambda: clients_of([(X, Y), (X[:0], Y[:0])], TEST), "clients_of: client 1"),
        (
            lambda: clients_of([(X, Y), (X[:, :2], Y)], TEST),
            "clients_of: client 1: all inputs must be alike",
        ),
    ],
)
def test_wrong_tensors_are_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        wrong()


def made(client: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.full((client % 3 + 1, 3, 4, 4), client % 256, dtype=torch.uint8)
    return x, torch.full((len(x),), client % 4, dtype=torch.int32)


def test_clients_are_made_when_they_are_asked_for():
    asked = []

    def make(client):
        asked.append(client)
        return made(client)

    x = torch.zeros(8, 3, 4, 4, dtype=torch.uint8)
    spec = clients_from(make, 10**9, (x, TEST[1]), classes=4, mean=(0.5,) * 3, std=(0.25,) * 3)
    assert repr(spec) == "clients_from(make, clients=1000000000)"
    fed = spec.open(0)
    assert (fed.population, fed.classes, fed.shape, asked) == (10**9, 4, (3, 4, 4), [])
    data = fed.data(255 * 4 + 2)
    assert asked == [255 * 4 + 2]
    assert (len(data), data.labels.tolist()) == (3, [2, 2, 2])
    x = data.batch(torch.tensor([1]), torch.float64).inputs
    torch.testing.assert_close(x, torch.full_like(x, (((255 * 4 + 2) % 256) / 255 - 0.5) / 0.25))
    few = clients_from(made, 5, (fed.test.examples.inputs, TEST[1]), classes=4).open(0)
    assert list(few.sizes()) == [1, 2, 3, 1, 2]
    assert few.pooled().data(0).labels.tolist() == [0, 1, 1, 2, 2, 2, 3, 0, 0]
    assert torch.equal(pickle.loads(pickle.dumps(few)).data(1).labels, few.data(1).labels)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda k: (torch.zeros(2, 3, 4, 4), torch.tensor([0])),
            "client 7: there must be examples and a label",
        ),
        (
            lambda k: (torch.zeros(0, 3, 4, 4), torch.tensor([]).long()),
            "client 7: there must be examples",
        ),
        (lambda k: (torch.zeros(1, 3), torch.tensor([0])), "client 7: all inputs must be alike"),
        (
            lambda k: (torch.zeros(1, 3, 4, 4), torch.tensor([0.0])),
            "client 7: all labels must be alike",
        ),
        (
            lambda k: (torch.zeros(1, 3, 4, 4), torch.tensor([4])),
            "client 7: labels must be below classes=4, found 4",
        ),
    ],
)
def test_what_is_made_is_checked(make, message):
    fed = clients_from(make, 10, TEST, classes=4).open(0)
    with pytest.raises(SettingError, match=message):
        fed.data(7)


def test_wrong_ways_to_say_clients_from():
    with pytest.raises(
        SettingError, match="clients_from: clients must be a whole number of at least 1"
    ):
        clients_from(made, 0, TEST, classes=4)
    with pytest.raises(
        SettingError, match="clients_from: the test set: labels must be below classes=2"
    ):
        clients_from(made, 5, TEST, classes=2)
    with pytest.raises(
        SettingError, match="clients_from: mean and std must have one number for each channel"
    ):
        clients_from(made, 5, TEST, classes=4, mean=(1.0,))


class Listed(Dataset):
    """Examples one at a time, as users write them."""

    def __init__(self, x, y) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, place: int):
        return self.x[place], self.y[place]


class Poured(IterableDataset):
    """Examples that can only be gone through."""

    def __iter__(self):
        return iter(zip(X, Y.tolist(), strict=True))


def test_arrays_of_numpy_are_taken_as_tensors_are():
    expected = tensors(X, Y, *TEST, lda(0), clients=8).open(0)
    x, y = X.numpy(), Y.numpy().astype(np.int16)
    x.flags.writeable = False
    for labels in (y, y.astype(np.uint8), y.astype(">i4"), y.tolist()):
        fed = tensors(
            x, labels, TEST[0].numpy()[:, :, ::1], TEST[1].numpy(), lda(0), clients=8
        ).open(0)
        assert torch.equal(fed.train.inputs, expected.train.inputs)
        assert all(torch.equal(a, b) for a, b in zip(fed.parts, expected.parts, strict=True))
    backwards = tensors(x[::-1], y[::-1], *TEST, clients=2).open(0)
    assert torch.equal(backwards.train.inputs, X.flip(0))
    fed = tensors(X, Y, *TEST, by_user(), users=np.arange(40) // 15).open(0)
    assert [len(part) for part in fed.parts] == [15, 15, 10]
    fed = clients_of([(x[:4], y[:4]), (x[4:], y[4:])], test=(x, y)).open(0)
    assert [len(part) for part in fed.parts] == [4, 36]


@pytest.mark.parametrize(
    "whole",
    [TensorDataset(X, Y), Listed(X, Y), Listed(X.numpy(), Y.numpy()), Poured()],
    ids=["tensors", "listed", "arrays", "poured"],
)
def test_data_sets_of_torch_are_read(whole):
    fed = tensors(whole, test_x=whole, partition=lda(0), clients=8).open(0)
    assert torch.equal(fed.train.inputs, X)
    assert torch.equal(fed.train.targets, Y)
    assert torch.equal(fed.test.labels, Y)
    if not isinstance(whole, Poured):
        parts = [Subset(whole, range(4)), Subset(whole, range(4, 40))]
        fed = clients_of(parts, test=whole).open(0)
        assert torch.equal(fed.data(1).labels, Y[4:])
    made = clients_from(lambda client: whole, 3, test=whole, classes=4).open(0)
    assert torch.equal(made.data(2).labels, Y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tensors(Listed(X, Y), Listed(*TEST)), "a torch Dataset as x alone, as in tensors"),
        (
            lambda: clients_of([DataLoader(Listed(X, Y))], test=TEST),
            "client 0: a DataLoader makes batches itself",
        ),
        (lambda: clients_of([5], test=TEST), "client 0: there must be a pair of inputs and labels"),
        (
            lambda: tensors(Listed(["a", "b"], [0, 1]), test_x=TEST[0], test_y=TEST[1]),
            "must be a tensor or an array",
        ),
        (lambda: tensors(Listed(X, [object()] * 40), split=0.5), "must be a tensor or an array"),
        (
            lambda: tensors(Listed([X[0], X[1, :2]], [0, 1]), split=0.5),
            r"must be alike, found \(2, 4, 4\) and \(3,",
        ),
        (lambda: tensors(Listed([], []), split=0.5), "a data set of none"),
        (
            lambda: tensors([[1.0], [2.0, 3.0]], [0, 1], split=0.5),
            "an array of numbers, all of one shape",
        ),
        (lambda: tensors(np.array([object()]), [0], split=0.5), "must be a tensor or an array"),
        (lambda: tensors(X, 5, split=0.5), r"labels of \(\)"),
        (lambda: tensors(5, 5, split=0.5), r"labels of \(\)"),
    ],
)
def test_what_cannot_be_made_tensors_is_refused(make, message):
    with pytest.raises(SettingError, match=message):
        make()


def test_a_client_that_cannot_be_made_is_named():
    def make(client: int):
        return {0: TEST}[client]

    fed = clients_from(make, 3, test=TEST, classes=4).open(0)
    assert len(fed.data(0)) == 8
    with pytest.raises(
        SettingError, match=r"client 2 could not be made: KeyError: 2\. .*from 0 to 2\."
    ) as caught:
        fed.data(2)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(SettingError, match="client 1: there must be a pair of inputs and labels"):
        clients_from(lambda client: 5, 3, test=TEST, classes=4).open(0).data(1)
