"""Own data with names: tables, frames, dicts, and labels and owners of any kind."""

from __future__ import annotations

import csv
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

import fedflat as ff
from fedflat.errors import DataError, SettingError
from fedflat.registry.specs import parse

OWNERS = ("Bern", "Aarau", "Chur")


def wine(path: Path, rows: int = 60) -> str:
    """Two columns of very different scales, quality 3, 5 or 8, and a hospital."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["acid", "sulphur", "quality", "hospital"])
        for k in range(rows):
            quality = (3, 5, 8)[k % 3]
            writer.writerow([quality / 10 + k / 1000, 1000.0 * quality + k, quality, OWNERS[k % 3]])
    return str(path)


def test_owners_are_clients_and_keep_their_names(tmp_path: Path) -> None:
    on = ff.csv(wine(tmp_path / "wine.csv"), target="quality", owner="hospital")
    fed = on.open(0)
    assert fed.client_names == ("Aarau", "Bern", "Chur") == on.client_names()
    assert (fed.population, fed.shape, on.class_names()) == (3, (2,), ("3", "5", "8"))
    assert on.column_names() == ("acid", "sulphur")
    # row k belongs to OWNERS[k % 3] and has quality (3, 5, 8)[k % 3]: one class for each owner
    assert [fed.data(k).labels.unique().tolist() for k in range(3)] == [[1], [0], [2]]
    # every fifth of each owner's 20 rows is for testing
    assert (list(fed.sizes()), len(fed.test)) == ([16, 16, 16], 12)
    assert repr(on).endswith("target='quality', owner='hospital')")
    assert parse(repr(on), "data set") == on


def test_columns_are_standardized_with_the_training_examples_of_the_clients(
    tmp_path: Path,
) -> None:
    path = wine(tmp_path / "wine.csv")
    on = ff.csv(path, target="quality", owner="hospital", standardize=True, split=0.5)
    fed = on.open(0)
    table = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=(0, 1))
    order = [k for k in range(60) if (k // 3) % 5 != 4] + [
        k for k in range(60) if (k // 3) % 5 == 4
    ]
    used = table[order][torch.cat(list(fed.parts)).numpy()]
    assert len(used) == 24  # half of the 48 rows that are not in the test set
    batch = fed.test.batch(torch.arange(len(fed.test)), torch.float64).inputs
    expected = (table[order][48:] - used.mean(0)) / used.std(0)
    np.testing.assert_allclose(batch.numpy(), expected, rtol=1e-4)


def test_a_column_with_one_value_is_only_centred() -> None:
    rows = {"a": [7.0] * 10, "b": list(range(10)), "y": ["p", "q"] * 5}
    fed = ff.table(rows, standardize=True, clients=1).open(0)
    batch = fed.data(0).batch(torch.arange(8), torch.float64).inputs
    assert batch[:, 0].tolist() == [0.0] * 8
    assert float(batch[:, 1].std(correction=0)) == pytest.approx(1)


def test_a_test_file_and_chosen_columns(tmp_path: Path) -> None:
    train, test = wine(tmp_path / "a.csv"), wine(tmp_path / "b.csv", 7)
    fed = ff.csv(train, test=test, target="quality", inputs=["sulphur"], clients=4).open(0)
    assert (fed.shape, len(fed.test), sum(fed.sizes())) == ((1,), 7, 60)
    assert fed.client_names == ()
    with pytest.raises(SettingError, match=r"no column 'sulfur'\. Did you mean 'sulphur'"):
        ff.csv(train, target="quality", inputs=["sulfur"], clients=4).open(0)


def test_rows_with_missing_values_are_refused_or_left_out() -> None:
    frame = pd.DataFrame(
        {
            "a": [1.0, None, 3.0, 4.0, 5.0, 6.0, 7.0],
            "y": ["u", "v", None, "v", "u", "v", "u"],
            "who": [1, 1, 1, 1, 1, 2, None],
        }
    )
    with pytest.raises(DataError, match=r"is missing|finite number"):
        ff.table(frame, target="y", owner="who").open(0)
    frame = pd.concat([frame, frame.iloc[[0, 3, 4, 5]]], ignore_index=True)
    on = ff.table(frame, target="y", owner="who", missing="skip")
    fed = on.open(0)
    assert fed.remark == "3 rows with missing values are left out"
    assert (fed.client_names, on.class_names()) == (("1", "2"), ("u", "v"))


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([10, 9, 30], ("9", "10", "30")),
        ([True, False, True], ("False", "True")),
        (["b", "a", "c"], ("a", "b", "c")),
        (["10", "9", "-1"], ("-1", "9", "10")),
        ([np.int64(4), np.int64(-4), np.int64(0)], ("-4", "0", "4")),
    ],
)
def test_labels_and_owners_of_any_kind(values: list[Any], names: tuple[str, ...]) -> None:
    rows = {"a": list(range(30)), "y": values * 10, "who": values * 10}
    on = ff.table(rows, target="y", owner="who")
    assert on.class_names() == names == on.open(0).client_names


def test_numbers_with_a_fraction_are_values_unless_stated_otherwise() -> None:
    rows = {"a": list(range(10)), "y": [k / 2 for k in range(10)]}
    on = ff.table(rows, clients=1)
    assert (on.usual_task, on.class_names()) == ("regression()", ())
    assert on.open(0).test.targets.tolist() == [[2.0], [4.5]]
    assert len(ff.table(rows, clients=1, values=False).class_names()) == 10
    whole = {"a": list(range(10)), "y": list(range(10))}
    assert ff.table(whole, clients=1).usual_task == "classification()"
    assert ff.table(whole, clients=1, values=True).usual_task == "regression()"


def test_frames_columns_and_rows_are_the_same_data(tmp_path: Path) -> None:
    path = wine(tmp_path / "wine.csv")
    frame = pd.read_csv(path)
    rows = frame.to_dict("records")

    class Rows(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return len(rows)

        def __getitem__(self, place: int) -> dict[Any, Any]:
            return rows[place]

    settings: Any = {"target": "quality", "owner": "hospital"}
    first = ff.csv(path, **settings).open(3)
    for given in (frame, frame.to_dict("list"), rows, Rows()):
        fed = ff.table(given, **settings).open(3)
        assert torch.equal(fed.train.inputs, first.train.inputs)  # type: ignore[attr-defined]
        assert torch.equal(fed.test.targets, first.test.targets)
        assert fed.client_names == first.client_names


class Column(list[Any]):
    """What ``dataset[name]`` of a Hugging Face data set is: a sequence, not a list of its own."""


class ClassLabel:
    def __init__(self, names: list[str]) -> None:
        self.names = names


class HuggingFace:
    """The part of ``datasets.Dataset`` that is used."""

    def __init__(self, columns: dict[str, list[Any]], features: dict[str, Any]) -> None:
        self._columns, self.features = columns, features

    @property
    def column_names(self) -> list[str]:
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, key: str) -> Column:
        return Column(self._columns[key])


def test_hugging_face_data_sets_keep_their_class_names() -> None:
    def split(count: int) -> HuggingFace:
        images = [Image.new("RGB", (8, 6), (k, 0, 255)) for k in range(count)]
        labels = [k % 2 for k in range(count)]
        return HuggingFace(
            {"img": images, "label": labels},
            {"img": object(), "label": ClassLabel(["cat", "dog", "emu"])},
        )

    on = ff.table(
        {"train": split(12), "test": split(4)}, image="img", target="label", clients=2, size=(6, 8)
    )
    fed = on.open(0)
    assert (on.class_names(), fed.classes, fed.shape) == (("cat", "dog", "emu"), 3, (3, 6, 8))
    assert fed.test.examples.inputs[3, :, 0, 0].tolist() == [3, 0, 255]  # type: ignore[attr-defined]


def test_a_csv_of_paths_labels_and_clients(tmp_path: Path) -> None:
    lines = ["path,label,client"]
    for k in range(20):
        Image.new("RGB", (4, 4), (k, 2 * k, 0)).save(tmp_path / f"{k}.png")
        lines.append(f"{k}.png,{'red' if k % 2 else 'green'},{'p' if k < 10 else 'q'}")
    (tmp_path / "photos.csv").write_text("\n".join(lines))
    on = ff.csv(str(tmp_path / "photos.csv"), target="label", owner="client", image="path")
    fed = on.open(0)
    assert (fed.shape, fed.client_names, on.class_names()) == (
        (3, 4, 4),
        ("p", "q"),
        ("green", "red"),
    )
    first = fed.data(1).examples.raw(fed.data(1).index[:1]).inputs
    assert first[0, :, 0, 0].tolist() == [10, 20, 0]
    assert on.column_names() == ()
    result = ff.run("fedavg", on=on, rounds=1, clients_per_round=2, quiet=True)
    assert result.status == "done"


def test_names_in_arrays_and_dict_datasets() -> None:
    x = torch.rand(12, 3)
    on = ff.tensors(x, ["no", "yes"] * 6, x[:4], ["yes", "no"] * 2, users=["b", "a", "a"] * 4)
    fed = on.open(0)
    assert (on.class_names(), fed.client_names, fed.classes) == (("no", "yes"), ("a", "b"), 2)
    assert fed.test.targets.tolist() == [1, 0, 1, 0]
    assert list(fed.sizes()) == [8, 4]

    class Dicts(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 12

        def __getitem__(self, place: int) -> dict[str, Any]:
            return {"id": place, "image": x[place], "label": "yes" if place % 2 else "no"}

    assert ff.tensors(Dicts(), test_x=Dicts(), clients=2).class_names() == ("no", "yes")
    with pytest.raises(SettingError, match=r"dicts with one, two, .* ff\.table\(data, inputs="):
        ff.tensors([{"one": 1, "two": 2}] and OddDicts(), split=0.5)


class OddDicts(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 3

    def __getitem__(self, place: int) -> dict[str, int]:
        return {"one": 1, "two": 2}


def test_clients_by_name() -> None:
    x = torch.rand(6, 3)
    pairs = {"Ulm": (x, [True, False] * 3), "Bonn": (x[:2], [True, True])}
    on = ff.clients_of(pairs, test=(x, [False] * 6))
    fed = on.open(0)
    assert (fed.client_names, on.class_names()) == (("Ulm", "Bonn"), ("False", "True"))
    assert (list(fed.sizes()), fed.test.targets.tolist()) == ([6, 2], [0] * 6)


def test_a_test_class_without_training_examples_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = {"a": [1.0, 2.0, 3.0, 4.0], "y": ["p", "q", "p", "q"]}
    test = {"a": [1.0, 2.0, 5.0], "y": ["p", "r", "r"]}
    ff.run("fedavg", on=ff.table(train, test=test, clients=2), rounds=1, clients_per_round=2)
    message = " ".join(capsys.readouterr().err.split())
    assert "no client trains on a class of the test set: r (2 test examples)" in message


def test_names_are_recorded_with_the_run(tmp_path: Path) -> None:
    frame = pd.read_csv(wine(tmp_path / "wine.csv"))
    on = ff.table(frame, target="quality", owner="hospital", standardize=True)
    ff.run("fedavg", on=on, rounds=1, clients_per_round=2, quiet=True, out=tmp_path / "run")
    import json

    data = json.loads((tmp_path / "run" / "run.json").read_text())["info"]["data"]
    assert data["class_names"] == ["3", "5", "8"]
    assert data["client_names"] == ["Aarau", "Bern", "Chur"]
    assert data["column_names"] == ["acid", "sulphur"]


def test_a_table_can_be_sent_to_workers(tmp_path: Path) -> None:
    on = ff.csv(wine(tmp_path / "wine.csv"), target="quality", owner="hospital")
    before = len(pickle.dumps(on))
    on.open(0)
    assert len(pickle.dumps(on)) == before  # the rows are read again there
    assert pickle.loads(pickle.dumps(on)) == on
