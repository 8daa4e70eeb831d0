"""People as clients, from a miniature of TensorFlow Federated's data base."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import torch
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from fedflat import experiment, iid, next_character, run, stackoverflow, with_validation
from fedflat.data import federation
from fedflat.data.examples import Batch
from fedflat.data.files.paths import set_data_dir
from fedflat.data.sets.stackoverflow import _base, _people, text_of
from fedflat.errors import DataError, SettingError

WORDS = ["the", ".", "to", "list"]
SENTENCES = {
    ("train", "00000001"): ["how to sort the list ?", "the ."],
    ("train", "00000002"): ["the list to the list to the list ."],
    ("train", "00001234"): ["to to"],
    ("test", "00000001"): ["the list", "to list ."],
    ("test", "00000009"): ["list"],
    ("heldout", "00000007"): ["the"],
}


def tf_example() -> Any:
    """The message of TensorFlow's example.proto and feature.proto, made with Google's own
    library."""
    file = descriptor_pb2.FileDescriptorProto(
        name="example.proto", package="tensorflow", syntax="proto3"
    )
    field = descriptor_pb2.FieldDescriptorProto

    def message(name: str, *fields: tuple[str, int, int, int, str]) -> None:
        made = file.message_type.add(name=name)
        for label, number, kind, repeated, of in fields:
            made.field.add(
                name=label, number=number, type=kind, label=repeated, type_name=of or None
            )

    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    message("BytesList", ("value", 1, field.TYPE_BYTES, many, ""))
    message("FloatList", ("value", 1, field.TYPE_FLOAT, many, ""))
    message("Int64List", ("value", 1, field.TYPE_INT64, many, ""))
    message(
        "Feature",
        ("bytes_list", 1, field.TYPE_MESSAGE, one, ".tensorflow.BytesList"),
        ("float_list", 2, field.TYPE_MESSAGE, one, ".tensorflow.FloatList"),
        ("int64_list", 3, field.TYPE_MESSAGE, one, ".tensorflow.Int64List"),
    )
    message(
        "Entry",
        ("key", 1, field.TYPE_STRING, one, ""),
        ("value", 2, field.TYPE_MESSAGE, one, ".tensorflow.Feature"),
    )
    message(
        "Features", ("feature", 1, field.TYPE_MESSAGE, many, ".tensorflow.Entry")
    )  # a map is written so
    message("Example", ("features", 1, field.TYPE_MESSAGE, one, ".tensorflow.Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


def serialised(tokens: str) -> bytes:
    example = tf_example()()
    texts = {
        "creation_date": "2011-01-01",
        "title": "café " * 60,
        "tags": "a|b",
        "tokens": tokens,
        "type": "question",
    }
    example.features.feature.add(key="score").value.int64_list.value.append(-7)
    example.features.feature.add(key="share").value.float_list.value.append(0.5)
    for key, value in texts.items():
        example.features.feature.add(key=key).value.bytes_list.value.append(value.encode())
    return example.SerializeToString()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "stackoverflow"
    folder.mkdir()
    (folder / "stackoverflow.word_count").write_text(
        "".join(f"{word} {9 - k}\n" for k, word in enumerate(WORDS))
    )
    base = sqlite3.connect(folder / "stackoverflow.sqlite")
    base.execute(
        "CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)"
    )
    base.execute(
        "CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER)"
    )
    for (part, name), sentences in SENTENCES.items():
        base.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", (name, part, len(sentences)))
        base.executemany(
            "INSERT INTO examples VALUES (?, ?, ?)",
            [(part, name, serialised(s)) for s in sentences],
        )
    base.commit()
    base.close()
    set_data_dir(tmp_path)
    return folder


SMALL = {"clients": 3, "vocabulary": 4, "length": 6, "tests": 3}
UNKNOWN, BEGIN, END = 5, 6, 7


def test_a_client_is_a_person(folder: Path) -> None:
    fed = stackoverflow(**SMALL).open(0)
    assert (fed.population, fed.classes, fed.shape, list(fed.sizes())) == (3, 8, (6,), [2, 1, 1])
    data = fed.data(0)
    batch = data.batch(torch.arange(2), torch.float32)
    assert batch.inputs.tolist() == [[BEGIN, UNKNOWN, 3, UNKNOWN, 1, 4], [BEGIN, 1, 2, END, 0, 0]]
    assert batch.targets.tolist() == [[UNKNOWN, 3, UNKNOWN, 1, 4, UNKNOWN], [1, 2, END, 0, 0, 0]]
    assert fed.data(2).batch(torch.arange(1), torch.float32).targets.tolist() == [
        [3, 3, END, 0, 0, 0]
    ]
    assert sorted(fed.test.examples.inputs[:, 1].tolist()) == [
        1,
        3,
        4,
    ]  # the sentences of both, in some order


def test_fewer_people_and_sentences(folder: Path) -> None:
    fed = stackoverflow(**{**SMALL, "clients": 1, "tests": 1, "most": 1}).open(0)
    assert list(fed.sizes()) == [1]
    assert len(fed.test) in (1, 2)
    firsts = {stackoverflow(**{**SMALL, "clients": 1}).open(seed).make.names for seed in range(9)}
    assert len(firsts) > 1
    assert torch.equal(
        pickle.loads(pickle.dumps(fed)).data(0).examples.inputs, fed.data(0).examples.inputs
    )


def test_only_its_name_is_required(folder: Path) -> None:
    result = run("fedavg", on=stackoverflow(**SMALL), rounds=1, clients_per_round=2, quiet=True)
    assert {"accuracy", "perplexity", "word_accuracy"} <= result.rows[-1].keys()
    task = experiment("fedavg", on=stackoverflow(**SMALL), rounds=1).task
    assert repr(task) == "next_character(ignore=0, special=3)"  # padding is no target


def test_words_are_counted_apart_from_unknown_words_and_ends() -> None:
    """Right: a word, a word and the end. Wrong: a word, for which the unknown word is predicted,
    and an unknown word. Padding does not count."""
    targets = torch.tensor([[1, 2, END, 3, UNKNOWN, 0]])
    predicted = torch.tensor([[1, 2, END, UNKNOWN, 4, 7]])
    scores = torch.nn.functional.one_hot(predicted, 8).double()
    meter = next_character(ignore=0, special=3).meter(8)
    meter.add(scores, Batch(targets, targets))
    found = meter.scores()
    assert found["accuracy"] == pytest.approx(3 / 5)
    assert found["word_accuracy"] == pytest.approx(2 / 3)


def test_sizes_are_known_without_reading_anybody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that there can be more people than are read at once."""
    fed = stackoverflow(**SMALL, most=1).open(0)
    monkeypatch.setattr(federation, "LARGEST_POPULATION", 2)
    assert list(fed.sizes()) == [1, 1, 1]
    assert len(fed.pooled().train) == 3
    kept = with_validation(stackoverflow(**SMALL), 0.34, by="clients").open(0)
    assert list(kept.sizes()) == [len(kept.data(k)) for k in range(2)]
    result = run(
        "fedseq(groups=2)",
        on=stackoverflow(**SMALL),
        rounds=1,
        clients_per_round=2,
        quiet=True,
    )
    assert result.rows
    monkeypatch.setattr(federation, "LARGEST_POOL", 2)
    with pytest.raises(SettingError, match="to train in one place, 3 examples of 3 clients"):
        fed.pooled()


