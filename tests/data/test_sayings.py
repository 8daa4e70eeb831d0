"""Texts of unequal length in dialects: deterministic, padded with what does not count,
learnable."""

from __future__ import annotations

import pickle
import tracemalloc

import pytest
import torch

from fedflat import sayings
from fedflat.data.sets.synthetic import CHANGED, CHANGES, IGNORED, LETTERS, SayingsMaker, encode
from fedflat.errors import SettingError
from fedflat.registry.specs import parse


def text(row: torch.Tensor) -> str:
    return "".join(LETTERS[number] for number in row.tolist())


def test_the_target_is_the_next_letter_and_nothing_after_the_end() -> None:
    fed = sayings(clients=7, examples=30).open(3)
    examples = fed.data(2).examples
    output = SayingsMaker(sayings(clients=7, examples=30), 3).speak(2, 30, 0)
    assert examples.inputs.dtype == examples.targets.dtype == torch.long
    lengths = set()
    for x, y, spoken in zip(examples.inputs, examples.targets, output, strict=True):
        count = int((y != IGNORED).sum())
        assert text(x[:count]) == ("\n" + spoken)[:count]
        assert text(y[:count]) == (spoken + "\n")[:count]
        assert (y[count:] == IGNORED).all()
        assert (x[count:] == 0).all()
        assert count == min(len(spoken) + 1, 72)
        lengths.add(count)
    assert len(lengths) > 5


def test_long_sayings_are_cut_and_short_ones_filled_up() -> None:
    examples = encode(["abc", "a"], 3)
    assert examples.inputs.tolist() == [[0, 2, 3], [0, 2, 0]]
    assert examples.targets.tolist() == [[2, 3, 4], [2, 0, IGNORED]]


def test_a_client_is_the_same_whenever_it_is_asked_for_and_the_test_set_is_new() -> None:
    spec = sayings(clients=10**9, examples=10)
    fed, again = spec.open(5), pickle.loads(pickle.dumps(spec.open(5)))
    assert torch.equal(fed.data(10**8).examples.inputs, again.data(10**8).examples.inputs)
    assert not torch.equal(fed.data(1).examples.inputs, fed.data(2).examples.inputs)
    assert not torch.equal(spec.open(6).data(1).examples.inputs, fed.data(1).examples.inputs)
    assert len(fed.test) == 300
    maker = SayingsMaker(sayings(clients=2), 0)
    assert not set(maker.speak(1, 20, 0)) & set(maker.speak(1, 20, 1)) or maker.speak(
        1, 20, 0
    ) != maker.speak(1, 20, 1)


def test_dialects_are_spelt_differently_and_the_first_as_in_a_book() -> None:
    maker = SayingsMaker(sayings(clients=20, dialects=5), 0)
    assert maker.dialect(0) == []
    rules = [tuple(maker.dialect(which)) for which in range(1, 5)]
    assert len(set(rules)) == 4
    assert all(len(rule) == CHANGED and set(rule) <= set(CHANGES) for rule in rules)
    plain = SayingsMaker(sayings(clients=20, dialects=1), 0)
    for client in (0, 5, 7):
        spelt = plain.speak(client, 8, 0)
        for old, new in maker.dialect(client % 5):
            spelt = [output.replace(old, new) for output in spelt]
        assert maker.speak(client, 8, 0) == spelt


def words(alpha: float) -> float:
    """How many different words clients use, on the average."""
    maker = SayingsMaker(sayings(alpha=alpha, dialects=1), 0)
    counts = [
        len({word for output in maker.speak(client, 40, 0) for word in output.split()})
        for client in range(10)
    ]
    return sum(counts) / len(counts)


def test_clients_use_fewer_words_with_a_small_alpha() -> None:
    assert words(0.05) + 10 < words(0.5) < words(100.0) - 3


def test_every_letter_is_known() -> None:
    maker = SayingsMaker(sayings(clients=50, dialects=50), 1)
    assert {
        letter for client in range(50) for output in maker.speak(client, 10, 0) for letter in output
    } < set(LETTERS)


def test_its_text_is_printed_again_and_wrong_settings_are_refused() -> None:
    output = "sayings(clients=12, dialects=2, length=40, seed=3)"
    assert repr(parse(output, "data set")) == output
    wrongs = (
        ("dialects=0", "dialects"),
        ("alpha=0", "alpha must be a number above 0"),
        ("length=0", "length"),
    )
    for wrong, sentence in wrongs:
        with pytest.raises(SettingError, match=f"sayings: {sentence}"):
            parse(f"sayings({wrong})", "data set")


def test_many_clients_cost_no_memory() -> None:
    tracemalloc.start()
    sayings(clients=10**12).open(0).data(10**11)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
