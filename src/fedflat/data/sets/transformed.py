"""Images in known domains, made by transformations.

    transformed(fashion_mnist(clients=100), rotation=4)       four domains: 0, 90, 180, 270 degrees
    transformed(fashion_mnist(clients=100), rotation=2, ink=2)     four domains of two facets
    transformed(digits(clients=20), ink=2, by="image")        every client holds both domains

Methods that look for domains can be scored by them, and ``fedcg(labels="oracle")`` is given them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from itertools import product
from math import prod

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from fedflat.core.seeds import numpy_generator
from fedflat.data.derived import DerivedSet
from fedflat.data.domains import Domains
from fedflat.data.examples import AnyExamples, ClientData, Examples
from fedflat.data.federation import PartitionedFederation
from fedflat.data.partitions.partition import Index
from fedflat.errors import SettingError, choice, number
from fedflat.registry.specs import register

COLOURS = {
    "white": (1.0, 1.0, 1.0),
    "red": (1.0, 0.35, 0.35),
    "green": (0.35, 1.0, 0.35),
    "blue": (0.35, 0.35, 1.0),
    "yellow": (1.0, 1.0, 0.35),
    "magenta": (1.0, 0.35, 1.0),
    "cyan": (0.35, 1.0, 1.0),
    "grey": (0.6, 0.6, 0.6),
}
INKS = ((1.0, 0.0), (0.0, 1.0), (1.0, 0.5), (0.25, 0.75))
"""Brightness of what was 255 (ink) and of what was 0 (paper), for each domain."""


def rotated(images: Tensor, domain: int, domains: int) -> Tensor:
    """Images turned by a multiple of 90 degrees; of two domains, by 0 or 180."""
    return images.rot90(domain * (4 // domains if domains in (1, 2, 4) else 1), (2, 3))


def coloured(images: Tensor, domain: int, domains: int) -> Tensor:
    """Images of three channels, darkened in some of them; grey images get three."""
    colour = torch.tensor(list(COLOURS.values())[domain]).view(1, 3, 1, 1)
    return images.expand(-1, 3, -1, -1) * colour


def blurred(images: Tensor, domain: int, domains: int) -> Tensor:
    """Images blurred by a Gaussian whose standard deviation is the domain's number, in pixels."""
    if domain == 0:
        return images
    places = torch.arange(-3 * domain, 3 * domain + 1, dtype=images.dtype)
    kernel = torch.exp(-(places**2) / (2 * domain**2))
    kernel = kernel / kernel.sum()
    flat = images.reshape(-1, 1, *images.shape[2:])
    border = (3 * domain,) * 4
    flat = conv2d(pad(flat, border, mode="replicate"), kernel.view(1, 1, 1, -1))
    return conv2d(flat, kernel.view(1, 1, -1, 1)).reshape(images.shape)


def inked(images: Tensor, domain: int, domains: int) -> Tensor:
    """Images with another brightness of ink and paper; the second domain is the negative."""
    ink, paper = INKS[domain]
    return paper * 255 + (ink - paper) * images


@dataclass(frozen=True)
class Transformation:
    """A way to change images, and how many domains it can make."""

    change: Callable[[Tensor, int, int], Tensor]
    """Maps images (0 to 255, as floats), the domain and the number of domains to images."""
    values: tuple[str, ...]
    """Names of the domains."""


KINDS: Mapping[str, Transformation] = {
    "rotation": Transformation(rotated, ("000", "090", "180", "270")),
    "colour": Transformation(coloured, tuple(COLOURS)),
    "blur": Transformation(blurred, ("0", "1", "2", "3")),
    "ink": Transformation(inked, ("0", "1", "2", "3")),
}