def test_refused(folder: Path) -> None:
    with pytest.raises(SettingError, match="stackoverflow: 4 clients need as many people, found 3"):
        stackoverflow(**{**SMALL, "clients": 4}).open(0)
    with pytest.raises(SettingError, match="clients are people"):
        stackoverflow(iid())
    with pytest.raises(DataError, match=r"must have 10000 words, found 4. Set vocabulary=4"):
        stackoverflow().open(0)
    base = sqlite3.connect(folder / "stackoverflow.sqlite")
    base.execute("UPDATE examples SET serialized_example_proto = ?", (b"\x0a\xff",))
    base.commit()
    base.close()
    with pytest.raises(DataError, match=r"an example of .* cannot be read: "):
        stackoverflow(**SMALL).open(0)
    (folder / "stackoverflow.sqlite").write_bytes(b"no data base" * 100)
    with pytest.raises(DataError, match="is not TensorFlow Federated's data base"):
        stackoverflow(**SMALL).open(0)


def changed(folder: Path, *statements: str) -> None:
    base = sqlite3.connect(folder / "stackoverflow.sqlite")
    for statement in statements:
        base.execute(statement)
    base.commit()
    base.close()


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("num_examples = 'many'", "found '0000000[19]' and 'many'"),
        ("num_examples = NULL", "found '0000000[19]' and None"),
        ("num_examples = 1.5", "found '0000000[19]' and 1.5"),
        ("num_examples = -3", "found '0000000[19]' and -3"),
        ("client_id = NULL", "found None and [12]"),
        ("client_id = x'ff'", r"found b'\\xff' and [12]"),
    ],
)
def test_columns_of_another_type_are_refused(what: str, found: str, folder: Path) -> None:
    """Numbers that are none ended in a TypeError."""
    changed(folder, f"UPDATE client_metadata SET {what} WHERE split_name = 'test'")
    with pytest.raises(
        DataError,
        match=f"client_metadata must have a text as client_id and a whole number .* {found}",
    ):
        stackoverflow(**SMALL).open(0)


