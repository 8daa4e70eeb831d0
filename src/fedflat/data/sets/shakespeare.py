"""Shakespeare's plays, one client per role: from the plays' texts, or as LEAF makes them.

The task is the next character. ``shakespeare`` (McMahan et al., AISTATS 2017) reads a file with one
speech per line, in the order of the plays: ``{"play": ..., "speaker": ..., "text": ...}``. Any
edition works. Published results use their own editions and windows, so they cannot be reproduced
exactly.

``leaf_shakespeare`` (Caldas et al., LEAF, 2018) reads the folders ``train`` and ``test`` of JSON
files with ``users``, ``num_samples`` and ``user_data[user] = {"x": [...], "y": [...]}``: texts of 80
characters and the character after each.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedflat.core.seeds import numpy_generator
from fedflat.data.federation import Federation
from fedflat.data.files.formats import read_leaf
from fedflat.data.files.paths import FileLayout
from fedflat.data.named_set import NaturalSet, RawSet, select_owners
from fedflat.data.partitions.partition import Index
from fedflat.data.splitting import federate
from fedflat.errors import DataError, choice, number, shown
from fedflat.files import Damaged, open_bytes, parse_json
from fedflat.registry.specs import register

LETTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""The 80 characters of LEAF. Others are read as a space."""
SURROGATE = re.compile("[\ud800-\udfff]")
TRAIN = 0.8
"""Share of each role's text for training; the rest, which comes later, is for testing."""


