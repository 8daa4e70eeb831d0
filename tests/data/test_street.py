"""The street world as a data set: clients made on demand, domains in equal shares, named test
sets."""

from __future__ import annotations

import pickle
import tracemalloc
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from fedflat import street
from fedflat.data.places.targets import DATABASE, QUERY
from fedflat.data.sets.street import StreetMaker, _tests
from fedflat.data.street.film import Journey
from fedflat.errors import SettingError
from fedflat.registry.specs import parse

SMALL: dict[str, Any] = {"width": 32, "height": 16, "examples": 3, "tests": 6}


def test_its_text_is_printed_again() -> None:
    output = "street(weather='rain,sun,night', view='bus')"
    spec = parse('street(towns=5, weather="rain,sun,night", view="bus", clients=50)', "data set")
    assert repr(spec) == output
    assert parse(output, "data set") == spec == street(weather="rain,sun,night", view="bus")


def test_every_mixture_of_town_weather_and_view_comes_equally_often() -> None:
    spec = street(towns=5, weather="rain,sun,night", view="car,bus", clients=60)
    counts = Counter(spec.domain(client) for client in range(60))
    assert set(counts) == set(product(range(5), ("rain", "sun", "night"), ("car", "bus")))
    assert set(counts.values()) == {2}
    first = [spec.domain(client) for client in range(6)]
    assert len({weather for _, weather, _ in first}) == 3  # few clients too have all of it


def test_a_client_is_a_journey() -> None:
    spec = street(towns=2, weather="night,sun", **SMALL)
    fed = spec.open(4)
    assert (fed.population, fed.shape, fed.classes) == (50, (3, 16, 32), 9)
    examples = fed.data(3).examples
    town, weather, view = spec.domain(3)
    film = Journey(4, 3, town, weather, view, width=32, rows=16).film(3)
    assert np.array_equal(examples.inputs.numpy(), film.images)
    assert np.array_equal(examples.targets.numpy(), film.masks)
    batch = fed.data(3).batch(torch.tensor([1]), torch.float64)
    mean, std = np.array([0.45, 0.46, 0.48]), np.array([0.25, 0.25, 0.26])
    expected = (film.images[1].transpose(1, 2, 0) / 255 - mean) / std
    np.testing.assert_allclose(batch.inputs[0].permute(1, 2, 0).numpy(), expected, atol=1e-12)
    assert batch.targets.dtype == torch.long


def test_the_same_whenever_it_is_asked_for_here_and_in_workers() -> None:
    spec = street(clients=10**9, **SMALL)
    fed = spec.open(1)
    one = fed.data(10**8).examples.inputs
    assert torch.equal(one, fed.data(10**8).examples.inputs)
    assert torch.equal(one, pickle.loads(pickle.dumps(fed)).data(10**8).examples.inputs)
    assert torch.equal(
        one, street(clients=10**9, seed=1, **SMALL).open(7).data(10**8).examples.inputs
    )
    assert not torch.equal(one, spec.open(2).data(10**8).examples.inputs)
    assert len(pickle.dumps(fed)) < 200_000  # what a client has taken is not sent along


def test_only_so_many_pictures_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedflat.data.sets.street.CACHE_BYTES", 5 * 4 * 32 * 16 * 3)
    maker = StreetMaker(street(**SMALL), 0)
    for client in range(9):
        maker(client)
    maker(4)
    maker(20)
    assert list(maker.cache) == [6, 7, 8, 4, 20]


