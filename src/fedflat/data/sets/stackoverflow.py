"""Stack Overflow's questions and answers for next-word prediction, one client per person.

There are 342,477 people. The files are those of TensorFlow Federated: ``stackoverflow.sqlite`` (its
``stackoverflow.sqlite.lzma``, unpacked) with the tables ``examples(split_name, client_id,
serialized_example_proto)`` and ``client_metadata(client_id, split_name, num_examples)``, and
``stackoverflow.word_count`` with a word and a number per line, the most frequent first. Sentences
are read when a client is needed.

A serialized ``tf.train.Example`` is read without TensorFlow. In the wire format of protocol
buffers, a field is a number with its index and type, then its value; type 2 is a length and so many
bytes. ``Example {1: Features {1: entry {1: name, 2: Feature {1: BytesList {1: bytes}}}}}``.
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
from fedflat.data.named_set import FileSet, RawSet, select_owners
from fedflat.data.partitions.given import ByUser
from fedflat.data.partitions.partition import Partition
from fedflat.errors import MOST_AT_ONCE, DataError, SettingError, number, shown
from fedflat.files import open_text
from fedflat.registry.specs import register

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5


def text_of(example: bytes, name: str) -> str:
    """The text under ``name``; a `ValueError` if there is none or the bytes are not an Example."""
    for features in _values(example, 1):
        for entry in _values(features, 1):
            if b"".join(_values(entry, 1)) == name.encode():
                lists = [texts for feature in _values(entry, 2) for texts in _values(feature, 1)]
                values = [value for texts in lists for value in _values(texts, 1)]
                if len(values) == 1:
                    return values[0].decode("utf-8")
    raise ValueError(f"no text {name!r}")


def _values(message: bytes, place: int) -> Iterator[bytes]:
    """The values of type 2 with this index in a message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == VARINT:
            _, at = _varint(message, at)
        elif kind in (EIGHT, FOUR):
            at += 8 if kind == EIGHT else 4
        elif kind == BYTES:
            length, at = _varint(message, at)
            if at + length > len(message):
                raise ValueError("a field goes on beyond the end")
            if key >> 3 == place:
                yield message[at : at + length]
            at += length
        else:
            raise ValueError(f"a field of unknown type {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, lowest first, and the position after it."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("a number is cut off")
        number |= (message[at] & 127) << shift
        at += 1
        if message[at - 1] < 128:
            return number, at
    raise ValueError("a number is too long")


EVERY = 100_000
INSTRUCTIONS = 20
"""Limit of SQLite's instructions per byte of the file.

Finding and sorting a row takes about 30, and no row has fewer than ten bytes.
"""
LONGEST_VALUE = 2**26
"""Most bytes of a value."""
SPECIAL = 4
"""Indices that are not words: 0 for padding, and after the words an unknown word, the start and the
end."""


@dataclass(frozen=True, repr=False)
class StackOverflow(FileSet):
    """Sentences from Stack Overflow, with the next word at each position; a client is a person.

    clients
        The number of people, selected at random.
    vocabulary
        The number of most frequent words that are known; four more indices are special.
    length
        Words of a sentence: longer ones are cut, shorter ones padded with 0, which is no target
        (``next_character(ignore=0, special=3)``, which also gives the accuracy of known words).
    most
        Most sentences of a person, from the first; None: all.
    tests
        Least number of test sentences, of random people from the set's own test part.
    """

    usual_task = "next_character(ignore=0, special=3)"
    usual_model = "word_lstm()"
    layout = FileLayout(("stackoverflow",), ("stackoverflow.sqlite", "stackoverflow.word_count"))
    by_hand = (
        "They are stackoverflow.sqlite.lzma and stackoverflow.word_count.tar.bz2 of TensorFlow "
        "Federated (storage.googleapis.com/tff-datasets-public), both unpacked."
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
                "stackoverflow: clients are people with all they wrote. Leave partition and split "
                "out."
            )
        number("stackoverflow", "vocabulary", self.vocabulary, low=1, high=MOST_AT_ONCE, whole=True)
        number("stackoverflow", "length", self.length, low=1, high=10_000, whole=True)
        number("stackoverflow", "tests", self.tests, low=1, high=MOST_AT_ONCE, whole=True)
        if self.most is not None:
            number("stackoverflow", "most", self.most, low=1, whole=True)

    @classmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        """Always an error: it does not fit into memory."""
        raise DataError("stackoverflow is read person by person, never as a whole.")

    def open(self, seed: int) -> OnDemand:
        """The federation for this seed, unless the set has its own."""
        seed = seed if self.seed is None else self.seed
        base, counts = locate("stackoverflow", self.layout)
        words = vocabulary(counts, self.vocabulary, counts.stat().st_mtime_ns)
        people = _people(base, "train")
        chosen = select_owners(
            "stackoverflow", "people", np.arange(len(people)), self.clients, seed
        )
        maker = Person(
            base, words, self.length, self.most, "train", tuple(people[k][0] for k in chosen)
        )
        sizes = [people[k][1] for k in chosen]
        if self.most is not None:
            sizes = [min(size, self.most) for size in sizes]
        return OnDemand(self.clients, maker, self._test(maker, seed), known_sizes=tuple(sizes))

    def _test(self, maker: Person, seed: int) -> ClientData:
        """Sentences of random people, until there are enough."""
        people = _people(maker.base, "test")
        names, count = [], 0
        for place in numpy_generator(seed, "test people").permutation(len(people)):
            name, sentences = people[place]
            names.append(name)
            count += sentences
            if count >= self.tests:
                break
        if not names:
            raise DataError(
                f"{maker.base} has no user in its part 'test'. It is incomplete: prepare it again."
            )
        make = Person(maker.base, maker.words, maker.length, None, "test", tuple(names))
        sets = [make(k) for k in range(len(names))]
        inputs = torch.cat([part.inputs for part in sets])
        targets = torch.cat([part.targets for part in sets])
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
        """Its sentences as indices, and the same one word later."""
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
        """The start, the words, the end if it fits, and zeros."""
        unknown = len(self.words) + 1
        indices = [unknown + 1, *(self.words.get(word, unknown) for word in sentence), unknown + 2][
            : self.length + 1
        ]
        return indices + [0] * (self.length + 1 - len(indices))


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
        f"{path} must have {count} words, found {len(words)}. Set vocabulary={len(words)}."
    )


