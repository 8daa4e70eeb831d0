"""Clients drawn from the seed when needed: linear labels, or sayings in dialects.

**synthetic**: after Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020
(FedProx), section 5.1, with two kinds of heterogeneity:

    s_j = j^-0.6                              the deviation of feature j: its variance is j^-1.2
    x   = s (z + beta v_k)                    an input of client k; z and v_k standard normal
    y   = argmax((W + alpha U_k) [x, 1])      its label; W (shared) and U_k (its own) normal

In FedProx a client's own model has nothing in common with the others' for any alpha, so no model
can serve all clients. Here ``alpha = 0`` is one model for all, and ``alpha = beta = 0`` is IID. The
larger alpha, the less the models agree; the larger beta, the further apart are the inputs and so
the labels of the clients.

**sayings**: texts from a small grammar for next-character prediction.

    the old miller counts three grey geese by the river.
    da old milla counts dree grey geeze by da rriva.

A dialect changes the spelling of words; a client prefers some words. So clients differ in two ways.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from torch import Tensor

from fedflat.core.seeds import numpy_generator, torch_generator
from fedflat.data.examples import ClientData, Examples
from fedflat.data.federation import DataSpec, OnDemand
from fedflat.errors import LARGEST_SEED, MOST_AT_ONCE, MOST_WEIGHTS, number
from fedflat.registry.specs import register

TESTED = 500
"""Most clients with examples in the test set."""
TEST = 2_000
"""Least number of examples in the test set."""


@dataclass(frozen=True, repr=False)
class Synthetic(DataSpec):
    """Any number of clients, drawn from the seed (after FedProx's synthetic(alpha, beta)).

    clients
        The number of clients, K: ten or ten million cost the same.
    examples
        Examples per client.
    features, classes
        The length of an input, and the number of classes.
    alpha
        How much the clients' models differ, from 0.
    beta
        How far apart the clients' inputs are, in standard deviations, from 0.
    seed
        Seed of everything. ``None``: the seed of the run.

    The test set has new examples of up to 500 clients, evenly spaced.

    >>> fed = synthetic(clients=10**6).open(seed=0)
    >>> fed.population, len(fed.data(999_999)), fed.shape
    (1000000, 20, (64,))
    """

    origin = "is drawn from the seed"

    _: KW_ONLY
    clients: int = 1000
    examples: int = 20
    features: int = 64
    classes: int = 10
    alpha: float = 0.5
    beta: float = 0.5
    seed: int | None = None

    def __post_init__(self) -> None:
        number("synthetic", "clients", self.clients, low=1, whole=True)
        for name in ("examples", "features"):
            number("synthetic", name, getattr(self, name), low=1, high=MOST_AT_ONCE, whole=True)
        number("synthetic", "classes", self.classes, low=2, high=MOST_AT_ONCE, whole=True)
        numbers = self.features * (self.examples + self.classes)
        number("synthetic", "features times examples and classes", numbers, high=MOST_WEIGHTS)
        number("synthetic", "alpha", self.alpha, low=0)
        number("synthetic", "beta", self.beta, low=0)
        if self.seed is not None:
            number("synthetic", "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)

    def open(self, seed: int) -> OnDemand:
        maker = SyntheticMaker(self, seed if self.seed is None else self.seed)
        return OnDemand(self.clients, maker, maker.test())


class SyntheticMaker:
    """Draws the examples of a client; its size does not depend on the number of clients."""

    def __init__(self, spec: Synthetic, seed: int) -> None:
        self.spec, self.seed = spec, seed
        self.rule = torch.randn(
            spec.features + 1, spec.classes, generator=torch_generator(seed, "synthetic/rule")
        )
        self.spread = torch.arange(1, spec.features + 1, dtype=torch.float32) ** -0.6

    def __call__(self, client: int) -> Examples:
        return self._draw(client, None)

    def test(self) -> ClientData:
        """New examples of clients that are evenly spaced."""
        spec = self.spec
        count = min(spec.clients, TESTED)
        each = -(-TEST // count)
        sets = [self._draw(place * spec.clients // count, each) for place in range(count)]
        x, y = torch.cat([part.inputs for part in sets]), torch.cat([part.targets for part in sets])
        return ClientData(Examples(x, y, spec.classes), torch.arange(len(y)))

    def _draw(self, client: int, more: int | None) -> Examples:
        """A client's training examples, or ``more`` new examples of it."""
        spec = self.spec
        rng = torch_generator(self.seed, "synthetic/client", client)
        sizes = ((spec.features + 1) * spec.classes, spec.features, spec.examples * spec.features)
        own, shift, z = torch.randn(sum(sizes), generator=rng).split(sizes)
        if more is not None:
            z = torch.randn(more * spec.features, generator=rng)
        rule = torch.add(self.rule, own.view_as(self.rule), alpha=spec.alpha)
        x = torch.add(z.view(-1, spec.features), shift, alpha=spec.beta).mul_(self.spread)
        return Examples(x, _labels(rule, x), spec.classes)


def _labels(rule: Tensor, x: Tensor) -> Tensor:
    return torch.addmm(rule[-1], x, rule[:-1]).argmax(1)


synthetic = register("data set", "synthetic")(Synthetic)


LETTERS = "\n abcdefghijklmnopqrstuvwxyz.,'"
"""The characters. The first marks both ends of a saying and pads shorter ones."""
IGNORED = -1
"""The target where no character follows."""
SPEAKERS_TESTED, SAYINGS_TESTED = 100, 300
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
        count = min(self.spec.clients, SPEAKERS_TESTED)
        each = -(-SAYINGS_TESTED // count)
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
    x = np.zeros((len(texts), length), np.int64)
    y = np.full((len(texts), length), IGNORED, np.int64)
    for row, text in enumerate(texts):
        indices = [0, *(place[letter] for letter in text), 0][: length + 1]
        x[row, : len(indices) - 1], y[row, : len(indices) - 1] = indices[:-1], indices[1:]
    return Examples(torch.from_numpy(x), torch.from_numpy(y), len(LETTERS))


sayings = register("data set", "sayings")(Sayings)
