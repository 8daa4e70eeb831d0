from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflat import iid, lda, pam, pathological
from fedflat.data.sets.cifar import FINE_TO_COARSE
from fedflat.errors import SettingError, SpellingError
from fedflat.registry.specs import parse

CIFAR10 = np.repeat(np.arange(10), 5000)
CIFAR100 = np.repeat(np.arange(100), 500)
COARSE = np.array(FINE_TO_COARSE)[CIFAR100]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def assert_dealt(parts: list[np.ndarray], examples: int) -> None:
    """Every example is in exactly one part, and every part is sorted."""
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(examples))
    assert all((np.diff(part) > 0).all() for part in parts)


def classes_per_client(labels: np.ndarray, parts: list[np.ndarray]) -> float:
    return float(np.mean([len(np.unique(labels[part])) for part in parts]))


labelled = st.lists(st.integers(0, 6), min_size=1, max_size=120).map(
    lambda y: np.array(y, np.int64)
)
alphas = st.one_of(
    st.sampled_from([1e-300, 1e-12, 1e-3, 0.05, 1.0, 100.0, 1e6, 1e300]), st.floats(1e-6, 1e6)
)


@given(labelled, st.data(), st.integers(0, 99))
def test_iid_deals_everything_evenly(labels, data, seed):
    clients = data.draw(st.integers(1, len(labels)))
    parts = iid().assign(labels, clients, rng(seed))
    assert_dealt(parts, len(labels))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(
    labelled,
    st.data(),
    alphas,
    st.sampled_from(["total", "component"]),
    st.booleans(),
    st.integers(0, 99),
)
def test_lda_deals_everything_evenly(labels, data, alpha, concentration, in_turns, seed):
    clients = data.draw(st.integers(1, len(labels)))
    parts = lda(alpha, concentration, in_turns).assign(labels, clients, rng(seed))
    assert len(parts) == clients
    assert_dealt(parts, len(labels))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 7), st.integers(0, 99))
def test_lda_zero_gives_one_class_to_each_client_when_it_divides(classes, owners, size, seed):
    labels = rng(seed).permutation(np.repeat(np.arange(classes), owners * size))
    parts = lda(0).assign(labels, classes * owners, rng(seed))
    assert_dealt(parts, len(labels))
    assert {len(part) for part in parts} == {size}
    held = [np.unique(labels[part]) for part in parts]
    assert {len(one) for one in held} == {1}
    assert np.bincount(np.concatenate(held)).tolist() == [owners] * classes


@given(labelled, st.data())
def test_lda_zero_never_loses_an_example(labels, data):
    classes, smallest = len(np.unique(labels)), np.unique(labels, return_counts=True)[1].min()
    clients = data.draw(st.integers(1, int(classes * smallest)))
    parts = lda(0).assign(labels, clients, rng())
    assert len(parts) == clients
    assert_dealt(parts, len(labels))
    assert min(map(len, parts)) >= 1
    if clients >= classes:
        assert classes_per_client(labels, parts) == 1


