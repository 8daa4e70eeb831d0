"""Shakespeare's plays as LEAF makes them, one client per role (Caldas et al., LEAF, 2018).

The folders ``train`` and ``test`` have JSON files with ``users``, ``num_samples`` and
``user_data[user] = {"x": [...], "y": [...]}``: texts of 80 characters and the character after each.
`fedflat.data.sets.shakespeare` reads plays as texts instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedflat.core.seeds import numpy_generator
from fedflat.data.federation import Federation
from fedflat.data.files.leaf import read_leaf
from fedflat.data.files.paths import FileLayout
from fedflat.data.natural_set import NaturalSet, select_owners
from fedflat.data.partitions.dealing import Index
from fedflat.data.raw import RawSet
from fedflat.data.sets.shakespeare import LETTERS, numbers
from fedflat.data.splitting import federate
from fedflat.errors import DataError, number, shown
from fedflat.registry.specs import register

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
        """The federation for this seed, unless the set has its own seed."""
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
