"""Roles as clients: a play of our own in the form of the file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from fedflat import experiment, iid, run, shakespeare
from fedflat.data.federation import Federation
from fedflat.data.files.paths import set_data_dir
from fedflat.data.sets.shakespeare import LETTERS
from fedflat.data.shown_data import show
from fedflat.errors import DataError, SettingError

SPEECHES = [
    ("hamlet", "FIRST CLOWN", "Ay, tell me that, and unyoke. " * 3),
    (
        "hamlet",
        "HAMLET",
        "Why may not that be the skull of a lawyer?\nWhere be his quiddities now? " * 2,
    ),
    ("lear", "FIRST CLOWN", "Prithee, nuncle, be contented! 'Tis a naughty night to swim in. " * 2),
    ("hamlet", "FIRST CLOWN", "Cudgel thy brains no more about it\u2026 " * 2),
    ("lear", "LEAR", "Never."),
]


@pytest.fixture
def plays(tmp_path: Path) -> Path:
    return written(tmp_path / "shakespeare", SPEECHES)


def written(folder: Path, speeches: list[tuple[str, str, str]]) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"play": p, "speaker": s, "text": t}) for p, s, t in speeches]
    (folder / "plays.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    set_data_dir(folder.parent)
    return folder


def text_of(row: torch.Tensor) -> str:
    return "".join(LETTERS[number] for number in row.reshape(-1).tolist())


@pytest.mark.parametrize(
    "text", ["to be \ud83d or not", "\udc00"], ids=["first half", "second half"]
)
def test_half_a_message_is_refused(text: str, tmp_path: Path) -> None:
    """It ended in a UnicodeEncodeError."""
    written(tmp_path / "shakespeare", [*SPEECHES, ("lear", "LEAR", text)])
    with pytest.raises(
        DataError, match=r"plays.jsonl.gz: line 6 must be .*the text has a lone surrogate"
    ):
        shakespeare(**SMALL).open(0)


SMALL = {"clients": 3, "length": 10, "at_least": 100}


def texts(fed: Federation, client: int) -> list[tuple[str, str]]:
    data = fed.data(client)
    batch = data.batch(torch.arange(len(data)), torch.float32)
    assert not batch.inputs.is_floating_point()
    return [(text_of(x), text_of(y)) for x, y in zip(batch.inputs, batch.targets, strict=True)]


def test_a_client_is_a_role_in_a_play(plays: Path) -> None:
    fed = shakespeare(**SMALL).open(0)
    assert (fed.population, fed.classes, fed.shape) == (3, 80, (10,))
    clown = (
        SPEECHES[0][2] + "\n" + SPEECHES[3][2].replace("\u2026", " ")
    )  # the two speeches of one role
    cut = int(0.8 * len(clown))
    assert texts(fed, 0) == [(clown[at : at + 10], clown[at + 10]) for at in range(cut - 10)]
    assert texts(fed, 2)[0] == ("Prithee, n", "u")  # the other clown is another client
    test = fed.test.batch(torch.arange(len(fed.test)), torch.float32)
    assert text_of(test.inputs[0]) == clown[cut : cut + 10]
    assert len(test) == sum(
        len(role) - int(0.8 * len(role)) - 10 for role in (clown, SPEECHES[1][2], SPEECHES[2][2])
    )


def test_the_shifted_sequence(plays: Path) -> None:
    fed = shakespeare(**SMALL, target="sequence").open(0)
    for x, y in texts(fed, 1):
        assert x[1:] == y[:-1]
    assert len(y) == 10
    with pytest.raises(SettingError, match="these examples do not have one class each"):
        fed.data(0).labels  # noqa: B018
    messages = show(shakespeare(**SMALL, target="sequence")).splitlines()
    assert messages[1].endswith("test examples, inputs of 10, 80 classes")
    assert messages[2].startswith("3 clients, ")
    assert show(shakespeare(**SMALL)).splitlines()[2] == messages[2]


def test_stride_and_most(plays: Path) -> None:
    one, all_of_them = (
        shakespeare(**SMALL, stride=7).open(0),
        shakespeare(**SMALL, most=None).open(0),
    )
    assert texts(one, 1) == texts(all_of_them, 1)[::7]
    few = shakespeare(**SMALL, most=8).open(0)
    assert few.sizes() == [8, 8, 8]
    assert len(few.test) == 6
    assert (texts(few, 1)[0], texts(few, 1)[-1]) == (
        texts(all_of_them, 1)[0],
        texts(all_of_them, 1)[-1],
    )


def test_other_partitions_and_fewer_roles(plays: Path) -> None:
    fed = shakespeare(iid(), **SMALL).open(0)
    assert max(fed.sizes()) - min(fed.sizes()) <= 1
    assert sum(fed.sizes()) == sum(shakespeare(**SMALL).open(0).sizes())
    drawn = {tuple(shakespeare(**{**SMALL, "clients": 2}).open(seed).sizes()) for seed in range(12)}
    assert len(drawn) > 1
    fed = shakespeare(**{**SMALL, "clients": 1}, seed=3).open(0)
    assert len(fed.test) < 40  # of that role only


def test_refused(plays: Path, tmp_path: Path) -> None:
    with pytest.raises(
        SettingError, match="shakespeare: 4 clients need as many roles with enough text, found 3"
    ):
        shakespeare(**{**SMALL, "clients": 4}).open(0)
    with pytest.raises(
        SettingError, match="at_least must be a whole number of at least 405, found 100"
    ):
        shakespeare(at_least=100)
    with pytest.raises(SettingError, match="target must be 'next' or 'sequence'"):
        shakespeare(target="last")
    written(tmp_path / "shakespeare", [])
    with pytest.raises(DataError, match="has no speech"):
        shakespeare(**SMALL).open(0)
    for line in (
        b'{"play": "lear"}',
        b'{"play": 1, "speaker": "LEAR", "text": ""}',
        b"Never",
        b"[]",
    ):
        (plays / "plays.jsonl.gz").write_bytes(gzip.compress(line))
        with pytest.raises(DataError, match=r'line 1 must be \{"play"'):
            shakespeare(**SMALL).open(0)
    (plays / "plays.jsonl.gz").write_bytes((plays / "plays.jsonl.gz").read_bytes()[:-9])
    with pytest.raises(DataError, match="is damaged or was cut off"):
        shakespeare(**SMALL).open(0)
    (plays / "plays.jsonl.gz").unlink()
    with pytest.raises(DataError, match="shakespeare is not on this machine"):
        shakespeare(**SMALL).open(0)
    assert np.array_equal(sorted(set(LETTERS)), sorted(LETTERS))


@pytest.mark.parametrize("target", ["next", "sequence"])
def test_only_its_name_is_required(plays: Path, target: str) -> None:
    result = run(
        "fedavg", on=shakespeare(**SMALL, target=target), rounds=1, clients_per_round=2, quiet=True
    )
    assert {"accuracy", "perplexity"} <= result.rows[-1].keys()
    model = experiment("fedavg", on=shakespeare(**SMALL, target=target), rounds=1).model
    assert repr(model) == ("char_lstm(every=False)" if target == "next" else "char_lstm()")
