"""Synthetic sayings from a small grammar in dialects: texts for next-character prediction.

    the old miller counts three grey geese by the river.
    da old milla counts dree grey geeze by da rriva.

A dialect changes the spelling of words; a client prefers some words. So clients differ in two ways.
Both are drawn from the seed when a client is needed.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch

from fedflat.core.seeds import numpy_generator
from fedflat.data.examples import ClientData, Examples
from fedflat.data.federation import DataSpec, OnDemand
from fedflat.errors import LARGEST_SEED, MOST_AT_ONCE, number
from fedflat.registry.specs import register

LETTERS = "\n abcdefghijklmnopqrstuvwxyz.,'"
"""The characters. The first marks both ends of a saying and pads shorter ones."""
IGNORED = -1
"""The target where no character follows."""
TESTED, TEST = 100, 300
"""Most clients with sayings in the test set, and the least number of sayings."""

WORDS = {
    "who": (
        "miller weaver baker shepherd fisher widow king beggar cook singer thief crow hare fox "
        "ghost"
    ).split(),
    "how": "old young grey quiet hungry clever lucky tired foolish little good wise".split(),
    "does": (
        "counts steals sells hides follows loses finds washes forgets paints feeds chases"
    ).split(),
    "many": "no two three seven many few other enough".split(),
    "what": (
        "geese apples roofs spoons stones songs shadows candles letters boots onions clocks"
    ).split(),
    "where": (
        "by the river,in the rain,under the bridge,after supper,before winter,without shoes"
    ).split(","),
    "moral": "who hurries is late,rain falls on both,an egg is no hen,the moon does not mind".split(
        ","
    ),
}
SHAPES = (
    "the how who does many how what where.",
    "a how who does what, moral.",
    "where the who does many what.",
    "no who does what where, moral.",
    "moral, said the how who.",
)
CHANGES = (
    ("th", "d"),
    ("ing", "in'"),
    ("er", "a"),
    ("oo", "u"),
    ("w", "v"),
    ("r", "rr"),
    ("ck", "kk"),
    ("s ", "z "),
    ("ou", "ow"),
    ("h", "'"),
    ("ee", "i"),
    ("t", "tt"),
    ("and", "un"),
    ("a", "o"),
    ("v", "f"),
    ("l", "w"),
)
CHANGED = 4
"""The number of changes per dialect; the first dialect has none."""


@dataclass(frozen=True, repr=False)
class Sayings(DataSpec):
    """Synthetic sayings in dialects for next-character prediction, drawn from the seed.

    clients
        The number of clients, K; each has one dialect.
    examples
        Sayings per client.
    dialects
        The number of dialects, divided evenly. The first has standard spelling.
    alpha
        How evenly a client uses its words: large is even, near 0 is a few words only.
    length
        Most characters of a saying; the rest is cut off.
    seed
        Seed of everything. ``None``: the seed of the run.

    The test set has new sayings of up to 100 clients, evenly spaced.

    >>> fed = sayings(clients=5).open(seed=0)
    >>> fed.data(0).examples.shape, fed.classes
    ((72,), 31)
    """

    usual_task = "next_character()"
    origin = "is drawn from the seed"

    _: KW_ONLY
    clients: int = 100
    examples: int = 20
    dialects: int = 5
    alpha: float = 1.0
    length: int = 72
    seed: int | None = None

    def __post_init__(self) -> None:
        number("sayings", "clients", self.clients, low=1, whole=True)
        for name, most in (
            ("examples", MOST_AT_ONCE),
            ("dialects", MOST_AT_ONCE),
            ("length", 1000),
        ):
            number("sayings", name, getattr(self, name), low=1, high=most, whole=True)
        number("sayings", "alpha", self.alpha, low=0, open_low=True)
        if self.seed is not None:
            number("sayings", "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)

    def open(self, seed: int) -> OnDemand:
        maker = SayingsMaker(self, seed if self.seed is None else self.seed)
        return OnDemand(self.clients, maker, maker.test())


class SayingsMaker:
    """Makes the sayings of a client."""

    def __init__(self, spec: Sayings, seed: int) -> None:
        self.spec, self.seed = spec, seed

    def __call__(self, client: int) -> Examples:
        return encode(self.speak(client, self.spec.examples, 0), self.spec.length)

    def test(self) -> ClientData:
        """New sayings of clients that are evenly spaced."""
        count = min(self.spec.clients, TESTED)
        each = -(-TEST // count)
        texts = [
            text
            for place in range(count)
            for text in self.speak(place * self.spec.clients // count, each, 1)
        ]
        examples = encode(texts, self.spec.length)
        return ClientData(examples, torch.arange(len(examples)))

    def speak(self, client: int, count: int, occasion: int) -> list[str]:
        """``count`` sayings of a client; another ``occasion`` gives others."""
        taste, rng = (
            numpy_generator(self.seed, "sayings/client", client, which)
            for which in (0, 1 + occasion)
        )
        liked = {kind: _shares(taste, self.spec.alpha, len(words)) for kind, words in WORDS.items()}
        changes = self.dialect(client % self.spec.dialects)
        return [_spelt(_saying(rng, liked), changes) for _ in range(count)]

    def dialect(self, which: int) -> list[tuple[str, str]]:
        """The changes of spelling of a dialect, in order."""
        rng = numpy_generator(self.seed, "sayings/dialect", which)
        return [
            CHANGES[place] for place in rng.permutation(len(CHANGES))[: CHANGED if which else 0]
        ]


def _shares(
    rng: np.random.Generator, alpha: float, count: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights = rng.standard_gamma(alpha, count) + 1e-12
    return np.asarray(weights / weights.sum()).reshape(count)


def _saying(
    rng: np.random.Generator, liked: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]
) -> str:
    words = []
    for word in SHAPES[rng.integers(len(SHAPES))].split():
        kind = word.rstrip(".,")
        if kind in WORDS:
            words.append(
                WORDS[kind][rng.choice(len(WORDS[kind]), p=liked[kind])] + word[len(kind) :]
            )
        else:
            words.append(word)
    return " ".join(words)


def _spelt(text: str, changes: list[tuple[str, str]]) -> str:
    for old, new in changes:
        text = text.replace(old, new)
    return text


def encode(texts: list[str], length: int) -> Examples:
    """Texts as indices of characters, and the next character at each position.

    >>> both = encode(["ab"], 4)
    >>> both.batch(torch.tensor([0]), torch.float32)
    Batch(inputs=tensor([[0, 2, 3, 0]]), targets=tensor([[ 2,  3,  0, -1]]))
    """
    place = {letter: number for number, letter in enumerate(LETTERS)}
    x, y = (
        np.zeros((len(texts), length), np.int64),
        np.full((len(texts), length), IGNORED, np.int64),
    )
    for row, text in enumerate(texts):
        indices = [0, *(place[letter] for letter in text), 0][: length + 1]
        x[row, : len(indices) - 1], y[row, : len(indices) - 1] = indices[:-1], indices[1:]
    return Examples(torch.from_numpy(x), torch.from_numpy(y), len(LETTERS))


sayings = register("data set", "sayings")(Sayings)