def test_memory_does_not_grow_with_the_clients() -> None:
    spec = street(clients=10**12, **SMALL)
    spec.open(0).data(0)
    tracemalloc.start()
    spec.open(0).data(10**11)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_test_sets_are_of_new_paths_and_of_unseen_places() -> None:
    spec = street(
        towns=2, weather="sun,rain", unseen_weather="snow", unseen_view="scooter", seed=0, **SMALL
    )
    tests = _tests(spec)
    assert list(tests) == ["seen", "unseen_towns", "unseen_weather", "unseen_view"]
    assert all(len(test) == 6 for test in tests.values())
    assert torch.equal(spec.open(0).test.targets, tests["seen"].targets)
    mine = Journey(0, 1 << 41, 2, "sun", "car", width=32, rows=16).film(4)
    assert np.array_equal(tests["unseen_towns"].targets[:4].numpy(), mine.masks)
    snow = Journey(0, 3 << 40, 0, "snow", "car", width=32, rows=16).film(4)
    assert np.array_equal(tests["unseen_weather"].examples.inputs[:4].numpy(), snow.images)
    assert (tests["unseen_view"].targets != 255).all()  # a scooter has no bonnet
    assert list(_tests(street(unseen_towns=0, unseen_weather="", seed=0, **SMALL))) == ["seen"]


def test_places_are_seen_twice_and_can_be_looked_up() -> None:
    spec = street(towns=2, targets="place", seed=0, **{**SMALL, "examples": 8})
    data = spec.open(0).data(1)
    assert data.targets.shape == (8, 3)
    assert data.targets[:, 2].tolist() == [DATABASE] * 4 + [QUERY] * 4
    assert data.targets.dtype == torch.float64
    far = torch.cdist(data.targets[:, :2], data.targets[:, :2])
    assert (far[:4, 4:].diagonal() < 2).all()
    assert not torch.equal(data.examples.inputs[:4], data.examples.inputs[4:])
    tests = _tests(spec)
    assert "gallery" not in tests
    for test in tests.values():
        where, role = test.targets[:, :2], test.targets[:, 2]
        queries, database = where[role == QUERY], where[role == DATABASE]
        assert len(queries) == len(database) == spec.tests
        assert (torch.cdist(queries, database).min(1).values < 2).all()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"towns": 0}, "towns must be a whole number of at least 1"),
        ({"weather": "sun,hail"}, "weather must be 'sun' or .* found 'hail'"),
        ({"weather": " , "}, "weather must name one of sun, clouds, .* found nothing"),
        ({"weather": 3}, "weather must be words with commas between, found 3"),
        (
            {"view": "cart"},
            "view must be 'car' or 'bus' or 'scooter', found 'cart'. Did you mean 'car'?",
        ),
        ({"weather": "sun,fog"}, "unseen_weather must not be in weather, found 'fog' in both"),
        ({"unseen_view": "bus"}, "unseen_view must not be in view"),
        ({"style": "film"}, "style must be 'real' or 'game'"),
        ({"targets": "label"}, "targets must be 'mask' or 'place'"),
        ({"width": 8}, "width must be a whole number of at least 16"),
        ({"examples": 60_000, "width": 4096}, "width times height times examples"),
        ({"traffic": -1}, "traffic"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_settings_are_refused_at_once(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        street(**wrong)


def test_classes_of_camvid() -> None:
    """The same scenes, each class under its number there; fences and cyclists are not drawn."""
    plain, other = (
        parse(f"street(clients=1, examples=4, tests=4, seed=1{more})", "data set").open(0)
        for more in ("", ", classes='camvid'")
    )
    ours, theirs = plain.data(0).targets, other.data(0).targets
    assert torch.equal(ours == 255, theirs == 255)
    pairs = {
        (int(a), int(b)) for a, b in torch.stack([ours.flatten(), theirs.flatten()]).unique(dim=1).T
    }
    road, pavement, building, pole, sign, green, sky, person, car = range(9)
    known = {
        (road, 3),
        (pavement, 4),
        (building, 1),
        (pole, 2),
        (sign, 6),
        (green, 5),
        (sky, 0),
        (person, 9),
        (car, 8),
    }
    assert pairs <= known | {(255, 255)}
    assert len(pairs) > 6
    assert other.classes == 11


@pytest.mark.parametrize(
    ("targets", "task"), [("mask", "segmentation()"), ("place", "retrieval()")]
)
def test_the_default_task_follows_the_targets(targets: str, task: str) -> None:
    assert street(targets=targets).usual_task == task