@pytest.mark.parametrize("value", ["NULL", "'text'", "7", "1.5"])
def test_examples_of_another_type_are_refused(value: str, folder: Path) -> None:
    changed(folder, f"UPDATE examples SET serialized_example_proto = {value}")
    with pytest.raises(DataError, match=r"an example of .* cannot be read"):
        stackoverflow(**SMALL).open(0)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {columns} FROM n"


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (
            "client_metadata",
            "CAST(i AS TEXT) AS client_id, 'train' AS split_name, 1 AS num_examples",
        ),
        (
            "examples",
            "'train' AS split_name, '00000001' AS client_id, x'' AS serialized_example_proto",
        ),
    ],
)
def test_a_view_is_refused(table: str, columns: str, folder: Path) -> None:
    """One that never ends was waited for."""
    changed(
        folder, f"DROP TABLE {table}", f"CREATE VIEW {table} AS {ENDLESS.format(columns=columns)}"
    )
    with pytest.raises(
        DataError, match=f"{table} must be a plain table, found a view made by .CREATE VIEW"
    ):
        stackoverflow(**SMALL).open(0)


def test_a_virtual_table_is_refused(folder: Path) -> None:
    changed(
        folder,
        "DROP TABLE client_metadata",
        "CREATE VIRTUAL TABLE client_metadata USING fts5(client_id, split_name, num_examples)",
    )
    with pytest.raises(
        DataError,
        match="client_metadata must be a plain table, found a table made by 'CREATE VIRTUAL",
    ):
        stackoverflow(**SMALL).open(0)


def test_a_query_ends(folder: Path) -> None:
    """With more instructions than reading the whole file takes; a long table is read to its end."""
    with (
        pytest.raises(DataError, match="is not TensorFlow Federated's data base: interrupted"),
        _base(folder / "stackoverflow.sqlite") as connection,
    ):
        connection.execute(ENDLESS.format(columns="max(i)")).fetchall()
    many = ENDLESS.format(columns="'', 'train', 1")
    changed(folder, f"INSERT INTO client_metadata {many} LIMIT 200000")
    assert len(_people(folder / "stackoverflow.sqlite", "train")) == 200_003


def test_examples_that_are_none() -> None:
    good = serialised("a b")
    assert text_of(good, "tokens") == "a b"
    assert text_of(good, "title") == "café " * 60
    with pytest.raises(ValueError, match="no text 'score'"):
        text_of(good, "score")
    for cut in range(len(good) - 1):
        with pytest.raises(ValueError):  # noqa: PT011
            text_of(good[:cut], "type")
    for bad in (b"\x0f", b"\x0a" + b"\xff" * 11, b"\xff"):
        with pytest.raises(ValueError):  # noqa: PT011
            text_of(bad, "tokens")
