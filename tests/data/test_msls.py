"""MSLS in its published layout, its splits, and place sets from folders."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import fedflat as ff
from data.miniature_msls import write_msls
from fedflat.data.client_columns import column
from fedflat.data.figures import sizes_figure
from fedflat.data.files import paths
from fedflat.data.files.paths import set_data_dir
from fedflat.data.places import splits
from fedflat.data.places.msls_files import ImageSequence, Validity
from fedflat.data.places.splits import (
    clustering,
    deal,
    draw_validation,
    proximity,
    random_split,
    sequence_descriptors,
)
from fedflat.data.places.targets import DATABASE, QUERY, mean_and_std
from fedflat.data.sets.msls import CONTINENT_OF, TRAINING
from fedflat.data.shown_data import show, show_data
from fedflat.errors import DataError, SettingError
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.registry.specs import parse

pytest.importorskip("PIL")


def sequence(name: str, *where: tuple[float, float], city: str = "x") -> ImageSequence:
    role = QUERY if name.startswith("q") else DATABASE
    return ImageSequence(city, role, name, tuple(range(len(where))), np.array(where, dtype=float))


def first_of(order: list[int]):  # type: ignore[no-untyped-def]
    """Picks seeds in a given order, always their first image."""
    return lambda seeds: (next(i for i in order if i in seeds), 0)


def names(sequences: list[ImageSequence], clients: list[list[int]]) -> list[set[str]]:
    return [{sequences[i].name for i in client} for client in clients]


LINE = [
    *(sequence(f"q{x}", (x, 0)) for x in (0, 500, 5000, 5200)),
    *(sequence(f"d{x}", (x, 0)) for x in (100, 900, 5100)),
]
PLANE = [
    sequence("q1", (0, 0), (50, 0)),
    sequence("q2", (300, 400), (350, 400)),
    sequence("q3", (1200, 0), (900, 100)),
    sequence("q4", (3000, 0), (3100, 0)),
    sequence("d1", (100, 100), (150, 100)),
    sequence("d2", (0, -950), (0, -1100)),
    sequence("d3", (3000, 500), (3000, 600)),
    sequence("d4", (2500, 0)),
]
IN_ORDER = [3, 0, 1, 2]


@pytest.mark.parametrize("seed", range(3))
def test_proximity_on_a_line(seed: int) -> None:
    from fedflat.data.places.splits import picked_at_random

    pick = picked_at_random(LINE, np.random.default_rng(seed))
    assert names(LINE, proximity(LINE, 1000, pick)) == [{"q0", "q500", "d100", "d900"}]
    assert names(LINE, proximity(LINE, 6000, pick)) == [{one.name for one in LINE}]


def test_proximity_in_the_plane() -> None:
    def clients(radius: float, rule: str = "any") -> list[set[str]]:
        return names(PLANE, proximity(PLANE, radius, first_of(IN_ORDER), rule=rule))

    assert clients(1000) == [{"q1", "q2", "q3", "d1", "d2"}]
    assert clients(1000, "first") == [{"q1", "q2", "d1", "d2"}]
    assert clients(2000) == [{"q3", "q4", "d3", "d4"}, {"q1", "q2", "d1", "d2"}]
    assert clients(4000) == [{one.name for one in PLANE}]
    sizes = [
        sum(len(PLANE[i]) for i in client) for client in proximity(PLANE, 2000, first_of(IN_ORDER))
    ]
    assert mean_and_std(sizes) == "7.5 ± 0.5"


def test_two_query_images_can_suffice() -> None:
    one = [PLANE[0], PLANE[4], PLANE[5]]
    assert not Validity()(one)
    assert Validity(images=True)(one)
    assert not Validity(images=True)([PLANE[0], PLANE[4]])


def test_random_gives_every_client_something_of_every_pile() -> None:
    a, b, c = ([f"{name}{i}" for i in range(n)] for name, n in (("a", 3), ("b", 7), ("c", 6)))
    expected = "a0 b0 b5 c0,a1 b1 b6 c1,a2 b2 c2 c5,a0 b3 c3,a1 b4 c4"
    dealt = deal([a, b, c], 5)  # type: ignore[list-item]
    assert ",".join(" ".join(map(str, client)) for client in dealt) == expected
    cities = [*PLANE, *(sequence(one.name, (0, 0), city="y") for one in PLANE[:6])]
    clients = random_split(cities, 3, np.random.default_rng(0))
    piles = {(cities[i].city, cities[i].role) for i in range(len(cities))}
    assert all({(cities[i].city, cities[i].role) for i in one} == piles for one in clients)
    assert {i for client in clients for i in client} == set(range(len(cities)))


def test_clustering_follows_descriptors_and_the_number_of_neighbourhoods() -> None:
    near = proximity(PLANE, 2000, first_of(IN_ORDER))
    looks = np.array([[0.0], [5.0], [0.1], [5.1], [0.2], [5.2], [0.3], [5.3]])
    found = names(PLANE, clustering(PLANE, looks, near, seed=0))
    assert sorted(map(sorted, found)) == [["d1", "d3", "q1", "q3"], ["d2", "d4", "q2", "q4"]]
    alike = np.array([[0.0], [0.1], [0.2], [0.3], [0.4], [9.0], [9.1], [9.2]])
    assert names(PLANE, clustering(PLANE, alike, near, seed=0)) == []  # neither is valid


def test_validation_clients_are_drawn_from_the_finished_split() -> None:
    kept, drawn = draw_validation([[i] for i in range(10)], 3, np.random.default_rng(0))
    assert sorted(kept + drawn) == list(range(10))
    assert len(drawn) == 3
    with pytest.raises(SettingError, match=r"12 clients cannot be set aside .* has 10"):
        draw_validation([[i] for i in range(10)], 12, np.random.default_rng(0))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_msls(tmp_path_factory.mktemp("data") / "msls")


@pytest.fixture(autouse=True)
def at(root: Path):  # type: ignore[no-untyped-def]
    set_data_dir(root.parent)
    yield
    set_data_dir(None)


COMMON = (
    "cities='london,boston', validation_cities='amsterdam', validation_clients=1, size=[32, 40]"
)


def test_the_cities_of_the_thesis() -> None:
    assert len(TRAINING) == 20
    assert {c: sum(CONTINENT_OF[t] == c for t in TRAINING) for c in set(CONTINENT_OF.values())} == {
        "europe": 8,
        "americas": 6,
        "asia_oceania": 5,
        "africa": 1,
    }


def test_proximity_clients_of_the_miniature() -> None:
    fed = parse(f"msls({COMMON}, radius=1000)", "data set").open(0)
    assert fed.population == 4  # five neighbourhoods, of which one is set aside
    assert list(fed.tests) == ["test", "validation", "validation_clients"]
    assert fed.shape == (3, 32, 40)
    assert len(fed.test) == 24 + 16
    # London has lost three panoramas.
    assert sum(fed.sizes()) + len(fed.more["validation_clients"]) == 5 * 24 - 3
    for client in range(4):
        where = fed.data(client).targets
        assert (where[:, :2].amax(0) - where[:, :2].amin(0)).max() < 1000
        assert set(where[:, 2].tolist()) == {QUERY, DATABASE}
    assert set(column(fed, "continent")) <= {"europe", "americas"}
    assert sorted(set(column(fed, "city"))) == ["boston", "london"]
    gap = torch.cdist(fed.test.targets[:24, :2], fed.test.targets[24:, :2]).min()
    assert gap > 50_000  # a query of one city finds no image of the other
    assert fed.test.batch(torch.tensor([0, 1, 2]), torch.float32).inputs.shape == (3, 3, 32, 40)
    again = parse(f"msls({COMMON}, radius=1000)", "data set").open(0)
    assert all(torch.equal(a, b) for a, b in zip(fed.parts, again.parts, strict=True))


def test_frames_are_in_the_order_of_the_drive() -> None:
    fed = parse(f"msls({COMMON})", "data set").open(0)
    targets = fed.test.targets[:6]
    assert torch.allclose(targets[1:, 0] - targets[:-1, 0], torch.tensor(8.0).double())


def test_random_clients_have_every_city() -> None:
    fed = parse(f"msls('random', {COMMON}, clients=3)", "data set").open(0)
    assert fed.population == 3
    for client in range(3):
        domains = fed.data(client).domains
        assert {domain[1] for domain in domains.each} == {"london", "boston"}
    with pytest.raises(SettingError, match="cannot be grouped by 'city'"):
        column(fed, "city")


def test_clustering_reads_the_images() -> None:
    fed = parse(
        f"msls('clustering', {COMMON}, valid='images', radius=1000, network='embedder(width=4)')",
        "data set",
    )
    opened = fed.open(0)
    assert 1 <= opened.population <= 4


def test_descriptors_are_kept_and_follow_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    module = parse("embedder(width=4)", "model").build((3, 24, 32), splits.WIDTH)
    torch.save(module.state_dict(), tmp_path / "weights.pth")
    spec = parse(f"msls('clustering', {COMMON}, network='embedder(width=4)')", "data set")
    cities = spec._read("cities")
    images, sequences = spec._images(cities), cities.sequences

    def found(weights: str, seed: int = 0) -> np.ndarray:
        return sequence_descriptors(images, sequences, "embedder(width=4)", weights, seed)

    fresh, loaded = found(""), found(str(tmp_path / "weights.pth"))
    with torch.no_grad():
        index = torch.tensor(sequences[3].images)
        expected = module.eval()(images.batch(index, torch.float32).inputs).double().mean(0)
    np.testing.assert_allclose(loaded[3], expected.numpy(), rtol=1e-6)
    assert not np.allclose(fresh, loaded)
    with monkeypatch.context() as m:
        m.setattr(splits, "_described", lambda *_: pytest.fail("images are read again"))
        np.testing.assert_array_equal(found(""), fresh)
        np.testing.assert_array_equal(found(str(tmp_path / "weights.pth"), seed=5), loaded)
        with pytest.raises(pytest.fail.Exception):
            found("", seed=1)  # another network
    for kept in (paths.cache_dir() / "descriptors").iterdir():
        kept.write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"cannot be read.*Remove it"):
        found("")
    with pytest.raises(DataError, match="there is no such file"):
        found(str(tmp_path / "elsewhere.pth"))


def test_each_test_city_can_have_its_own_database() -> None:
    fed = parse(f"msls({COMMON}, by_city=True)", "data set").open(0)
    assert {name: len(data) for name, data in fed.tests.items() if name in ("sf", "cph")} == {
        "sf": 24,
        "cph": 16,
    }


def test_what_is_shown_of_a_split() -> None:
    text = show(parse(f"msls({COMMON}, radius=1000)", "data set"))
    assert "clients: 5, of which 1 are set aside for validation" in text
    assert "sequences per client: 4.0 ± 0.0" in text
    assert "images per client: 23.4 ± 1.2" in text
    assert "test: 20 queries, 20 database images; 20 queries have one within 25 m" in text
    assert "images per client, number of clients:" in text
    assert sum(int(n) for n in re.findall(r" to \d+ +(\d+)  █", text)) == 5  # set aside, too
    assert "left out: 3 panoramas, 0 of 20 sequences" in text
    assert "clients by city:" in text


def test_the_picture_of_a_split() -> None:
    fed = parse(f"msls({COMMON}, radius=1000)", "data set").open(0)
    cities = [fed.domain(client)[1] for client in range(fed.population)]
    figure = sizes_figure(fed.images_per_client(), {"city": cities, "same": ["x"] * len(cities)})
    sizes, city = figure.axes  # a facet with one value has no panel
    assert sum(bar.get_height() for bar in sizes.patches) == 5
    names = [text.get_text() for text in city.get_yticklabels()]
    widths = [bar.get_width() for bar in city.patches]
    assert dict(zip(names, widths, strict=True)) == {name: cities.count(name) for name in cities}
    plt.close(figure)


def test_the_picture_is_saved(tmp_path: Path) -> None:
    on = parse(f"msls({COMMON}, radius=1000)", "data set")
    saved = show_data(on).save(tmp_path / "split.svg").read_text()
    assert ">boston<" in saved
    assert ">examples of a client<" in saved


def stopping(write):  # type: ignore[no-untyped-def]
    """Checkpoints of a run that is interrupted after its first one with a finished round."""

    def once(*given, **named):  # type: ignore[no-untyped-def]
        write(*given, **named)
        raise KeyboardInterrupt

    return once


@pytest.mark.slow
def test_fedvpr_trains_on_the_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H-FL by city, the cap on steps, workers of another process, and the same bits again."""
    words = {
        "on": f"msls({COMMON}, radius=1000)",
        "model": "frozen(resnet18_gem(cut=1), 'conv1,bn1')",
        "rounds": 2,
        "clients_per_round": 1,
        "batch_size": 2,
        "max_local_steps": 2,
        "lr": 1e-3,
        "threads": 1,
        "quiet": True,
    }
    text = "hfl(clusters=by_column('city'), T_c=2) + local_adam()"
    here = ff.run(text, executor="in-process", **words)
    for executor in ("workers", "loopback"):
        there = ff.run(text, executor=executor, **words)
        assert torch.equal(here.model.params, there.model.params)
    out = tmp_path / "run"
    monkeypatch.setattr(Store, "write", stopping(Store.write))
    with pytest.raises(KeyboardInterrupt):
        ff.run(text, executor="in-process", out=out, checkpoint_every=0, **words)
    monkeypatch.undo()
    [resumed] = ff.resume(out, quiet=True)
    assert torch.equal(resumed.model.params, here.model.params)
    assert here.rows[-1]["tests"]["validation"]["recall@1"] >= 0
    assert here.rows[-1]["without_positive"] == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("msls(cities='london,atlantis')", "no folder for atlantis. Unpack these cities"),
        ("msls(cities='london', radius=10)", "no client has two query and two database"),
        ("msls(cities='london', validation_clients=5)", "5 clients cannot be set aside"),
    ],
)
def test_cities_that_are_not_there(text: str, why: str) -> None:
    with pytest.raises((DataError, SettingError), match=why):
        parse(text.replace(")", ", validation_cities='')"), "data set").open(0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("msls('nearest')", "split must be 'proximity'"),
        ("msls(radius=0)", "radius must be"),
        ("msls(size=[3])", "size must be a height and a width"),
        ("msls(continents='lima')", "continents must be written as"),
        ("msls(cities=' ')", "cities must name a city"),
        ("place_folder('')", "path must be a text"),
    ],
)
def test_arguments_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        parse(text, "data set")