@dataclass(frozen=True, repr=False)
class Transformed(DerivedSet):
    """A data set of images in domains that are made by transformations.

    rotation
        Number of rotations, up to 4: by multiples of 90 degrees; 2 are 0 and 180.
    colour
        Number of colours, up to 8. Grey images become RGB.
    blur
        Number of strengths, up to 4: standard deviations of 0 to 3 pixels.
    ink
        Number of pairs of ink and paper, up to 4; the second one is the negative.
    by
        "client": all images of a client are of one domain; "image": domains are drawn per image.

    There is a domain for each combination. Clients get them in turn, in random order. Test images
    of no client are of random domains.
    """

    _: KW_ONLY
    rotation: int = 1
    colour: int = 1
    blur: int = 1
    ink: int = 1
    by: str = "client"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, kind in KINDS.items():
            count = getattr(self, name)
            number("transformed", name, count, low=1, high=len(kind.values), whole=True)
        choice("transformed", "by", self.by, ["client", "image"])
        if self.count == 1:
            raise SettingError(
                "transformed: there is one domain only, in which nothing is changed. Ask for more, "
                "such as rotation=4."
            )

    @property
    def count(self) -> int:
        return prod(getattr(self, name) for name in KINDS)

    def open(self, seed: int) -> PartitionedFederation:
        fed = self.on.open(seed)
        if not isinstance(fed, PartitionedFederation):
            raise SettingError(
                f"transformed: the clients of {self.on} are made when asked for. Use images that "
                "are read as a whole."
            )
        own, drawn = (numpy_generator(seed, f"transformed/{who}") for who in ("clients", "test"))
        numbers = drawn.integers(self.count, size=len(fed.train))
        if self.by == "client":
            for client, turn in enumerate(own.permutation(fed.population)):
                numbers[fed.parts[client].numpy()] = turn % self.count
                if fed.held_out is not None:
                    numbers[fed.held_out[client].numpy()] = turn % self.count
        train = self._changed(fed.train, numbers)
        return replace(
            fed,
            train=train,
            test=self._test(fed.test, fed.train, train, drawn),
            more={
                name: self._test(data, fed.train, train, drawn) for name, data in fed.more.items()
            },
        )

    def _test(
        self, data: ClientData, before: AnyExamples, train: Examples, rng: np.random.Generator
    ) -> ClientData:
        if _same(data.examples, before):
            return replace(data, examples=train.plain())  # what clients hold out
        numbers = rng.integers(self.count, size=len(data.examples))
        return replace(data, examples=self._changed(data.examples, numbers))

    def _changed(self, examples: AnyExamples, numbers: Index) -> Examples:
        images = examples.inputs if isinstance(examples, Examples) else None
        if not isinstance(examples, Examples) or not isinstance(images, Tensor):
            raise SettingError(
                f"transformed: {self.on} is not held in memory as images. Use a set that is, such "
                "as fashion_mnist()."
            )
        if images.dim() != 4 or images.shape[1] not in (1, 3):
            raise SettingError(
                "transformed: images must be grey or RGB, found inputs of shape "
                f"{tuple(images.shape[1:])}."
            )
        if self.rotation > 2 and images.shape[2] != images.shape[3]:
            raise SettingError(
                "transformed: only square images can be turned by 90 degrees, found "
                f"{tuple(images.shape[2:])}. Use rotation=2."
            )
        scale = 1.0 if images.dtype == torch.uint8 else 255.0
        channels = 3 if self.colour > 1 else images.shape[1]
        found = torch.empty(len(images), channels, *images.shape[2:], dtype=images.dtype)
        for place, domain in enumerate(self._each_domain()):
            mine = torch.from_numpy(np.flatnonzero(numbers == place))
            part = images[mine].float() * scale
            for name, value in domain.items():
                part = KINDS[name].change(part, value, getattr(self, name))
            part = part.clamp(0, 255)
            found[mine] = part.round().to(found.dtype) if scale == 1 else (part / 255).to(found)
        return replace(examples, inputs=found, domains=self._domains(numbers))

    def _each_domain(self) -> list[dict[str, int]]:
        facets = [name for name in KINDS if getattr(self, name) > 1]
        counts = [range(getattr(self, name)) for name in facets]
        return [dict(zip(facets, values, strict=True)) for values in product(*counts)]

    def _domains(self, numbers: Index) -> Domains:
        named = [
            tuple(f"{name}={self._value(name, value)}" for name, value in domain.items())
            for domain in self._each_domain()
        ]
        facets = tuple(self._each_domain()[0])
        return Domains(facets, tuple(named[number] for number in numbers))

    def _value(self, name: str, value: int) -> str:
        if name == "rotation" and self.rotation == 2:
            value *= 2
        return KINDS[name].values[value]


def _same(one: AnyExamples, other: AnyExamples) -> bool:
    return isinstance(one, Examples) and isinstance(other, Examples) and one.inputs is other.inputs


transformed = register("data set", "transformed")(Transformed)
