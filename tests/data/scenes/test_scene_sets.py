"""Each published set of scenes, on a miniature in its own folder layout."""

from __future__ import annotations

import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.scenes import streets
from fedflat import camvid, cityscapes, crosscity, gta5, idda, mapillary
from fedflat.data.federation import DataSpec
from fedflat.data.files.fetch import entries, get
from fedflat.data.files.paths import set_data_dir
from fedflat.data.scenes.scenes import DealtScenes, Scenes
from fedflat.data.shown_data import show
from fedflat.errors import DataError, SettingError
from fedflat.registry.specs import parse

SETS = ["camvid", "cityscapes", "crosscity", "gta5", "idda", "mapillary"]
SMALL = {"size": (6, 8), "crop": (4, 6)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    set_data_dir(tmp_path)
    return tmp_path


def first_batch(fed: DealtScenes, client: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    data = fed.data(client)
    batch = data.batch(torch.arange(len(data)), torch.float32, torch.Generator().manual_seed(0))
    return batch.inputs, batch.targets


def held_by(fed: DealtScenes, client: int) -> list[str]:
    assert isinstance(fed.train, Scenes)
    return [fed.train.scenes[place].domain for place in fed.parts[client].tolist()]


def test_cityscapes_by_city(root: Path) -> None:
    streets.cityscapes(root, {"aachen": 5, "ulm": 4}, {"frankfurt": 2, "lindau": 1})
    fed = cityscapes(clients=2, **SMALL).open(0)
    assert fed.sizes() == [2, 2, 2, 2]
    assert [set(held_by(fed, k)) for k in range(4)] == [{"aachen"}, {"aachen"}, {"ulm"}, {"ulm"}]
    assert [fed.domain(client) for client in range(4)] == [
        ("aachen",),
        ("aachen",),
        ("ulm",),
        ("ulm",),
    ]
    assert {name: len(test) for name, test in fed.tests.items()} == {"test": 3}
    assert fed.test.domains is not None
    assert fed.test.domains.groups() == {"frankfurt": [0, 1], "lindau": [2]}
    assert fed.test is fed.tests["test"]
    assert (fed.classes, fed.shape) == (19, (3, 6, 8))
    x, y = first_batch(fed)
    assert x.shape == (2, 3, 4, 6)
    assert y.shape == (2, 4, 6)
    assert set(y.unique().tolist()) <= {0, 1, 2, 10, 13, 18, 255}
    whole = fed.test.batch(torch.arange(3), torch.float64)
    folder = root / "cityscapes" / "leftImg8bit" / "val" / "lindau"
    expected = np.asarray(Image.open(next(folder.iterdir()))).transpose(2, 0, 1)
    np.testing.assert_allclose(whole.inputs[2].numpy(), expected / 127.5 - 1, atol=1e-12)


def test_cityscapes_every_scene_twice(root: Path) -> None:
    streets.cityscapes(root, {"ulm": 4}, {"lindau": 1})
    fed = cityscapes(clients=2, double=True, augment=False, **SMALL).open(0)
    assert fed.sizes() == [4, 4]
    x, y = first_batch(fed)
    assert torch.equal(x[2:], x[:2].flip(-1))
    assert torch.equal(y[2:], y[:2].flip(-1))


def test_cityscapes_shuffled_and_with_fewer_classes(root: Path) -> None:
    streets.cityscapes(root, {"aachen": 20, "ulm": 25}, {"lindau": 1})
    fed = cityscapes(split="uniform", clients=3, classes="crosscity", **SMALL).open(0)
    assert sum(fed.sizes()) == 45
    assert min(fed.sizes()) >= 10
    assert fed.classes == 13
    assert set(first_batch(fed)[1].unique().tolist()) <= {0, 1, 2, 6, 9, 12, 255}
    assert [p.tolist() for p in cityscapes(split="uniform", clients=3, seed=0).open(9).parts] == [
        p.tolist() for p in fed.parts
    ]


def test_idda(root: Path) -> None:
    """The numbers of clients and of unseen domains that FedDrive reports; five scenes a domain
    instead of 60."""
    streets.idda(root)
    held_back = {
        "country": (0, "T07", 90, 14),
        "rainy": (1, "HRN", 69, 35),
        "bus": (2, "B", 83, 21),
    }
    for unseen, (part, value, clients, domains) in held_back.items():
        fed = idda(unseen=unseen, **SMALL).open(0)
        assert fed.population == clients
        assert set(fed.sizes()) == {4}
        assert {name: len(test) for name, test in fed.tests.items()} == {
            "test": clients,
            "unseen": 5 * domains,
        }
        assert all(len(set(held_by(fed, k))) == 1 for k in range(clients))
        apart = fed.tests["unseen"].examples
        assert isinstance(apart, Scenes)
        assert {scene.domain.split("_")[part] for scene in apart.scenes} == {value}
    assert fed.classes == 16
    assert first_batch(fed)[1].max() == 255
    lines = show(idda("rainy", **SMALL)).splitlines()
    assert lines[2].startswith("69 clients, 276 examples")
    assert any(re.fullmatch(r"  CN {13}\d\d clients +\d+ examples  █+", line) for line in lines)
    assert [line for line in lines if line.startswith("clients by")] == [
        "clients by town:",
        "clients by weather:",
        "clients by vehicle:",
    ]
    assert not any(line.startswith("  HRN") for line in lines)
    assert lines[-1].startswith("unseen: T01 (")
    mixed = idda(unseen="bus", split="uniform", **SMALL).open(0)
    assert mixed.sizes() == fed.sizes()
    assert np.mean([len(set(held_by(mixed, k))) for k in range(20)]) > 3


def test_crosscity_has_no_labels_to_train_on(root: Path) -> None:
    streets.crosscity(root, 40, 2)
    fed = crosscity(**SMALL).open(0)
    assert sum(fed.sizes()) == 160
    assert all(17 <= size <= 37 for size in fed.sizes())
    assert fed.test.domains is not None
    assert fed.test.domains.groups() == {
        "Rio": [0, 1],
        "Rome": [2, 3],
        "Taipei": [4, 5],
        "Tokyo": [6, 7],
    }
    assert isinstance(fed.train, Scenes)
    assert all(scene.mask is None for scene in fed.train.scenes)
    assert (first_batch(fed)[1] == 255).all()
    tested = fed.test.batch(torch.arange(8), torch.float32).targets
    assert set(tested.unique().tolist()) == {0, 1, 2, 6, 9, 12, 255}


def test_gta5_with_a_mask_of_another_size(root: Path) -> None:
    streets.gta5(root, 9)
    fed = gta5(clients=2, test=3, augment=False, **SMALL).open(0)
    assert sorted(fed.sizes()) == [3, 3]
    assert len(fed.test) == 3
    for client in (0, 1):
        assert set(first_batch(fed, client)[1].unique().tolist()) == {0, 1, 2, 10, 13, 18, 255}
    assert gta5().size is None
    with pytest.raises(SettingError, match="9 scenes are too few for 999 to test on and 1 clients"):
        gta5().open(0)


@pytest.mark.parametrize("version", ["v1.2", ""])
def test_mapillary_by_place(root: Path, version: str) -> None:
    streets.mapillary(root, {"AF": 20, "EU": 40}, version=version)
    fed = mapillary(size=(9, 12), crop=(4, 6)).open(0)
    lines = show(mapillary(size=(9, 12))).splitlines()
    assert [line.split()[0] for line in lines[lines.index("clients by continent:") + 1 :]] == [
        "AF",
        "EU",
    ]
    assert sum(fed.sizes()) == 60
    assert all(16 <= size <= 100 for size in fed.sizes())
    x, y = first_batch(fed)
    assert x.shape[1:] == (3, 4, 6)
    assert set(y.unique().tolist()) <= {0, 1, 10, 255}
    assert isinstance(fed.train, Scenes)
    for client in range(fed.population):
        names = {fed.train.scenes[place].image.name[:2] for place in fed.parts[client].tolist()}
        assert len(names) == 1


def test_mapillary_without_places(root: Path) -> None:
    folder = streets.mapillary(root, {"AF": 40})
    (folder / "places.csv").unlink()
    with pytest.raises(
        DataError,
        match=r"clients by place need .*places.csv, with the columns .* use split=.uniform",
    ):
        mapillary().open(0)
    assert sum(mapillary(split="uniform").open(0).sizes()) == 40
    (folder / "places.csv").write_text("name,latitude,longitude,continent\nAF-0,91,0,AF\n")
    with pytest.raises(DataError, match=r"numbers of degrees: found latitude 91.0"):
        mapillary().open(0)
    (folder / "places.csv").write_text("name,latitude,longitude,continent\nAF-0,1,0,AF\n")
    with pytest.raises(
        DataError, match=r"has no place for 39 of 40 training images; the first is AF-1"
    ):
        mapillary().open(0)


def test_camvid_with_dusk_unseen(root: Path) -> None:
    masks = streets.camvid(root, {"0001TP": (2, 1), "0006R0": (8, 0), "Seq05VD": (0, 4)})
    fed = camvid(clients=3, augment=False).open(0)
    assert [fed.domain(client) for client in range(3)] == [("0006R0",), ("0006R0",), ("Seq05VD",)]
    assert [part.tolist() for part in fed.parts] == [[3, 4, 5], [6, 7, 8], [11, 12, 13]]
    assert {name: test.index.tolist() for name, test in fed.tests.items()} == {
        "test": [9, 10, 14],
        "unseen": [0, 1, 2],
    }
    assert (fed.classes, fed.shape) == (11, (3, 180, 240))
    _, y = first_batch(fed)
    assert torch.equal(y, torch.from_numpy(np.where(masks[3:6] == 11, 255, masks[3:6])).long())
    official = camvid(clients=2, unseen="none").open(0)
    assert [part.tolist() for part in official.parts] == [[0, 1], list(range(3, 11))]
    assert official.test.index.tolist() == [2, 11, 12, 13, 14]
    assert first_batch(official)[0].shape == (2, 3, 160, 224)


def test_camvid_that_does_not_fit_together(root: Path) -> None:
    streets.camvid(root, {"0001TP": (1, 0), "0006R0": (2, 0)})
    with pytest.raises(
        SettingError, match="must be between 1, one for each sequence, and 1, one for each frame"
    ):
        camvid().open(0)
    (root / "camvid" / "images" / "0006R0_000001.jpg").unlink()
    (root / "camvid" / "index.csv").touch()
    with pytest.raises(
        DataError, match=r"1 of 3 images are missing; the first is .*0006R0_000001.jpg"
    ):
        camvid(clients=1).open(0)
    text = (root / "camvid" / "index.csv").read_text()
    (root / "camvid" / "index.csv").write_text(text + "3,more,train,0006R0\n")
    with pytest.raises(
        DataError, match=r"must hold the 4 masks of index.csv, .* found 240x540 pixels"
    ):
        camvid(clients=1).open(0)
    (root / "camvid" / "index.csv").write_text("row,name\n0,a\n")
    with pytest.raises(DataError, match="must have the columns row, name, split and sequence"):
        camvid(clients=1).open(0)


def test_an_empty_city(root: Path) -> None:
    folder = streets.cityscapes(root, {"ulm": 4}, {"lindau": 1})
    (folder / "leftImg8bit" / "train" / "aachen").mkdir()
    with pytest.raises(
        DataError, match=r"aachen has no images \(\*_leftImg8bit.png\). Ask for it at"
    ):
        cityscapes().open(0)


def test_a_missing_mask(root: Path) -> None:
    folder = streets.cityscapes(root, {"ulm": 4}, {"lindau": 1})
    (folder / "gtFine" / "train" / "ulm" / "ulm_000000_000002_gtFine_labelIds.png").unlink()
    with pytest.raises(
        DataError, match=r"1 of 4 images in .*ulm have no mask; the first that is .*000002_gt"
    ):
        cityscapes().open(0)


def test_a_part_that_is_missing(root: Path) -> None:
    folder = streets.cityscapes(root, {"ulm": 4}, {"lindau": 1})
    shutil.rmtree(folder / "gtFine" / "val")
    with pytest.raises(
        DataError, match=r"cityscapes is there, but without gtFine/val. Ask for it at https"
    ):
        cityscapes().open(0)


def test_idda_without_what_is_unseen(root: Path) -> None:
    streets.idda(root, towns=1)
    with pytest.raises(DataError, match=r"no scenes of the unseen kind \(country\)"):
        idda().open(0)


@pytest.mark.parametrize("name", SETS)
def test_a_set_that_is_not_there(root: Path, name: str) -> None:
    with pytest.raises(
        DataError, match=rf"^{name} is not on this machine \(looked in .*{name}.* --data-dir"
    ):
        parse(name, "data set").open(0)
    info = next(info for info in entries() if info.name == name)
    assert not info.ready
    assert "folder" in info.advice
    with pytest.raises(DataError, match=rf"^{name} cannot be fetched from here"):
        get(name, root)


def test_a_set_that_is_there(root: Path) -> None:
    folder = streets.cityscapes(root, {"ulm": 1}, {"lindau": 1})
    assert next(info for info in entries() if info.name == "cityscapes").where == folder
    assert get("cityscapes", root, lambda text: None) == folder
    set_data_dir(folder)
    assert cityscapes().folder() == folder


def test_what_is_wrong_with_a_file_is_reported_when_its_batch_is_cut(root: Path) -> None:
    folder = streets.cityscapes(root, {"ulm": 4}, {"lindau": 1})
    fed = cityscapes(clients=1, **SMALL).open(0)
    path = folder / "gtFine" / "train" / "ulm" / "ulm_000000_000002_gtFine_labelIds.png"
    path.write_bytes(path.read_bytes()[:60])
    fed.train.expect(torch.arange(4))
    with pytest.raises(DataError, match=rf"^{path} is damaged or was cut off"):
        first_batch(fed)


def test_how_unequal_clients_are(root: Path) -> None:
    streets.cityscapes(root, {"aachen": 5, "ulm": 4}, {"lindau": 1})
    skew = cityscapes(clients=2, **SMALL).open(0).skew()
    assert (skew.clients, skew.examples, skew.size_min, skew.size_max) == (4, 8, 2, 2)
    assert (skew.classes, skew.classes_min, skew.classes_max) == (19, 6, 6)
    assert skew.distance < 0.1
    streets.crosscity(root, 20, 1)
    apart = crosscity(**SMALL).open(0).skew()
    assert (apart.clients, apart.examples, apart.classes, apart.distance) == (
        4,
        80,
        4,
        0.75,
    )  # by city: no masks


def test_scenes_are_examples(root: Path) -> None:
    streets.cityscapes(root, {"ulm": 4}, {"lindau": 1})
    fed = cityscapes(clients=2, **SMALL).open(0)
    train = fed.train
    assert isinstance(train, Scenes)
    again = pickle.loads(pickle.dumps(train))
    one, two = (
        some.batch(torch.tensor([2, 0]), torch.float32) for some in (train.plain(), again.plain())
    )
    assert torch.equal(one.inputs, two.inputs)
    assert train.augments
    assert not train.plain().augments
    assert len(train.part(slice(1, 3))) == 2
    assert train.targets.shape == (4, 6, 8)
    assert train.traces() != train.part(slice(0, 3)).traces()
    with pytest.raises(SettingError, match="a class per pixel, not one class each"):
        _ = train.labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cityscapes(split='by_city')", "cityscapes: split must be 'heterogeneous' or 'uniform'"),
        (
            "cityscapes(size=[0, 4])",
            "cityscapes: every side of size must be a whole number of at least 1",
        ),
        ("cityscapes(crop=512)", "cityscapes: crop must be a height and a width"),
        (
            "cityscapes(classes='ade')",
            "cityscapes: classes must be 'cityscapes' or 'idda' or 'crosscity'",
        ),
        ("idda(unseen='town')", "idda: unseen must be 'country' or 'rainy' or 'bus'"),
        ("gta5(test=0)", "gta5: test must be a whole number of at least 1"),
        ("camvid(test=1)", "camvid: test must be a number above 0"),
        ("camvid(crop=[1])", "camvid: crop must be a height and a width"),
        ("mapillary(split='gps')", "mapillary: split must be 'places' or 'uniform'"),
    ],
)
def test_settings(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse(text, "data set")


@pytest.mark.parametrize("name", SETS)
def test_spelling(name: str) -> None:
    spec = parse(f"{name}(crop=[32, 64])", "data set")
    assert isinstance(spec, DataSpec)
    assert parse(repr(spec), "data set") == spec
    assert repr(parse(name, "data set")) == f"{name}()"


def test_splits_are_shown(root: Path) -> None:
    """Who has what, as bars; how large clients are; and what is tested."""
    streets.cityscapes(root, {"aachen": 9, "ulm": 4}, {"frankfurt": 2, "lindau": 1})
    lines = show(cityscapes(clients=2, **SMALL)).splitlines()
    assert lines[2] == "4 clients, 12 examples: 2 to 4 each, median 3"
    assert lines[4:] == [
        "clients by their size, 2 to 4: █ █",
        "clients by city:",
        "  aachen          2 clients       8 examples  " + 40 * "█",
        "  ulm             2 clients       4 examples  " + 20 * "█",
        "test: frankfurt (2), lindau (1)",
    ]
    mixed = show(cityscapes("uniform", 1, **SMALL)).splitlines()
    assert "every client has examples of several domains" in mixed