def test_a_city_without_positions(root: Path, tmp_path: Path) -> None:
    from fedflat.data.places.msls_files import read_cities

    with pytest.raises(DataError, match=r"no positions \(GPS\)"):
        read_cities(root / "test", ["miami"], {})


def spoiled(root: Path, folder: Path, file: str, old: str, new: str) -> None:
    import shutil

    shutil.copytree(root / "train_val" / "sf", folder / "sf")
    path = folder / "sf" / "query" / file
    path.write_text(path.read_text().replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("postprocessed.csv", "easting", "east", "must have a column easting, found key, east"),
        ("postprocessed.csv", "565000.0", "", r"has no position \(GPS\)"),
        ("seq_info.csv", "qs0000", "other", "1 images of raw.csv are not in seq_info.csv"),
        ("raw.csv", "qs0000", "qs00xx", "1 images of raw.csv are not in"),
        ("seq_info.csv", "qs0000,s00,0", "qs0000,s00,first", "must be a whole number"),
    ],
)
def test_spoiled_tables(
    root: Path, tmp_path: Path, file: str, old: str, new: str, why: str
) -> None:
    from fedflat.data.places.msls_files import read_cities

    spoiled(root, tmp_path, file, old, new)
    with pytest.raises(DataError, match=why):
        read_cities(tmp_path, ["sf"], {})


