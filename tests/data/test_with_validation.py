"""A validation set, taken from the clients' training examples."""

from __future__ import annotations

import pytest
import torch

import fedflat as ff
from fedflat.data.sets.with_validation import counts_of
from fedflat.errors import SettingError
from fedflat.registry.specs import parse

ON = "digits(lda(0.5), clients=20)"


def opened(text: str, seed: int = 3) -> ff.PartitionedFederation:
    fed = parse(text, "data set").open(seed)
    assert isinstance(fed, ff.PartitionedFederation)
    return fed


def test_every_example_trains_or_validates_and_none_is_tested() -> None:
    whole, fed = opened(ON), opened(f"with_validation({ON}, 0.1)")
    validation = fed.more["validation"]
    total = sum(map(len, whole.parts))
    assert len(validation) == round(0.1 * total)
    aside = set(validation.index.tolist())
    for before, now in zip(whole.parts, fed.parts, strict=True):
        taken = set(before.tolist()) - set(now.tolist())
        assert taken <= aside
        assert set(now.tolist()) == set(before.tolist()) - aside
        assert len(taken) in (int(0.1 * len(before)), int(0.1 * len(before)) + 1)
    assert torch.equal(fed.test.index, whole.test.index)
    assert fed.test.examples is not validation.examples
    assert not validation.examples.augments


def test_the_seed_decides_and_nothing_else() -> None:
    text = f"with_validation({ON}, 0.2)"
    first, again, other = opened(text), opened(text), opened(text, seed=4)
    assert torch.equal(first.more["validation"].index, again.more["validation"].index)
    assert not torch.equal(first.more["validation"].index, other.more["validation"].index)
    fixed = [
        opened("with_validation(digits(lda(0.5), clients=20, seed=1), 0.2, seed=5)", seed)
        for seed in (1, 2)
    ]
    assert torch.equal(*(fed.more["validation"].index for fed in fixed))


def test_whole_clients() -> None:
    whole = opened(ON)
    fed = opened(f"with_validation({ON}, 0.1, by='clients')")
    assert fed.population == 18
    kept = [tuple(part.tolist()) for part in fed.parts]
    before = [tuple(part.tolist()) for part in whole.parts]
    aside = [part for part in before if part not in kept]
    assert [part for part in before if part in kept] == kept
    assert len(aside) == 2
    assert fed.more["validation"].index.tolist() == sorted(i for part in aside for i in part)


def test_whole_clients_take_their_own_tests_with_them() -> None:
    on = "digits(lda(0.5), clients=10, split=0.7, pool=True)"
    fed = opened(f"with_validation({on}, 0.2, by='clients')")
    assert fed.held_out is not None
    assert len(fed.held_out) == fed.population == 8
    assert torch.equal(fed.test.index, torch.cat(list(fed.held_out)))


def test_clients_that_are_made_when_needed() -> None:
    rng = torch.Generator().manual_seed(0)
    given = [(torch.randn(n, 2, generator=rng), torch.arange(n) % 2) for n in (4, 7, 9)]

    def make(client: int) -> tuple[torch.Tensor, torch.Tensor]:
        return given[client]

    on = ff.clients_from(make, clients=3, test=given[0], classes=2)
    fed = ff.with_validation(on, 0.25).open(0)
    aside = fed.tests["validation"]
    assert len(aside) == 5
    for client, (x, _) in enumerate(given):
        kept = fed.data(client).examples.inputs
        assert len(kept) < len(x)
        assert all(any(torch.equal(row, one) for one in x) for row in kept)
        assert not any(torch.equal(row, one) for row in kept for one in aside.examples.inputs)
    assert sum(fed.sizes()) == 15
    clients = ff.with_validation(on, 0.3, by="clients").open(0)
    assert clients.population == 2
    assert sum(clients.sizes()) + len(clients.tests["validation"]) == 20


def test_small_clients_keep_one_example() -> None:
    assert counts_of([1, 1, 1], 0.9, seed=0) == [0, 0, 0]
    assert counts_of([10, 10], 0.5, seed=0) == [5, 5]


def test_the_description_names_the_data_and_the_share() -> None:
    info = parse(f"with_validation({ON}, 0.1)", "data set").info()
    assert info.name == "digits"
    assert info.partition == "lda(0.5), 20 clients, 10 % of each client's examples for validation"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("with_validation(digits(), 0)", "share must be a number above 0"),
        ("with_validation(digits(), 1)", "must be below 1"),
        ("with_validation(digits(), 0.1, by='rounds')", "by must be"),
        ("with_validation(digits(clients=1), 0.1, by='clients')", "needs two clients"),
        ("with_validation(digits(), 0.0001)", "is not one example"),
        ("with_validation(with_validation(digits(), 0.1), 0.1)", "has a validation set already"),
        ("with_validation(unlabelled(digits()), 0.1)", "needs labels"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        parse(text, "data set").open(0)
