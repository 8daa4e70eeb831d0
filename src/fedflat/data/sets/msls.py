"""Mapillary Street-Level Sequences, split among clients as in FedVPR.

Warburg et al., CVPR 2020; Caldarola's doctoral thesis, section 6.3. The files are described in
`fedflat.data.places.msls_files`, the splits in `fedflat.data.places.splits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import torch

from fedflat.core.seeds import numpy_generator
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.data.files.pictures import check_max_pixels
from fedflat.data.files.sources import FolderSet
from fedflat.data.on_disk import OnDisk
from fedflat.data.places.msls_files import Cities, Validity, read_cities
from fedflat.data.places.splits import (
    Clients,
    clustering,
    draw_validation,
    picked_at_random,
    proximity,
    random_split,
    sequence_descriptors,
)
from fedflat.data.places.targets import PlaceFederation, place_images
from fedflat.errors import LARGEST_SEED, MAX_PIXELS, DataError, SettingError, choice, flag, number
from fedflat.registry.specs import register

CONTINENTS = {
    "europe": "trondheim london helsinki moscow zurich paris budapest berlin amsterdam cph",
    "americas": "boston toronto austin ottawa phoenix saopaulo sf",
    "asia_oceania": "tokyo bangkok goa amman melbourne manila",
    "africa": "nairobi",
}
"""Cities by continent. The thesis has four continents; the 20 training cities lie on six."""
CONTINENT_OF = {city: name for name, cities in CONTINENTS.items() for city in cities.split()}
VALIDATION, TEST = ("amsterdam", "manila"), ("sf", "cph")
TRAINING = tuple(city for city in CONTINENT_OF if city not in (*VALIDATION, *TEST))
FACETS = ("continent", "city")
SPLITS = ("proximity", "clustering", "random")
MOST_PIXELS = 20_000


@dataclass(frozen=True, repr=False)
class Msls(FolderSet):
    """Street-level images of cities with positions and roles (Warburg et al., CVPR 2020).

    split
        ``"proximity"``: clients of neighbouring sequences; ``"clustering"``: of similar sequences;
        ``"random"``: every client has all cities. A client has at least two query and two database
        sequences.
    radius
        Metres around a picked image, for proximity. Clustering makes as many clusters per city.
    clients
        Number of clients of the random split.
    rule
        A sequence is within the radius if ``"any"`` of its images is, or its ``"first"``.
    valid
        ``"sequences"``, or ``"images"``: two query images suffice instead of two query sequences.
    validation_clients
        Clients set aside after the split, as test set "validation_clients". In the random split
        they also train.
    by_city
        Also test each test city with a database of its own.
    cities, validation_cities, test_cities
        Names of cities, separated by commas.
    continents
        Further continents, or others, as ``"city=continent"`` separated by commas, for H-FL.
    network, weights
        The network whose descriptors are clustered, and a file with its weights: safetensors, or
        a state dict saved by torch. Descriptors are kept in the cache folder.
    size
        Height and width to which all images are resized; their ratio is not kept.
    seed
        Seed of the split. ``None``: the seed of the run.
    max_pixels
        Images with more pixels are refused before decoding.
    """

    folders = ("msls", "MSLS", "mapillary-sls")
    needed = ("train_val",)
    by_hand = (
        "Ask for Mapillary Street-Level Sequences at https://www.mapillary.com/dataset/places and "
        "unpack it into a folder msls."
    )
    usual_task = "retrieval()"
    usual_model = "resnet18_gem()"

    split: str = "proximity"
    _: KW_ONLY
    radius: float = 2000.0
    clients: int = 700
    rule: str = "any"
    valid: str = "sequences"
    validation_clients: int = 12
    by_city: bool = False
    cities: str = ",".join(TRAINING)
    validation_cities: str = ",".join(VALIDATION)
    test_cities: str = ",".join(TEST)
    continents: str = ""
    network: str = "resnet18_gem()"
    weights: str = ""
    size: tuple[int, int] = (480, 640)
    seed: int | None = None
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        choice("msls", "split", self.split, list(SPLITS))
        choice("msls", "rule", self.rule, ["any", "first"])
        choice("msls", "valid", self.valid, ["sequences", "images"])
        number("msls", "radius", self.radius, low=0, open_low=True)
        number("msls", "clients", self.clients, low=1, whole=True)
        number("msls", "validation_clients", self.validation_clients, low=0, whole=True)
        flag("msls", "by_city", self.by_city)
        check_size("msls", self.size)
        object.__setattr__(self, "size", tuple(self.size))
        check_max_pixels("msls", self.max_pixels)
        if self.seed is not None:
            number("msls", "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)
        for name in ("cities", "test_cities"):
            if not self.words(name):
                raise SettingError(f"msls: {name} must name a city, or several with commas.")
        self.continent_of()

    def words(self, name: str) -> tuple[str, ...]:
        text = getattr(self, name)
        if not isinstance(text, str):
            raise SettingError(f"msls: {name} must be words with commas between, found {text!r}.")
        return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))

    def continent_of(self) -> dict[str, str]:
        given = [word.partition("=") for word in self.words("continents")]
        for city, sign, continent in given:
            if not (city and sign and continent):
                raise SettingError(
                    "msls: continents must be written as 'lima=americas,oslo=europe', found "
                    f"{self.continents!r}."
                )
        return CONTINENT_OF | {city.strip(): name.strip() for city, _, name in given}

    def open(self, seed: int) -> Federation:
        seed = seed if self.seed is None else self.seed
        train, test = self._read("cities"), self._read("test_cities")
        clients = self._split(train, seed)
        rng = numpy_generator(seed, "validation")
        kept, aside = draw_validation(clients, self.validation_clients, rng)
        kept = list(range(len(clients))) if self.split == "random" else kept
        images = self._images(train)
        more = self._tests(test, [_images_of(train, clients[i]) for i in aside], images)
        counted = [] if self.split == "random" else aside
        return PlaceFederation(
            images,
            _all(self._images(test)),
            [torch.tensor(_images_of(train, clients[i])) for i in kept],
            more=more,
            sequences=[len(clients[i]) for i in kept],
            set_aside=[(len(clients[i]), len(_images_of(train, clients[i]))) for i in counted],
            left_out=_left_out(train, clients),
        )

    def _read(self, which: str) -> Cities:
        folder, cities = self.folder() / "train_val", self.words(which)
        missing = [city for city in cities if not (folder / city).is_dir()]
        if missing:
            raise DataError(
                f"msls: {folder} has no folder for {', '.join(missing)}. Unpack these cities, or "
                f"name those that are there: {which}='...'."
            )
        return read_cities(folder, cities, self.continent_of())

    def _images(self, cities: Cities) -> OnDisk:
        return place_images(cities.images, FACETS, self.size, self.max_pixels)

    def _split(self, train: Cities, seed: int) -> Clients:
        rng, valid = numpy_generator(seed, "partition"), Validity(self.valid == "images")
        sequences = train.sequences
        if self.split == "random":
            return random_split(sequences, self.clients, rng)
        pick = picked_at_random(sequences, rng)
        near = proximity(sequences, self.radius, pick, rule=self.rule, valid=valid)
        if not near:
            raise DataError(
                f"msls: no client has two query and two database sequences within {self.radius:g} "
                "metres. Use a larger radius or more cities."
            )
        if self.split == "proximity":
            return near
        images = self._images(train)
        descriptors = sequence_descriptors(images, sequences, self.network, self.weights, seed)
        return clustering(sequences, descriptors, near, seed, valid=valid)

    def _tests(
        self, test: Cities, aside: Sequence[Sequence[int]], images: OnDisk
    ) -> dict[str, ClientData]:
        more = {}
        if self.words("validation_cities"):
            more["validation"] = _all(self._images(self._read("validation_cities")))
        if aside:
            index = torch.tensor(sorted({i for part in aside for i in part}))
            more["validation_clients"] = ClientData(images, index)
        if self.by_city:
            found = self._images(test)
            for city in self.words("test_cities"):
                chosen = [i for i, image in enumerate(test.images) if image.domain[1] == city]
                more[city] = ClientData(found, torch.tensor(chosen, dtype=torch.long))
        return more


def check_size(owner: str, size: object) -> None:
    """Refuse anything but a height and a width."""
    if not isinstance(size, list | tuple) or len(size) != 2:
        raise SettingError(
            f"{owner}: size must be a height and a width, [480, 640], found {size!r}."
        )
    for side in size:
        number(owner, "every side of size", side, low=1, high=MOST_PIXELS, whole=True)


def _left_out(cities: Cities, clients: Clients) -> str:
    """How many panoramas and sequences of the training cities no client has."""
    used = len({i for client in clients for i in client})
    every = len(cities.sequences)
    return f"left out: {cities.panoramas} panoramas, {every - used} of {every} sequences"


def _images_of(cities: Cities, client: Sequence[int]) -> list[int]:
    return [image for i in client for image in cities.sequences[i].images]


def _all(images: OnDisk) -> ClientData:
    return ClientData(images, torch.arange(len(images)))


msls = register("data set", "msls")(Msls)