def test_a_listed_image_that_is_missing(root: Path, tmp_path: Path) -> None:
    from fedflat.data.places.msls_files import read_cities

    spoiled(root, tmp_path, "raw.csv", "", "")
    (tmp_path / "sf" / "query" / "images" / "qs0000.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of 12 listed images .* first is qs0000.jpg"):
        read_cities(tmp_path, ["sf"], {})


def write_folder(folder: Path, table: str, sizes: dict[str, tuple[int, int]]) -> Path:
    from PIL import Image

    (folder / "images").mkdir(parents=True)
    for number, (name, size) in enumerate(sizes.items()):
        Image.new("RGB", size, (40 * number, 10, 99)).save(folder / "images" / f"{name}.jpg")
    (folder / "index.csv").write_text(table)
    return folder


SIZES = {"a": (32, 24), "b": (24, 32), "c": (32, 24), "d": (40, 20)}
TABLE = "name,role,lat,lon\na,query,52.5,13.0\nb,database,52.50005,13.0\nc,database,52.6,13.0\nd,query,50,13"


def test_a_folder_with_a_table(tmp_path: Path) -> None:
    """Images of unequal sizes are resized; a query without an image nearby is counted."""
    folder = write_folder(tmp_path / "places", TABLE, SIZES)
    fed = parse(f"place_folder({str(folder)!r}, clients=2, size=[16, 20])", "data set").open(0)
    assert fed.shape == (3, 16, 20)
    assert fed.test.targets[1, :2].tolist() == pytest.approx([0, 5.56], abs=0.01)
    text = show(parse(f"place_folder({str(folder)!r}, size=[16, 20])", "data set"))
    assert "test: 2 queries, 2 database images; 1 queries have one within 25 m" in text
    result = ff.run(
        "fedavg",
        on=f"place_folder({str(folder)!r}, size=[16, 20])",
        model="embedder(width=4)",
        rounds=1,
        clients_per_round=1,
        quiet=True,
    )
    assert result.rows[-1]["without_positive"] == 1
    assert result.rows[-1]["recall@5"] == 1  # of the one query that has an answer


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("name,role\na,query", r"the position \(GPS\) as east_m and north_m or as lat and lon"),
        ("name,role,lat,lon\na,query,,13\nb,query,1,1", r"1 of 2 images have no position \(GPS\)"),
        ("name,role,lat,lon\na,gallery,52,13", "must be query or database, found 'gallery'"),
        ("name,role,lat,lon\nz,query,52,13", "lists z, which is not in"),
        ("name,role,lat,lon\n", "lists no image"),
        ("name,role,lat,lon\na,query,152,13", "those of a are 152 and 13"),
        ("name,role,lat,lon\na,query,52,13\na,query,53,13", "lists a more than once"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, table: str, why: str) -> None:
    folder = write_folder(tmp_path / "places", table, SIZES)
    with pytest.raises(DataError, match=why):
        parse(f"place_folder({str(folder)!r})", "data set").open(0)


def test_berlin_beside_the_street(tmp_path: Path) -> None:
    write_folder(tmp_path / "vpr_berlin", TABLE, SIZES)
    set_data_dir(tmp_path)
    street = (
        "street(targets='place', towns=2, clients=3, examples=16, width=24, height=16, tests=4, "
        "unseen_weather='', uneven=1.0)"
    )
    fed = parse(f"tested_on({street}, berlin(size=[16, 24]), add=True)", "data set").open(0)
    assert list(fed.tests) == ["test", "unseen_towns", "berlin"]
    assert len(set(fed.sizes())) > 1
    assert min(fed.sizes()) >= 4
    only = parse(f"tested_on({street}, berlin(size=[16, 24]))", "data set").open(0)
    assert list(only.tests) == ["test"]
