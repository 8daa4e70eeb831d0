"""The partitions of FedDrive and LADD on the true sizes of their sets."""

from __future__ import annotations

import numpy as np
import pytest

from fedflat.data.scenes.dealing import (
    equal_shares,
    place_clusters,
    random_sizes,
    sizes_between,
    uniform,
)
from fedflat.errors import SettingError

CITIES = {
    "aachen": 174,
    "bochum": 96,
    "bremen": 316,
    "cologne": 154,
    "darmstadt": 85,
    "dusseldorf": 221,
    "erfurt": 109,
    "hamburg": 248,
    "hanover": 196,
    "jena": 119,
    "krefeld": 99,
    "monchengladbach": 94,
    "strasbourg": 365,
    "stuttgart": 196,
    "tubingen": 144,
    "ulm": 95,
    "weimar": 142,
    "zurich": 122,
}
"""Training scenes of Cityscapes; 2975 in all."""
NAMES = [city for city, count in CITIES.items() for _ in range(count)]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def flat(parts: list[list[int]]) -> list[int]:
    return [place for part in parts for place in part]


def test_cityscapes_by_city() -> None:
    """8 clients of 18 cities, 10 to 45 scenes each, 2904 of 2975 in all: the figures FedDrive
    reports."""
    parts = equal_shares(NAMES, 8, rng())
    sizes = [len(part) for part in parts]
    assert (len(parts), min(sizes), max(sizes), sum(sizes)) == (144, 10, 45, 2904)
    assert len(set(flat(parts))) == 2904
    assert all(len({NAMES[place] for place in part}) == 1 for part in parts)


def test_cityscapes_shuffled() -> None:
    parts = uniform(2975, 146, 10, 40, rng())
    sizes = [len(part) for part in parts]
    assert len(parts) == 146
    assert min(sizes) >= 10
    assert max(sizes) <= 40
    assert sorted(flat(parts)) == list(range(2975))
    assert np.std(sizes) > 5
    assert np.mean([len({NAMES[place] for place in part}) for part in parts]) > 6


def test_crosscity() -> None:
    """3200 scenes of each of four cities; 17 to 37 a client, 27 on average: LADD has 476
    clients."""
    cities = [city for city in ("Rio", "Rome", "Taipei", "Tokyo") for _ in range(3200)]
    parts = random_sizes(cities, 17, 37, rng())
    sizes = [len(part) for part in parts]
    assert len(parts) == 476
    assert min(sizes) >= 17
    assert max(sizes) <= 37
    assert sorted(flat(parts)) == list(range(12800))
    assert all(len({cities[place] for place in part}) == 1 for part in parts)


def test_neighbours_on_the_map() -> None:
    random = rng()
    towns = random.uniform(-60, 60, size=(12, 2))
    places = np.concatenate(
        [random.normal(town, 0.5, size=(int(random.integers(3, 160)), 2)) for town in towns]
    )
    groups = ["west" if east < 0 else "east" for _, east in places]
    parts = place_clusters(places, groups, len(places) // 40, 16, 100, 0)
    sizes = [len(part) for part in parts]
    assert len(parts) == len(places) // 40
    assert min(sizes) >= 16
    assert max(sizes) <= 100
    assert sorted(flat(parts)) == list(range(len(places)))
    assert all(len({groups[place] for place in part}) == 1 for part in parts)
    within = np.mean([places[part].std(0).mean() for part in parts])
    assert within < places.std(0).mean() / 3


def test_as_many_as_there_should_be() -> None:
    """18,000 places like Mapillary's, unevenly on six continents: LADD has 357 clients."""
    random = rng()
    groups = np.repeat(["AF", "AS", "EU", "NA", "OC", "SA"], [900, 3600, 7200, 3600, 900, 1800])
    towns = random.normal(0, 30, size=(200, 2))
    places = towns[random.integers(200, size=18_000)] + random.normal(0, 0.3, size=(18_000, 2))
    parts = place_clusters(places, groups.tolist(), 357, 16, 100, 0)
    assert len(parts) == 357
    assert all(16 <= len(part) <= 100 for part in parts)
    assert sorted(flat(parts)) == list(range(18_000))


@pytest.mark.parametrize(("count", "found"), [(1, 3), (99, 15)])
def test_no_more_and_no_fewer_than_sizes_allow(count: int, found: int) -> None:
    """250 scenes need three clients of 100 or fewer, and are enough for 15 of 16 or more."""
    parts = place_clusters(np.zeros((250, 2)), ["here"] * 250, count, 16, 100, 0)
    assert len(parts) == found
    assert all(16 <= len(part) <= 100 for part in parts)


def test_all_at_one_place() -> None:
    parts = place_clusters(np.zeros((250, 2)), ["here"] * 250, 5, 16, 100, 0)
    assert len(parts) == 5
    assert sorted(flat(parts)) == list(range(250))
    assert all(16 <= len(part) <= 100 for part in parts)


@pytest.mark.parametrize(("total", "count"), [(100, 10), (400, 10), (237, 10)])
def test_sizes_add_up(total: int, count: int) -> None:
    sizes = sizes_between(total, count, 10, 40, rng())
    assert sum(sizes) == total
    assert len(sizes) == count
    assert all(10 <= size <= 40 for size in sizes)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(
        SettingError, match=r"99 scenes cannot be divided among 10 clients with 10 to 40 each. Use"
    ):
        sizes_between(99, 10, 10, 40, rng())
    with pytest.raises(SettingError, match="ulm has 3 scenes, too few for 8 clients"):
        equal_shares(["ulm"] * 3, 8, rng())
    with pytest.raises(SettingError, match="Rio has 5 scenes, too few for a client of 17"):
        random_sizes(["Rio"] * 5, 17, 37, rng())
    with pytest.raises(SettingError, match="AF has 5 scenes, too few"):
        place_clusters(np.zeros((5, 2)), ["AF"] * 5, 1, 16, 100, 0)
