"""Stack Overflow's questions and answers, one client for each of 342,477 people: which word comes
next?

The files are those of TensorFlow Federated: ``stackoverflow.sqlite`` (its
``stackoverflow.sqlite.lzma``, unpacked) with the tables ``examples(split_name, client_id,
serialized_example_proto)`` and ``client_metadata(client_id, split_name, num_examples)``, and
``stackoverflow.word_count`` with a word and a number a line, the most frequent first. Nobody's
sentences are read before they are asked for.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from fedflat.core.seeds import numpy_generator
from fedflat.data.examples import ClientData, Examples
from fedflat.data.federation import OnDemand
from fedflat.data.files.paths import FileLayout, locate
from fedflat.data.files.tf_example import text_of
from fedflat.data.named_set import FileSet
from fedflat.data.natural_set import drawn
from fedflat.data.partitions.by_user import ByUser
from fedflat.data.partitions.partition import Partition
from fedflat.data.raw import RawSet
from fedflat.errors import MOST_AT_ONCE, DataError, SettingError, number, shown
from fedflat.files import open_text
from fedflat.registry.specs import register

EVERY = 100_000
INSTRUCTIONS = 20
"""Instructions of SQLite for each byte of the file: finding and sorting a row takes about 30, and
no row has fewer than ten bytes."""
LONGEST_VALUE = 2**26
"""Bytes of the longest value."""
SPECIAL = 4
"""Numbers that are no words: 0 fills up, and after the words come an unknown word, the beginning
and the end."""


@dataclass(frozen=True, repr=False)
class StackOverflow(FileSet):
    """Sentences from Stack Overflow, each word and the one that comes next; a client is a person.

    clients
        So many people are drawn.
    vocabulary
        The most frequent words that are known; four numbers more are for what is no word or unknown.
    length
        Words that go in: longer sentences are cut, shorter ones filled up with 0, which is no target
        (``next_character(ignore=0)``).
    most
        Sentences of a person, the first ones; None: all.
    tests
        At least so many sentences to test on, of people drawn from the set's own test part.
    """

    usual_task = "next_character(ignore=0)"
    layout = FileLayout(("stackoverflow",), ("stackoverflow.sqlite", "stackoverflow.word_count"))
    by_hand = (
        "They are stackoverflow.sqlite.lzma and stackoverflow.word_count.tar.bz2 of TensorFlow Federated "
        "(storage.googleapis.com/tff-datasets-public), both unpacked."
    )

    partition: Partition = ByUser()
    clients: int = 1000
    vocabulary: int = 10_000
    length: int = 20
    most: int | None = None
    tests: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.partition, ByUser) or self.split is not None:
            raise SettingError(
                "stackoverflow: clients are people with all they wrote. Leave partition and split out."
            )
        number("stackoverflow", "vocabulary", self.vocabulary, low=1, high=MOST_AT_ONCE, whole=True)
        number("stackoverflow", "length", self.length, low=1, high=10_000, whole=True)
        number("stackoverflow", "tests", self.tests, low=1, high=MOST_AT_ONCE, whole=True)
        if self.most is not None:
            number("stackoverflow", "most", self.most, low=1, whole=True)

    @classmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        """Refused: it does not fit into memory."""
        raise DataError("stackoverflow is read person by person, never as a whole.")

    def open(self, seed: int) -> OnDemand:
        """The federation for this seed, unless the set has its own."""
        seed = seed if self.seed is None else self.seed
        base, counts = locate("stackoverflow", self.layout)
        words = vocabulary(counts, self.vocabulary, counts.stat().st_mtime_ns)
        people = _people(base, "train")
        chosen = drawn("stackoverflow", "people", np.arange(len(people)), self.clients, seed)
        maker = Person(
            base, words, self.length, self.most, "train", tuple(people[k][0] for k in chosen)
        )
        return OnDemand(self.clients, maker, self._test(maker, seed))

    def _test(self, maker: Person, seed: int) -> ClientData:
        """Sentences of people drawn one after the other, until there are enough."""
        people = _people(maker.base, "test")
        names, count = [], 0
        for place in numpy_generator(seed, "test people").permutation(len(people)):
            name, sentences = people[place]
            names.append(name)
            count += sentences
            if count >= self.tests:
                break
        if not names:
            raise DataError(f"{maker.base} has nobody in its part 'test'. Is it whole?")
        asked = Person(maker.base, maker.words, maker.length, None, "test", tuple(names))
        sets = [asked(k) for k in range(len(names))]
        inputs, targets = (
            torch.cat([one.inputs for one in sets]),
            torch.cat([one.targets for one in sets]),
        )
        examples = Examples(inputs, targets, sets[0].classes)
        return ClientData(examples, torch.arange(len(examples)))


@dataclass(frozen=True)
class Person:
    """Makes the examples of a client."""

    base: Path
    words: dict[str, int]
    length: int
    most: int | None
    part: str
    names: tuple[str, ...]

    def __call__(self, client: int) -> Examples:
        """Its sentences as numbers, and the same one word later."""
        where = "WHERE split_name = ? AND client_id = ? ORDER BY rowid LIMIT ?"
        query = f"SELECT serialized_example_proto FROM examples {where}"
        limit = -1 if self.most is None else self.most
        with _base(self.base) as connection:
            rows = connection.execute(query, (self.part, self.names[client], limit)).fetchall()
        try:
            sentences = [text_of(row[0], "tokens") for row in rows]
        except (ValueError, TypeError, IndexError) as error:
            raise DataError(
                f"{self.base}: an example of {self.names[client]} cannot be read: {error}."
            ) from None
        numbers = torch.tensor([self.numbers(text.split()) for text in sentences], dtype=torch.long)
        numbers = numbers.reshape(len(sentences), self.length + 1)
        return Examples(numbers[:, :-1], numbers[:, 1:], len(self.words) + SPECIAL)

    def numbers(self, sentence: list[str]) -> list[int]:
        """The beginning, the words, the end if it fits, and zeros."""
        unknown = len(self.words) + 1
        found = [unknown + 1, *(self.words.get(word, unknown) for word in sentence), unknown + 2][
            : self.length + 1
        ]
        return found + [0] * (self.length + 1 - len(found))


@lru_cache(maxsize=2)
def vocabulary(path: Path, count: int, written: int) -> dict[str, int]:
    """The most frequent words, numbered from 1."""
    words: dict[str, int] = {}
    try:
        with open_text(path) as file:
            for line in file:
                word, _ = line.split()
                words[word] = len(words) + 1
                if len(words) == count:
                    return words
    except (OSError, ValueError) as error:
        raise DataError(f"{path} must have a word and a number on each line: {error}.") from None
    raise DataError(
        f"{path} must have {count} words, found {len(words)}. Say vocabulary={len(words)}."
    )


def _people(base: Path, part: str) -> list[tuple[str, int]]:
    """Everybody in a part of the set, by name, with how many sentences they have."""
    query = "SELECT client_id, num_examples FROM client_metadata WHERE split_name = ? ORDER BY client_id"
    with _base(base) as connection:
        found = connection.execute(query, (part,)).fetchall()
    for name, sentences in found:
        if not isinstance(name, str) or not isinstance(sentences, int) or sentences < 0:
            raise DataError(
                f"{base}: client_metadata must have a text as client_id and a whole number of at least 0 as "
                f"num_examples, found {shown(name)} and {shown(sentences)}. Get it again."
            )
    return found


@contextmanager
def _base(path: Path) -> Iterator[sqlite3.Connection]:
    """The data base, to be read only; its two tables must be tables, and a query must end."""
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            connection.execute(
                "PRAGMA trusted_schema = OFF"
            )  # no functions with side effects in what others wrote
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
            connection.set_progress_handler(_limit(path), EVERY)
            for name in ("examples", "client_metadata"):
                _refuse_view(connection, name)
            yield connection
    except sqlite3.Error as error:
        raise DataError(
            f"{path} is not TensorFlow Federated's data base: {error}. Get it again."
        ) from None


def _refuse_view(connection: sqlite3.Connection, name: str) -> None:
    """Refuse what is called a table and is computed by a query or a module when it is read."""
    kinds = connection.execute(
        "SELECT type, sql FROM sqlite_schema WHERE lower(name) = ?", (name,)
    ).fetchall()
    for kind, made in kinds:
        if kind != "table" or not re.match(r"CREATE\s+TABLE\b", made or "", re.IGNORECASE):
            raise sqlite3.DatabaseError(
                f"{name} must be a plain table, found a {kind} made by {shown(made)}"
            )


def _limit(path: Path) -> Callable[[], bool]:
    """Called every `EVERY` instructions of a query: whether it has done more than reading the whole
    file takes."""
    left = 2 + INSTRUCTIONS * path.stat().st_size // EVERY

    def spent() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return spent


stackoverflow = register("data set", "stackoverflow")(StackOverflow)
