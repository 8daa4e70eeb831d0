"""Synthetic driving scenes, rendered from a seed when needed: no file, no download.

Each client is a vehicle that drives through one town, in one weather, with one camera. The renderer
is `fedflat.data.street`; masks, positions and headings are exact.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from fedflat.core.seeds import numpy_generator
from fedflat.data.domains import Domain, Domains
from fedflat.data.examples import ClientData, Examples
from fedflat.data.federation import DataSpec, OnDemand
from fedflat.data.places.targets import DATABASE, QUERY, with_role
from fedflat.data.scenes.scenes import HALF
from fedflat.data.sets.camvid import CLASSES as CAMVID
from fedflat.data.street.film import FINISHES, Film, Journey
from fedflat.data.street.frame import CLASSES
from fedflat.data.street.traffic import VIEWS
from fedflat.data.street.weather import WEATHERS
from fedflat.errors import LARGEST_SEED, MOST_WEIGHTS, SettingError, choice, number
from fedflat.registry.specs import register

MEAN, STD = (0.45, 0.46, 0.48), (0.25, 0.25, 0.26)
"""Mean and deviation of the colours, approximately; fixed, so that models can be transferred."""
LISTS = {"street": CLASSES, "camvid": CAMVID}
"""Names of classes."""
TO_CAMVID = torch.full((256,), 255, dtype=torch.uint8)
"""Map from our classes to CamVid's: green becomes tree, person becomes pedestrian."""
TO_CAMVID[: len(CLASSES)] = torch.tensor(
    [CAMVID.index({"green": "tree", "person": "pedestrian"}.get(name, name)) for name in CLASSES],
    dtype=torch.uint8,
)
CACHE_BYTES = 256 << 20
"""Bytes of clients' images that are cached."""
AGAIN = (0.6, -0.6, 1.5)
"""Metres east and north, and degrees, by which a second drive differs from the first."""
DRIVES = (DATABASE, QUERY)
"""Roles of a client's two drives."""
FACETS = ("town", "weather", "view")
"""The facets of a domain."""
TEST_FRAMES = 4
"""Images of each vehicle in a test set."""
TEST_NUMBERS, REPEATED_NUMBERS = 1 << 40, 1 << 50
"""First numbers of test journeys and of repeated journeys; no client has them."""