def test_lda_zero_shuffles_which_client_has_which_class():
    first = [lda(0).assign(CIFAR10, 100, rng(seed))[0][0] // 5000 for seed in range(20)]
    assert len(set(first)) > 3


@pytest.mark.parametrize(
    ("labels", "partition", "expected", "tolerance"),
    [
        (CIFAR10, lda(0.05), 1.3, 0.15),
        (CIFAR10, lda(100), 9.9, 0.1),
        (CIFAR10, lda(0.05, "component"), 3.2, 0.3),
        (CIFAR100, lda(0.5), 3.8, 0.3),
        (CIFAR100, lda(0.5, "component"), 66, 3),
    ],
)
def test_lda_has_the_classes_per_client_of_its_parametrisation(
    labels, partition, expected, tolerance
):
    found = [
        classes_per_client(labels, partition.assign(labels, 100, rng(seed))) for seed in range(5)
    ]
    assert np.mean(found) == pytest.approx(expected, abs=tolerance)


def test_in_turns_no_client_gets_only_leftovers():
    """Of 20 clients whose mixture is one class, the last have leftovers of many; in turns most have
    some of them."""

    def largest_shares(in_turns: bool) -> np.ndarray:
        parts = lda(1e-6, in_turns=in_turns).assign(CIFAR10, 20, rng(1))
        return np.array([np.bincount(CIFAR10[part]).max() / len(part) for part in parts])

    in_order, in_turns = largest_shares(False), largest_shares(True)
    assert (in_order[:5] == 1).all()
    assert in_order[-5:].mean() < in_turns[-5:].mean()
    assert ((in_turns > 0.5) & (in_turns < 1)).mean() > 0.5


def test_lda_approaches_the_prior():
    """For q = prior, a client of n examples has class c n p(c) times, give or take sqrt(n p (1 -
    p))."""
    labels = np.repeat([0, 1, 2], [6000, 3000, 1000])
    parts = lda(1e9).assign(labels, 10, rng())
    for part in parts[:5]:
        share = np.bincount(labels[part], minlength=3) / len(part)
        assert np.abs(share - [0.6, 0.3, 0.1]).max() < 5 * np.sqrt(0.25 / len(part))


def test_lda_follows_the_prior_of_unbalanced_classes():
    """With a tiny total concentration the first client has class c with the probability of class
    c."""
    labels = np.repeat([0, 1], [900, 100])
    first = [labels[lda(1e-9).assign(labels, 20, rng(seed))[0]] for seed in range(400)]
    assert all(len(np.unique(one)) == 1 for one in first)
    share = np.mean([one[0] for one in first])
    assert abs(share - 0.1) < 4 * np.sqrt(0.09 / 400)


@pytest.mark.parametrize("partition", [lda(0.1), lda(0), iid(), pathological(2)])
def test_same_seed_same_clients(partition):
    one, two, other = (partition.assign(CIFAR10, 100, rng(seed)) for seed in (4, 4, 5))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: lda(-0.1), "alpha must be a number of at least 0"),
        (lambda: lda(float("nan")), "alpha must be"),
        (lambda: lda(float("inf")), "alpha must be"),
        (lambda: lda("a"), "alpha must be"),
        (lambda: lda(1, "totl"), "Did you mean 'total'"),
        (lambda: pam(coarse_alpha=0), "coarse_alpha must be a number above 0"),
        (lambda: pam(fine_alpha=-1), "fine_alpha"),
        (lambda: pathological(0), "classes_per_client must be a whole number of at least 1"),
        (lambda: pathological(1.5), "classes_per_client"),
    ],
)
def test_wrong_settings_are_refused_at_once(wrong, message):
    with pytest.raises(SettingError, match=message):
        wrong()


@pytest.mark.parametrize("partition", [iid(), lda(0), lda(1.0), pathological(1), pam()])
def test_more_clients_than_examples(partition):
    with pytest.raises(SettingError, match="7 clients need at least 7 examples, found 6"):
        partition.assign(np.arange(6) % 2, 7, rng(), coarse=np.zeros(6, np.int64))


def test_lda_zero_with_a_class_too_small_for_its_clients():
    with pytest.raises(SettingError, match="2 clients share a class of 1 examples"):
        lda(0).assign(np.array([0, 0, 0, 0, 1]), 4, rng())


def test_pam_draws_coarse_then_fine():
    """Few coarse classes for each client, and several fine ones inside a coarse one."""
    parts = pam().assign(CIFAR100, 500, rng(), coarse=COARSE)
    assert_dealt(parts, 50_000)
    assert {len(part) for part in parts} == {100}
    fine = classes_per_client(CIFAR100, parts[:200])
    groups = classes_per_client(COARSE, parts[:200])
    # Polya's urn with 0.1 for each of 20 kinds: draw i misses a kind not yet seen with (1.9 + i) /
    # (2 + i).
    unseen = np.prod([(1.9 + i) / (2 + i) for i in range(100)])
    assert groups == pytest.approx(20 * (1 - unseen), rel=0.1)
    assert fine > 2 * groups


