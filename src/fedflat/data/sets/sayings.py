"""Sayings nobody ever said, from a small grammar, in the dialect of whoever says them: texts for
the next letter.

    the old miller counts three grey geese by the river.
    da old milla counts dree grey geeze by da rriva.

A dialect changes how words are spelt; a speaker of it has words he likes. So clients differ in two
ways, and both are drawn from the seed when a client is asked for.
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
"""All there are; the first stands at both ends of a saying, and where a shorter one is filled
up."""
IGNORED = -1
"""The target where nothing comes next."""
TESTED, TEST = 100, 300
"""The most clients whose sayings are in the test set, and how many there are, at least."""

WORDS = {
    "who": "miller weaver baker shepherd fisher widow king beggar cook singer thief crow hare fox ghost".split(),
    "how": "old young grey quiet hungry clever lucky tired foolish little good wise".split(),
    "does": "counts steals sells hides follows loses finds washes forgets paints feeds chases".split(),
    "many": "no two three seven many few other enough".split(),
    "what": "geese apples roofs spoons stones songs shadows candles letters boots onions clocks".split(),
    "where": "by the river,in the rain,under the bridge,after supper,before winter,without shoes".split(
        ","
    ),
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
"""How many changes make a dialect; the first has none."""


@dataclass(frozen=True, repr=False)
class Sayings(DataSpec):
    """Made-up sayings in dialects, letter by letter, drawn from the seed: texts of unequal length,
    for the next letter.

    clients
        The number of clients, K: each speaks one dialect.
    examples
        Sayings of each client.
    dialects
        How many there are, dealt out evenly. The first is spelt as in a book.
    alpha
        How evenly a client uses its words: large is evenly, near 0 is a few words only.
    length
        Letters of a saying at most; the rest is cut off.
    seed
        Decides everything. ``None``: the seed of the run does.

    The test set has new sayings of up to 100 clients, taken evenly.

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
        """The federation for this seed, unless these data have their own."""
        maker = SayingsMaker(self, seed if self.seed is None else self.seed)
        return OnDemand(self.clients, maker, maker.test())


class SayingsMaker:
    """Lets a client speak."""

    def __init__(self, spec: Sayings, seed: int) -> None:
        self.spec, self.seed = spec, seed

    def __call__(self, client: int) -> Examples:
        """What ``client`` trains on."""
        return encoded(self.speak(client, self.spec.examples, 0), self.spec.length)

    def test(self) -> ClientData:
        """New sayings of clients taken evenly from all of them."""
        count = min(self.spec.clients, TESTED)
        each = -(-TEST // count)
        said = [
            text
            for place in range(count)
            for text in self.speak(place * self.spec.clients // count, each, 1)
        ]
        examples = encoded(said, self.spec.length)
        return ClientData(examples, torch.arange(len(examples)))

    def speak(self, client: int, count: int, occasion: int) -> list[str]:
        """So many sayings of a client; on another occasion it says others."""
        taste, rng = (
            numpy_generator(self.seed, "sayings/client", client, which)
            for which in (0, 1 + occasion)
        )
        liked = {kind: _shares(taste, self.spec.alpha, len(words)) for kind, words in WORDS.items()}
        changes = self.dialect(client % self.spec.dialects)
        return [_spelt(_saying(rng, liked), changes) for _ in range(count)]

    def dialect(self, which: int) -> list[tuple[str, str]]:
        """How a dialect changes words, in order."""
        rng = numpy_generator(self.seed, "sayings/dialect", which)
        return [
            CHANGES[place] for place in rng.permutation(len(CHANGES))[: CHANGED if which else 0]
        ]


def _shares(
    rng: np.random.Generator, alpha: float, count: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    drawn = rng.standard_gamma(alpha, count) + 1e-12
    return np.asarray(drawn / drawn.sum()).reshape(count)


def _saying(
    rng: np.random.Generator, liked: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]
) -> str:
    said = []
    for word in SHAPES[rng.integers(len(SHAPES))].split():
        kind = word.rstrip(".,")
        if kind in WORDS:
            said.append(
                WORDS[kind][rng.choice(len(WORDS[kind]), p=liked[kind])] + word[len(kind) :]
            )
        else:
            said.append(word)
    return " ".join(said)


def _spelt(text: str, changes: list[tuple[str, str]]) -> str:
    for old, new in changes:
        text = text.replace(old, new)
    return text


def encoded(texts: list[str], length: int) -> Examples:
    """Texts as numbers of letters, and the letter that comes next at each place.

    >>> both = encoded(["ab"], 4)
    >>> both.batch(torch.tensor([0]), torch.float32)
    Batch(inputs=tensor([[0, 2, 3, 0]]), targets=tensor([[ 2,  3,  0, -1]]))
    """
    place = {letter: number for number, letter in enumerate(LETTERS)}
    x, y = (
        np.zeros((len(texts), length), np.int64),
        np.full((len(texts), length), IGNORED, np.int64),
    )
    for row, text in enumerate(texts):
        said = [0, *(place[letter] for letter in text), 0][: length + 1]
        x[row, : len(said) - 1], y[row, : len(said) - 1] = said[:-1], said[1:]
    return Examples(torch.from_numpy(x), torch.from_numpy(y), len(LETTERS))


sayings = register("data set", "sayings")(Sayings)