@dataclass(frozen=True, repr=False)
class Street(DataSpec):
    """Driving scenes with masks for segmentation, rendered from the seed.

    towns
        The number of towns; each has its own architecture, streets and trees.
    weather
        Some of sun, clouds, rain, fog, dusk, night and snow, separated by commas.
    view
        The vehicles: some of car, bus and scooter, separated by commas.
    clients
        The number of clients; each has one town, one weather and one view, divided evenly.
    examples
        Images per client, seven metres apart.
    uneven
        How unequal clients are: the standard deviation of the logarithm of their numbers of images,
        whose mean is ``examples``. 0: all are equal.
    width, height
        Size of an image in pixels.
    style
        ``"real"``, like a camera, or ``"game"``, like a game.
    traffic
        Amount of cars and people, relative to the default.
    targets
        ``"mask"``, or ``"place"``, metres east and north and a role, for retrieval. With places a
        vehicle drives its route twice: the first drive gives the database, the second, in other
        traffic, the queries. Test sets have as many database images as queries, in any weather.
    classes
        ``"street"``, or ``"camvid"``: the classes of that set, without fences and cyclists, and its
        normalization of colours, so that a model can be transferred.
    unseen_towns, unseen_weather, unseen_view
        Domains that no client has, with their own test sets.
    tests
        Images per test set; with places, queries per test set.
    seed
        Seed of everything. ``None``: the seed of the run.

    Masks have nine classes: road, pavement, building, pole, sign, green, sky, person, car; 255 is
    the vehicle's own bonnet. The test set has new routes through the same towns in the same
    weather; "unseen_towns" and so on are further test sets.

    >>> street(towns=3, weather="rain,sun", clients=12).domain(4)
    (1, 'rain', 'bus')
    """

    origin = "is drawn from the seed"

    _: KW_ONLY
    towns: int = 5
    weather: str = "sun,rain,night"
    view: str = "car,bus"
    clients: int = 50
    examples: int = 20
    uneven: float = 0.0
    width: int = 128
    height: int = 64
    style: str = "real"
    traffic: float = 1.0
    targets: str = "mask"
    classes: str = "street"
    unseen_towns: int = 1
    unseen_weather: str = "fog"
    unseen_view: str = ""
    tests: int = 96
    seed: int | None = None

    @property
    def usual_task(self) -> str:  # type: ignore[override]
        """See `DataSpec.usual_task`: retrieval if the targets are places."""
        return "segmentation()" if self.targets == "mask" else "retrieval()"

    def __post_init__(self) -> None:
        number("street", "towns", self.towns, low=1, high=1000, whole=True)
        number("street", "unseen_towns", self.unseen_towns, low=0, high=1000, whole=True)
        number("street", "clients", self.clients, low=1, whole=True)
        for name, low in (("examples", 1), ("tests", 1), ("width", 16), ("height", 8)):
            number("street", name, getattr(self, name), low=low, high=1 << 16, whole=True)
        most = self.examples * (8 if self.uneven else 1)
        numbers = self.width * self.height * max(most, self.tests)
        number("street", "width times height times examples or tests", numbers, high=MOST_WEIGHTS)
        number("street", "traffic", self.traffic, low=0, high=10)
        number("street", "uneven", self.uneven, low=0, high=3)
        choice("street", "style", self.style, FINISHES)
        choice("street", "targets", self.targets, ["mask", "place"])
        choice("street", "classes", self.classes, LISTS)
        for name, known in (("weather", WEATHERS), ("view", VIEWS)):
            seen, unseen = self.words(name), self.words(f"unseen_{name}")
            if not seen:
                raise SettingError(
                    f"street: {name} must name one of {', '.join(known)}, or several, found "
                    "nothing."
                )
            for word in (*seen, *unseen):
                choice("street", name if word in seen else f"unseen_{name}", word, known)
            twice = sorted(set(seen) & set(unseen))
            if twice:
                raise SettingError(
                    f"street: unseen_{name} must not be in {name}, found {twice[0]!r} in both."
                )
        if self.seed is not None:
            number("street", "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)

    def words(self, name: str) -> tuple[str, ...]:
        text = getattr(self, name)
        if not isinstance(text, str):
            raise SettingError(
                f"street: {name} must be words with commas between, found {text!r}. Write "
                f'{name}="a,b".'
            )
        return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))

    def domain(self, client: int) -> tuple[int, str, str]:
        """Town, weather and view of a client; all combinations come before the first repetition."""
        return _combination(
            tuple(range(self.towns)), self.words("weather"), self.words("view"), client
        )

    def examples_of(self, seed: int, client: int) -> int:
        """The number of a client's images: at least 4, at most 8 times the mean."""
        if self.uneven == 0:
            return self.examples
        z = numpy_generator(seed, "sizes", client).standard_normal()
        size = self.examples * float(np.exp(self.uneven * z - self.uneven**2 / 2))
        return int(min(max(round(size), 4), 8 * self.examples))

    def class_names(self) -> tuple[str, ...]:
        return LISTS[self.classes] if self.targets == "mask" else ()

    def open(self, seed: int) -> OnDemand:
        seed = seed if self.seed is None else self.seed
        main, *more = _tests(replace(self, seed=seed)).items()
        return OnDemand(
            self.clients,
            StreetMaker(self, seed),
            main[1],
            more=dict(more),
            domain_of=self.domain_of,
        )

    def domain_of(self, client: int) -> Domain:
        return _as_domain(*self.domain(client))

    def journey(self, seed: int, number: int, domain: tuple[int, str, str]) -> Journey:
        """A route through this world."""
        town, weather, view = domain
        return Journey(
            seed, number, town, weather, view, self.style, self.width, self.height, self.traffic
        )

    def films(
        self, seed: int, number: int, domain: tuple[int, str, str], frames: int
    ) -> list[Film]:
        """Images of a vehicle; for places the database, and queries of the same route driven
        again."""
        journey = self.journey(seed, number, domain)
        if self.targets == "mask":
            return [journey.film(frames)]
        database = journey.film(-(-frames // 2))
        again = replace(journey, number=number + REPEATED_NUMBERS).at(
            journey.way(frames // 2) + np.array(AGAIN)
        )
        return [database, again]


def _combination(
    towns: tuple[int, ...], weathers: tuple[str, ...], views: tuple[str, ...], count: int
) -> tuple[int, str, str]:
    """Combination ``count`` of all, towns changing fastest; starts again after the last."""
    turn, place = divmod(count, len(towns))
    weather = weathers[(place + turn) % len(weathers)]
    view = views[(place + turn // len(weathers)) % len(views)]
    return towns[place], weather, view


class StreetMaker:
    """Renders the images of a client, and caches some."""

    def __init__(self, spec: Street, seed: int) -> None:
        self.spec, self.seed = spec, seed
        self.cache: OrderedDict[int, Examples] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {"spec": self.spec, "seed": self.seed, "cache": OrderedDict()}

    def __call__(self, client: int) -> Examples:
        if client not in self.cache:
            spec = self.spec
            frames = spec.examples_of(self.seed, client)
            films = spec.films(self.seed, client, spec.domain(client), frames)
            roles = DRIVES if spec.targets == "place" else ()
            self.cache[client] = _examples(spec, films, roles)
            each = 4 * spec.width * spec.height * spec.examples
            while len(self.cache) > max(1, CACHE_BYTES // each):
                self.cache.popitem(last=False)
        self.cache.move_to_end(client)
        return self.cache[client]


@lru_cache(maxsize=4)
def _tests(spec: Street) -> dict[str, ClientData]:
    """The named test sets: new routes in seen domains, and unseen domains."""
    towns, weathers, views = tuple(range(spec.towns)), spec.words("weather"), spec.words("view")
    kinds: dict[str, tuple[tuple[int, ...], tuple[str, ...], tuple[str, ...]]] = {
        "seen": (towns, weathers, views)
    }
    if spec.unseen_towns:
        kinds["unseen_towns"] = (
            tuple(range(spec.towns, spec.towns + spec.unseen_towns)),
            weathers,
            views,
        )
    if spec.words("unseen_weather"):
        kinds["unseen_weather"] = towns, spec.words("unseen_weather"), views
    if spec.words("unseen_view"):
        kinds["unseen_view"] = towns, weathers, spec.words("unseen_view")
    tests = {}
    for place, (name, domains) in enumerate(kinds.items()):
        films, roles = [], []
        for count in range(-(-spec.tests // TEST_FRAMES)):
            frames = min(TEST_FRAMES, spec.tests - count * TEST_FRAMES)
            journey = spec.journey(
                _seed(spec), TEST_NUMBERS * (place + 1) + count, _combination(*domains, count)
            )
            films.append(journey.film(frames))
            roles.append(QUERY)
            if spec.targets == "place":
                other = replace(
                    journey,
                    number=journey.number + REPEATED_NUMBERS,
                    weather=weathers[count % len(weathers)],
                )
                films.append(other.at(journey.way(frames) + np.array(AGAIN)))
                roles.append(DATABASE)
        tests[name] = _test(_examples(spec, films, roles))
    return tests


def _seed(spec: Street) -> int:
    assert spec.seed is not None
    return spec.seed


def _test(examples: Examples) -> ClientData:
    return ClientData(examples, torch.arange(len(examples)))


def _examples(spec: Street, films: list[Film], roles: Sequence[int] = ()) -> Examples:
    images = torch.from_numpy(np.concatenate([film.images for film in films]))
    each = [
        _as_domain(f.journey.town, f.journey.weather, f.journey.view)
        for f in films
        for _ in f.images
    ]
    domains = Domains(FACETS, tuple(each), look=2)
    if spec.targets == "place":
        places = [
            with_role(torch.from_numpy(film.places[:, :2]), role)
            for film, role in zip(films, roles, strict=True)
        ]
        return Examples(images, torch.cat(places), 0, MEAN, STD, domains=domains)
    masks = torch.from_numpy(np.concatenate([film.masks for film in films]))
    if spec.classes == "camvid":
        return Examples(images, TO_CAMVID[masks.long()], len(CAMVID), HALF, HALF, domains=domains)
    return Examples(images, masks, len(CLASSES), MEAN, STD, domains=domains)


def _as_domain(town: int, weather: str, view: str) -> Domain:
    return f"town{town}", weather, view


street = register("data set", "street")(Street)