def test_pam_with_one_coarse_class_is_close_to_the_prior():
    parts = pam(fine_alpha=1e6).assign(CIFAR100, 10, rng(), coarse=np.zeros_like(CIFAR100))
    assert_dealt(parts, 50_000)
    assert classes_per_client(CIFAR100, parts[:5]) == 100


@given(st.integers(1, 30), st.integers(0, 50))
def test_pam_deals_everything_evenly(clients, seed):
    labels = rng(seed).integers(0, 8, size=60)
    parts = pam().assign(labels, clients, rng(seed), coarse=labels // 3)
    assert_dealt(parts, 60)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_pam_needs_coarse_labels_that_contain_the_fine_ones():
    with pytest.raises(SettingError, match=r"no coarse labels. Use cifar100"):
        pam().assign(CIFAR10, 10, rng())
    with pytest.raises(SettingError, match=r"fine class 1 is in the coarse classes \[0, 1\]"):
        pam().assign(np.array([0, 1, 1]), 1, rng(), coarse=np.array([0, 0, 1]))


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 4), st.data())
def test_pathological_gives_distinct_classes(classes, clients, size, data):
    each = data.draw(st.integers(1, classes))
    shards, rest = divmod(each * clients, classes)
    labels = np.repeat(np.arange(classes), max(shards, 1) * size)
    partition = pathological(each)
    if rest:
        with pytest.raises(SettingError, match="multiple of"):
            partition.assign(np.repeat(np.arange(classes), 200), clients, rng())
        return
    parts = partition.assign(labels, clients, rng(data.draw(st.integers(0, 50))))
    assert_dealt(parts, len(labels))
    assert {len(part) for part in parts} == {each * size}
    assert {len(np.unique(labels[part])) for part in parts} == {each}


def test_pathological_refuses():
    with pytest.raises(SettingError, match="3 classes for each of 5 clients are 15 shards"):
        pathological(3).assign(np.repeat([0, 1, 2, 3], 100), 5, rng())
    with pytest.raises(SettingError, match="there are 2 classes, found 3"):
        pathological(3).assign(np.repeat([0, 1], 100), 5, rng())
    with pytest.raises(SettingError, match="into 4 shards, but the smallest has 3"):
        pathological(2).assign(np.repeat([0, 1], [20, 3]), 4, rng())


def test_fine_to_coarse_map():
    """Twenty coarse classes of five, and some groups by their places among the alphabetical class
    names."""
    assert np.bincount(FINE_TO_COARSE).tolist() == [5] * 20
    groups = {
        14: [2, 11, 35, 46, 98],  # baby, boy, girl, man, woman
        17: [47, 52, 56, 59, 96],  # maple, oak, palm, pine, willow
        4: [0, 51, 53, 57, 83],  # apple, mushroom, orange, pear, sweet pepper
        1: [1, 32, 67, 73, 91],  # aquarium fish, flatfish, ray, shark, trout
        2: [54, 62, 70, 82, 92],  # orchid, poppy, rose, sunflower, tulip
    }
    for coarse, fine in groups.items():
        assert [k for k, group in enumerate(FINE_TO_COARSE) if group == coarse] == fine


@pytest.mark.parametrize(
    "text",
    [
        "iid()",
        "lda(0)",
        "lda(0.5, concentration='component', in_turns=True)",
        "pam()",
        "pam(fine_alpha=5.0)",
        "pathological(2)",
    ],
)
def test_its_text_is_printed_again(text):
    assert repr(parse(text, "partition")) == text


def test_misspelt_partition():
    with pytest.raises(SpellingError, match="Did you mean 'lda'"):
        parse("ldaa(0)", "partition")