def _people(base: Path, part: str) -> list[tuple[str, int]]:
    """All people in a part of the set, by name, with their numbers of sentences."""
    query = (
        "SELECT client_id, num_examples FROM client_metadata WHERE split_name = ? ORDER BY "
        "client_id"
    )
    with _base(base) as connection:
        rows = connection.execute(query, (part,)).fetchall()
    for name, sentences in rows:
        if not isinstance(name, str) or not isinstance(sentences, int) or sentences < 0:
            raise DataError(
                f"{base}: client_metadata must have a text as client_id and a whole number of at "
                f"least 0 as num_examples, found {shown(name)} and {shown(sentences)}. Get it "
                "again."
            )
    return rows


@contextmanager
def _base(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, read-only. Its two tables must be plain tables, and queries are limited."""
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            # No functions with side effects in untrusted schemas.
            connection.execute("PRAGMA trusted_schema = OFF")
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
    """Refuse a view or virtual table in place of a table."""
    kinds = connection.execute(
        "SELECT type, sql FROM sqlite_schema WHERE lower(name) = ?", (name,)
    ).fetchall()
    for kind, made in kinds:
        if kind != "table" or not re.match(r"CREATE\s+TABLE\b", made or "", re.IGNORECASE):
            raise sqlite3.DatabaseError(
                f"{name} must be a plain table, found a {kind} made by {shown(made)}"
            )


def _limit(path: Path) -> Callable[[], bool]:
    """A progress handler: True once a query has done more than reading the whole file takes."""
    left = 2 + INSTRUCTIONS * path.stat().st_size // EVERY

    def spent() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return spent


stackoverflow = register("data set", "stackoverflow")(StackOverflow)
