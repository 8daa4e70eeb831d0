"""Own tables whose rows have known domains."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import fedflat as ff
from fedflat.data.domain_inputs import DomainNumbers
from fedflat.errors import DataError, SettingError
from fedflat.registry.specs import parse

CAMERAS = ("old", "new")
HOSPITALS = ("Bern", "Chur", "Genf")


def photos(folder: Path, rows: int = 60, camera: Any = None) -> str:
    """Pictures of two classes by two cameras, in three hospitals; camera k % 2, hospital k % 3."""
    (folder / "img").mkdir(parents=True)
    with (folder / "photos.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "camera", "hospital", "label"])
        for k in range(rows):
            shade = 40 + 150 * (k // 2 % 2) + k % 2
            Image.new("RGB", (10, 8), (shade, shade, shade)).save(folder / f"img/{k}.png")
            name = CAMERAS[k % 2] if camera is None else camera(k)
            writer.writerow([f"img/{k}.png", name, HOSPITALS[k % 3], ("a", "b")[k // 2 % 2]])
    return str(folder / "photos.csv")


def spec(path: str, **more: Any) -> Any:
    return ff.csv(
        path, image="path", target="label", owner="hospital", domain="camera", size=(8, 8), **more
    )


def test_every_row_has_its_domain(tmp_path: Path) -> None:
    on = spec(photos(tmp_path))
    fed = on.open(0)
    assert (fed.population, fed.client_names, on.class_names()) == (3, HOSPITALS, ("a", "b"))
    assert fed.test.domains is not None
    # shades of camera "new" are odd numbers
    every = [fed.test, *(fed.data(client) for client in range(3))]
    for data in every:
        batch = data.batch(torch.arange(len(data)), torch.float64)
        odd = (batch.inputs[:, 0, 0, 0] * 255).round().long() % 2
        assert data.domains is not None
        assert [domain[0] for domain in data.domains.each] == [
            "camera=new" if new else "camera=old" for new in odd.tolist()
        ]
    assert parse(repr(on), "data set") == on
    assert parse(repr(on), "data set").domain == ("camera",)


def test_no_column_of_domains_is_an_input() -> None:
    rows = {"a": range(20), "site": ["x", "y"] * 10, "day": [1, 2, 3, 4] * 5, "y": [0, 1] * 10}
    on = ff.table(rows, domain=["site", "day"], clients=2)
    assert on.column_names() == ("a",)
    fed = on.open(0)
    assert fed.train.domains is not None  # type: ignore[attr-defined]
    assert fed.train.domains.each[:2] == (("site=x", "day=1"), ("site=y", "day=2"))  # type: ignore[attr-defined]
    # two sites and four days: x with 1 is domain 0, y with 2 is 1 * 4 + 1
    numbers = DomainNumbers([fed.train.domains])  # type: ignore[attr-defined]
    assert numbers.of(fed.train.domains)[:2].tolist() == [0, 5]  # type: ignore[attr-defined]


def test_fedcg_uses_and_scores_them(tmp_path: Path) -> None:
    on = spec(photos(tmp_path))
    result = ff.run(
        "fedcg(domains=2, labels='oracle')", on=on, model="mlp([8])", rounds=2, quiet=True,
        clients_per_round=3,
    )  # fmt: skip
    assert sorted(result.rows[-1]["tests"]) == ["test/camera=new", "test/camera=old"]


def test_kmeans_tests_what_clients_hold_out(tmp_path: Path) -> None:
    path = photos(tmp_path)
    fed = spec(path, split=0.75, pool=True).open(0)
    assert (list(fed.sizes()), len(fed.test)) == ([15, 15, 15], 15)
    on = spec(path, split=0.75, pool=True)
    result = ff.run(
        "fedcg(domains=2, labels='kmeans', epochs=1)", on=on, model="mlp([8])", rounds=1, quiet=True,
        clients_per_round=3,
    )  # fmt: skip
    assert np.isfinite(result.rows[-1]["loss"])


def test_clients_of_one_domain_can_be_clustered_by_it(tmp_path: Path) -> None:
    path = photos(tmp_path, camera=lambda k: ("old", "old", "new")[k % 3])
    fed = spec(path).open(0)
    assert [fed.domain(client) for client in range(3)] == [
        ("camera=old",), ("camera=old",), ("camera=new",),
    ]  # fmt: skip
    text = "hfl(clusters=by_column('camera'), T_c=1) + sam(rho=0.1)"
    assert ff.run(text, on=spec(path), model="mlp([4])", rounds=1, clients_per_round=1, quiet=True)


def test_missing_domains_are_refused_or_left_out(tmp_path: Path) -> None:
    path = photos(tmp_path, camera=lambda k: "" if k == 5 else CAMERAS[k % 2])
    with pytest.raises(DataError, match=r"camera \(domain\) is missing"):
        spec(path).open(0)
    fed = spec(path, missing="skip").open(0)
    assert (sum(fed.sizes()) + len(fed.test), fed.remark) == (
        59,
        "1 rows with missing values are left out",
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"domain": "camera", "pool": True}, "Add split=0.8, or remove pool"),
        ({"domain": "kamera"}, r"no column 'kamera'\. Did you mean 'camera'"),
        ({"domain": []}, "domain must be a list"),
    ],
)
def test_what_is_refused(more: dict[str, Any], words: str) -> None:
    rows = {"a": range(10), "camera": ["x", "y"] * 5, "y": [0, 1] * 5}
    with pytest.raises(SettingError, match=words):
        ff.table(rows, clients=2, **more).open(0)


def test_held_out_rows_and_a_test_table_exclude_each_other() -> None:
    rows = {"a": range(10), "y": [0, 1] * 5}
    with pytest.raises(SettingError, match="Leave test out"):
        ff.table(rows, test=rows, clients=2, split=0.5, pool=True).open(0)
