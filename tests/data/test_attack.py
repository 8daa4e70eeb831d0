"""Label flipping: who lies, about which labels, and what is left alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedflat import cifar100, digits, label_flip, lda
from fedflat.data.sets.cifar100 import FINE_TO_COARSE
from fedflat.data.sets.given import clients_of
from fedflat.data.sets.label_flip import LabelFlip
from fedflat.engine.seeds import numpy_generator
from fedflat.errors import SettingError
from fedflat.language.spelling import parse

RNG = torch.Generator().manual_seed(0)
DATA = [(torch.randn(20, 2, generator=RNG), torch.arange(20) % 10) for _ in range(10)]
ON = clients_of(DATA, test=DATA[0], classes=10)


def swaps(spec: LabelFlip, seed: int, classes: int = 10, clients: int = 6) -> list[list[int]]:
    """Where each label goes at each of the first clients."""
    return [spec._swap(classes, seed, client).tolist() for client in range(clients)]


@given(seed=st.integers(0, 10**6), count=st.integers(1, 5), draw=st.sampled_from(["fixed", "random"]))
def test_a_swap_is_its_own_inverse(seed: int, count: int, draw: str) -> None:
    spec = label_flip(ON, count=count, draw=draw)
    for swap in swaps(spec, seed):
        assert [swap[b] for b in swap] == list(range(10))
        assert sum(a != b for a, b in enumerate(swap)) == 2 * count


def test_fixed_and_random_pairs() -> None:
    fixed, drawn = (swaps(label_flip(ON, count=2, draw=draw), seed=0) for draw in ("fixed", "random"))
    assert len(set(map(tuple, fixed))) == 1
    assert len(set(map(tuple, drawn))) > 1
    assert drawn == swaps(label_flip(ON, count=2, draw="random"), seed=0)
    assert fixed != swaps(label_flip(ON, count=2), seed=1)
    named = label_flip(ON, pairs=[[0, 2], [3, 5]])
    assert swaps(named, 0) == swaps(named, 7) == [[2, 1, 0, 5, 4, 3, 6, 7, 8, 9]] * 6


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_a_share_of_the_clients_lies(share: float) -> None:
    spec = label_flip(ON, attackers=share, pairs=[[0, 2]])
    liars = spec.liars(10, seed=4)
    assert len(set(liars)) == len(liars) == round(10 * share)
    plain, fed = ON.open(4), spec.open(4)
    swap = torch.tensor([2, 1, 0, *range(3, 10)])
    for client in range(10):
        honest, told = plain.data(client).labels, fed.data(client).labels
        assert torch.equal(told, swap[honest] if client in liars else honest)
        assert torch.equal(swap[told] if client in liars else told, honest)
    assert torch.equal(plain.train.inputs, fed.train.inputs)


def test_who_lies_is_drawn_by_the_seed() -> None:
    spec = label_flip(ON, attackers=0.3)
    assert spec.liars(10, 0) == spec.liars(10, 0)
    drawn = Counter(client for seed in range(200) for client in spec.liars(10, seed))
    assert all(30 < drawn[client] < 90 for client in range(10))  # 60 expected, standard deviation 6.5


@pytest.mark.parametrize("pool", [False, True])
def test_what_is_for_testing_is_left_alone(pool: bool) -> None:
    plain = digits(clients=10, split=0.7, pool=pool)
    honest, lying = plain.open(0), label_flip(plain, attackers=1.0, pairs=[[0, 1], [2, 3]]).open(0)
    assert torch.equal(honest.test.labels, lying.test.labels)
    for client in range(10):
        own, theirs = honest.own_test(client), lying.own_test(client)
        assert own is not None
        assert theirs is not None
        assert torch.equal(own.labels, theirs.labels)
        assert not torch.equal(honest.data(client).labels, lying.data(client).labels)


@given(seed=st.integers(0, 10**6))
def test_pairs_within_and_across_superclasses(seed: int) -> None:
    """Twenty labels in ten pairs, by CIFAR-100's own map."""
    coarse = np.array(FINE_TO_COARSE)
    for among in ("intra", "extra"):
        pairs = label_flip(cifar100(), count=10, among=among)._drawn(100, numpy_generator(seed, "label pairs"))
        labels = [label for pair in pairs for label in pair]
        assert len(set(labels)) == 20
        shared = [coarse[a] == coarse[b] for a, b in pairs]
        assert all(shared) if among == "intra" else not any(shared)
        assert len({coarse[label] for label in labels}) == (10 if among == "intra" else 20)


def test_every_superclass_can_be_drawn() -> None:
    spec = label_flip(cifar100(), count=20, among="intra")
    swap = spec._swap(100, 3, 0).numpy()
    coarse = np.array(FINE_TO_COARSE)
    assert np.array_equal(coarse[swap], coarse)
    assert np.count_nonzero(swap != np.arange(100)) == 40


@pytest.mark.parametrize(
    ("spec", "classes"),
    [
        (label_flip(ON, count=6), 10),
        (label_flip(cifar100(), count=21, among="intra"), 100),
        (label_flip(cifar100(), count=11, among="extra"), 100),
    ],
)
def test_too_many_pairs_are_refused(spec: LabelFlip, classes: int) -> None:
    with pytest.raises(SettingError, match=rf"{spec.count} pairs \({spec.among}\) cannot be drawn from {classes}"):
        spec._swap(classes, 0, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"pairs": [[0, 0]]}, {"pairs": [[0, 1], [1, 2]]}, {"pairs": [[0, 1, 2]]}, {"pairs": [0, 1]}, {"pairs": 3},
        {"pairs": []}, {"pairs": [[0, 1.5]]}, {"pairs": ["01"]}, {"attackers": 1.5}, {"attackers": -0.1},
        {"count": 0}, {"draw": "each"}, {"among": "intr"}, {"among": "intra"}, {"on": 3},
        {"on": cifar100(labels="coarse"), "among": "extra"},
    ],
)  # fmt: skip
def test_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="label_flip: "):
        label_flip(**{"on": ON, **wrong})


def test_a_class_that_is_not_there() -> None:
    with pytest.raises(SettingError, match=r"pair \(3, 10\) names a class that is not there \(0 to 9\)"):
        label_flip(ON, attackers=0.5, pairs=[[3, 10]]).open(0)


def test_it_is_said_as_it_is_printed() -> None:
    spec = label_flip(digits(lda(0), clients=20), attackers=0.1, pairs=[[0, 2], [3, 5]], draw="random")
    assert parse(repr(spec), "data set") == spec
    assert "pairs=[[0, 2], [3, 5]]" in repr(spec)