@dataclass(frozen=True, repr=False)
class Shakespeare(NaturalSet):
    """Windows of characters from Shakespeare's plays with the next one; a client is a role.

    clients
        The number of roles, selected at random from those with enough text.
    length
        Characters of a window.
    target
        ``"next"``: the one character after it. ``"sequence"``: the same window one character later.
    at_least
        Least characters of a role.
    stride
        Characters from the start of one window to the start of the next.
    most
        Most training windows of a role, spread evenly over its text, and a quarter as many test
        windows; None: all.

    The first 80 % of each role's text are for training, the rest for testing; no window is in both.
    """

    usual_task = "next_character()"
    layout = FileLayout(("shakespeare",), ("plays.jsonl",), compressed=True)
    whose = "roles with enough text"
    by_hand = (
        'Its file plays.jsonl (or plays.jsonl.gz) has a line {"play": ..., "speaker": ..., '
        '"text": ...} for each speech, for instance from the public domain edition at '
        "github.com/TheMITTech/shakespeare."
    )

    length: int = 80
    target: str = "next"
    at_least: int = 2000
    stride: int = 1
    most: int | None = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        number("shakespeare", "length", self.length, low=1, high=10_000, whole=True)
        choice("shakespeare", "target", self.target, ["next", "sequence"])
        number("shakespeare", "at_least", self.at_least, low=5 * (self.length + 1), whole=True)
        number("shakespeare", "stride", self.stride, low=1, whole=True)
        if self.most is not None:
            number("shakespeare", "most", self.most, low=4, whole=True)

    @property
    def usual_model(self) -> str:  # type: ignore[override]
        """The default model for `target`."""
        return "char_lstm()" if self.target == "sequence" else "char_lstm(every=False)"

    @classmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        """All characters of the file, sorted by role, and the role of each."""
        texts: dict[tuple[str, str], list[str]] = {}
        for speaker, text in _speeches(files[0]):
            texts.setdefault(speaker, []).append(text)
        if not texts:
            raise DataError(f"{files[0]} has no speech. Is it the right file?")
        role_texts = ["\n".join(speeches) for speeches in texts.values()]
        letters = torch.from_numpy(numbers("".join(role_texts)))
        roles = torch.repeat_interleave(
            torch.arange(len(role_texts)), torch.tensor(list(map(len, role_texts)))
        )
        return RawSet(letters, letters, len(letters), len(LETTERS), users=roles)

    def owners(self) -> Index:
        users = self.raw().users
        assert users is not None
        return np.flatnonzero(np.bincount(users.numpy()) >= self.at_least)

    def of(self, owners: Index) -> RawSet:
        raw = self.raw()
        assert raw.users is not None
        train, test = [], []
        bounds = torch.searchsorted(raw.users, torch.from_numpy(np.stack([owners, owners + 1], 1)))
        for start, end in bounds.tolist():
            text = raw.x[start:end]
            cut = int(TRAIN * len(text))
            train.append(self._windows(text[:cut], self.most))
            test.append(self._windows(text[cut:], None if self.most is None else self.most // 4))
        windows = torch.cat([*train, *test])
        inputs = windows[:, :-1].int().contiguous()
        targets = windows[:, -1] if self.target == "next" else windows[:, 1:]
        sizes = torch.tensor([len(part) for part in (*train, *test)])
        users = torch.repeat_interleave(torch.from_numpy(owners).repeat(2), sizes)
        return RawSet(inputs, targets.contiguous(), sum(map(len, train)), raw.classes, users=users)

    def _windows(self, text: Tensor, most: int | None) -> Tensor:
        """Windows of ``length + 1`` characters."""
        windows = text.unfold(0, self.length + 1, self.stride)
        if most is None or len(windows) <= most:
            return windows
        return windows[
            torch.linspace(0, len(windows) - 1, most, dtype=torch.float64).round().long()
        ]


def numbers(text: str) -> Index:
    """The index of each character.

    >>> numbers("Ay!").tolist(), numbers("$ é").tolist()
    ([25, 77, 2], [1, 1, 1])
    """
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    table = np.full(128, LETTERS.index(" "))
    table[[ord(letter) for letter in LETTERS]] = np.arange(len(LETTERS))
    indices: Index = table[np.where(codes < len(table), codes, ord(" "))]
    return indices


def _speeches(path: Path) -> list[tuple[tuple[str, str], str]]:
    """For each speech its play and speaker, and the text."""
    speeches = []
    try:
        with open_bytes(path) as raw, gzip.open(raw) if path.suffix == ".gz" else raw as file:
            for line in file:
                speech = parse_json(line)
                play, speaker, text = (speech[key] for key in ("play", "speaker", "text"))
                if not all(isinstance(part, str) for part in (play, speaker, text)):
                    raise ValueError("play, speaker and text must be texts")
                if SURROGATE.search(text):
                    raise ValueError(
                        "the text has a lone surrogate, which is half of a letter of UTF-16"
                    )
                speeches.append(((play, speaker), text))
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path} is damaged or was cut off: {error}. Get it again.") from None
    except (ValueError, KeyError, TypeError, Damaged) as error:
        raise DataError(
            f'{path}: line {len(speeches) + 1} must be {{"play": ..., "speaker": ..., '
            f'"text": ...}}: {error!r}.'
        ) from None
    return speeches


shakespeare = register("data set", "shakespeare")(Shakespeare)


TEST_SHARE = 5
"""A run of training examples has this many times the examples of the run for testing."""


@dataclass(frozen=True, repr=False)
class LeafShakespeare(NaturalSet):
    """80 characters of a role and the next one, as LEAF cuts them; a client is a role.

    clients
        The number of roles, selected at random from those with enough examples.
    run
        Training examples of each role: that many consecutive ones from a random position, and a
        fifth as many for testing. Only roles with more than these are used. FedDyn and the thesis
        on FedSeq use 2000. None: all examples of all roles.

    The alphabet has LEAF's 80 characters; others are read as a space.
    """

    usual_task = "next_character()"
    usual_model = "char_lstm(every=False)"
    layout = FileLayout(
        ("shakespeare", "shakespeare/data", "leaf-shakespeare", "leaf-shakespeare/data"),
        ("train", "test"),
        json_folders=True,
    )
    whose = "roles with enough examples"
    by_hand = (
        "LEAF makes them: in its folder data/shakespeare, `./preprocess.sh -s niid --sf 1.0 -k 0 "
        "-t sample -tf 0.8` writes the folders data/train and data/test of JSON files "
        "(github.com/TalwalkarLab/leaf)."
    )

    clients: int = 100
    run: int | None = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.run is not None:
            number(self.name, "run", self.run, low=TEST_SHARE, whole=True)

    @classmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        names: dict[str, int] = {}
        x: list[Index] = []
        y: list[Index] = []
        users: list[Index] = []
        train = 0
        for place, folder in enumerate(files):
            for path, user, texts, targets in read_leaf(folder):
                role = names.setdefault(user, len(names)) if place == 0 else names.get(user, -1)
                x.append(_texts(path, user, texts))
                y.append(_texts(path, user, targets, length=1)[:, 0])
                users.append(np.full(len(targets), role))
            if place == 0:
                train = sum(map(len, y))
        lengths = {part.shape[1] for part in x if len(part)}
        if not train:
            raise DataError(f"{files[0]} has no examples. Make it again with LEAF's preprocessing.")
        if len(lengths) > 1:
            raise DataError(
                f"{files[0].parent}: all texts must be equally long, found lengths "
                f"{', '.join(map(str, sorted(lengths)))}. Make the files again as LEAF does."
            )
        inputs = torch.from_numpy(np.concatenate([part for part in x if len(part)])).int()
        labels, owners = (torch.from_numpy(np.concatenate(parts)) for parts in (y, users))
        return RawSet(inputs, labels, train, len(LETTERS), users=owners)

    def owners(self) -> Index:
        train, test = self._counts()
        if self.run is None:
            return np.flatnonzero(train)
        enough = (train > self.run) & (test > self.run // TEST_SHARE)
        return np.flatnonzero(enough)

    def open(self, seed: int) -> Federation:
        if self.run is None:
            return super().open(seed)
        seed = seed if self.seed is None else self.seed
        raw, run = self.raw(), self.run
        owners = select_owners(self.name, self.whose, self.owners(), self.clients, seed)
        assert raw.users is not None
        users = raw.users.numpy()
        parts: dict[bool, list[Index]] = {True: [], False: []}
        for owner in owners:
            places = np.flatnonzero(users == owner)
            rng = numpy_generator(seed, "run", int(owner))
            for training, length in ((True, run), (False, run // TEST_SHARE)):
                mine = places[(places < raw.train) == training]
                start = int(rng.integers(len(mine) - length + 1))
                parts[training].append(mine[start : start + length])
        order = np.concatenate([*parts[True], *parts[False]])
        index = torch.from_numpy(order)
        cut = RawSet(
            raw.x[index],
            raw.y[index],
            sum(map(len, parts[True])),
            raw.classes,
            users=raw.users[index],
        )
        return federate(
            self.to_examples(cut),
            cut.train,
            self.partition,
            self.clients,
            seed,
            split=self.split,
            pool=self.pool,
            users=users[order],
        )

    def _counts(self) -> tuple[Index, Index]:
        """The numbers of training and of test examples of each role."""
        raw = self.raw()
        assert raw.users is not None
        users = raw.users.numpy()
        roles = int(users.max()) + 1
        train, test = users[: raw.train], users[raw.train :]
        return (
            np.bincount(train, minlength=roles),
            np.bincount(test[test >= 0], minlength=roles),
        )


def _texts(path: Path, user: str, texts: list[Any], length: int | None = None) -> Index:
    """The indices of the characters of texts, one row per text."""
    for text in texts:
        if not isinstance(text, str) or not text or len(text) != (length or len(texts[0])):
            what = "one character" if length == 1 else "texts of one length"
            raise DataError(f"{path}: {user} must have {what}, found {shown(text)}.")
    if not texts:
        return np.empty((0, length or 0), np.int64)
    try:
        return numbers("".join(texts)).reshape(len(texts), -1)
    except UnicodeEncodeError:
        raise DataError(
            f"{path}: {user} has a lone surrogate, which is half of a letter of UTF-16."
        ) from None


leaf_shakespeare = register("data set", "leaf_shakespeare")(LeafShakespeare)
