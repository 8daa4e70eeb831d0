"""Predictions of rows, arrays and images, against the module on inputs prepared by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import fedflat as ff
from fedflat.cli.main import main
from fedflat.errors import DataError, SettingError

QUICK: dict[str, Any] = {
    "rounds": 3,
    "lr": 0.1,
    "threads": 1,
    "eval_every": 3,
    "clients_per_round": 4,
}
FRAME = pd.DataFrame(
    {
        "acid": [10.0 + k % 7 for k in range(60)],
        "sugar": [1000.0 * (k % 3) + k for k in range(60)],
        "price": [5.0 * (k % 3) for k in range(60)],
        "quality": [("bad", "fair", "good")[k % 3] for k in range(60)],
        "hospital": ["ABCD"[k % 4] for k in range(60)],
    }
)
TRAIN = FRAME[[(k // 4) % 5 != 4 for k in range(60)]]  # every fifth of each owner is for testing


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Classes and values of the same table, given in Python."""
    home = tmp_path_factory.mktemp("runs")
    for name, target, more in (("classes", "quality", {}), ("values", "price", {"values": True})):
        on = ff.table(
            FRAME,
            target=target,
            owner="hospital",
            inputs=["acid", "sugar"],
            standardize=True,
            **more,
        )
        ff.run("fedavg", on=on, model="mlp(hidden=[4])", out=home / name, **QUICK)
    FRAME.to_csv(home / "new.csv", index=False)
    return home


def by_hand(run: Path) -> Tensor:
    """The outputs of a run's module for all rows."""
    columns = FRAME[["acid", "sugar"]].to_numpy()
    used = TRAIN[["acid", "sugar"]].to_numpy()
    prepared = (columns - used.mean(0)) / used.std(0)
    with torch.no_grad():
        return ff.load(run)(torch.tensor(prepared, dtype=torch.float32))


def test_rows_get_class_names_and_confidence(runs: Path) -> None:
    chances = by_hand(runs / "classes").softmax(1).numpy()
    inputs = FRAME[["acid", "sugar"]].to_numpy()
    shuffled = FRAME[["hospital", "sugar", "acid"]]  # columns are found by name
    for given in (
        shuffled,
        runs / "new.csv",
        [str(runs / "new.csv")],
        inputs,
        torch.tensor(inputs),
        FRAME.to_dict("records"),
        FRAME.to_dict("list"),
    ):
        found = ff.predict(runs / "classes", given)
        assert [one.name for one in found] == [
            ("bad", "fair", "good")[place] for place in chances.argmax(1)
        ]
        np.testing.assert_allclose(
            [one.confidence for one in found], chances.max(1), rtol=1e-4, atol=1e-6
        )
    frame = found.frame()
    np.testing.assert_allclose(frame[["bad", "fair", "good"]], chances, rtol=1e-4, atol=1e-6)
    assert frame["class"].tolist() == [one.name for one in found]
    lines = repr(found).splitlines()
    assert lines[0] == f"0: {found[0].name} ({100 * found[0].confidence:.1f} %)"
    assert (len(lines), lines[-1]) == (21, "... and 40 more")


def test_rows_get_values(runs: Path) -> None:
    found = ff.predict(runs / "values", FRAME)
    expected = by_hand(runs / "values")[:, 0].tolist()
    np.testing.assert_allclose([one.values[0] for one in found], expected, rtol=1e-4, atol=1e-5)
    assert list(found.rows()[3]) == ["row", "value_0"]


class Dicts(Dataset[dict[str, Any]]):
    """Examples with an array and a name."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, place: int) -> dict[str, Any]:
        pixels = np.random.default_rng(place).normal(size=(2, 3, 3)).astype("float32") + place % 2
        return {"pixels": pixels, "label": ("cat", "dog")[place % 2], "who": f"u{place % 4}"}


def test_examples_of_a_torch_dataset_of_dicts(tmp_path: Path) -> None:
    on = ff.table(Dicts(), target="label", owner="who")
    net = nn.Sequential(nn.Flatten(), nn.LazyLinear(2))
    result = ff.run("fedavg", on=on, model=net, **QUICK)
    stacked = torch.stack([torch.as_tensor(Dicts()[k]["pixels"]) for k in range(40)])
    with torch.no_grad():
        chances = result.module()(stacked).softmax(1)
    for given in (Dicts(), stacked, stacked.numpy()):
        found = result.predict(given)
        assert [one.name for one in found] == [("cat", "dog")[k] for k in chances.argmax(1)]
        np.testing.assert_allclose(
            [one.confidence for one in found], chances.amax(1).numpy(), rtol=1e-5
        )


def test_the_command_line_prints_rows(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = ff.predict(runs / "classes", FRAME)
    words = ["predict", str(runs / "classes"), str(runs / "new.csv")]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"row {place + 2}: {one}" for place, one in enumerate(found)]
    assert main([*words, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["row"], row["class"]) for row in rows] == [
        (str(place + 2), one.name) for place, one in enumerate(found)
    ]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {
        "row": 2,
        "class": found[0].name,
        "probability": round(found[0].confidence, 6),
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (FRAME[["acid"]], r"the table has no column 'sugar'. It has: acid"),
        (np.zeros((3, 5)), r"the shape \(2,\), found \(5,\)"),
        ("nowhere.csv", "nowhere.csv cannot be read"),
        (["a.png"], "one CSV file to a run on a table, found 'a.png'"),
        (5, "found int"),
        ([], "at least one example"),
        (FRAME.head(0), "at least one example"),
        (
            pd.DataFrame({"acid": [1.0, None], "sugar": [1.0, 2.0]}),
            "row 2: column 'acid' must be a finite number, found nan. Leave the row out",
        ),
    ],
)
def test_what_cannot_be_predicted(runs: Path, given: Any, message: str) -> None:
    with pytest.raises((SettingError, DataError), match=message):
        ff.predict(runs / "classes", given)
