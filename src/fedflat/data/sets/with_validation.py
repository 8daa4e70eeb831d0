"""A data set with a validation set: training examples that choose, and neither train nor test.

with_validation(digits(lda(0)), 0.1)                 a tenth of each client's training examples
with_validation(digits(lda(0)), 0.1, by="clients")   all examples of a tenth of the clients
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedflat.core.seeds import numpy_generator
from fedflat.data.derived import DerivedSet
from fedflat.data.domains import Domain
from fedflat.data.examples import AnyExamples, ClientData, Examples
from fedflat.data.federation import (
    LARGEST_POPULATION,
    Federation,
    OnDemand,
    PartitionedFederation,
    concatenate,
    owners_of_tests,
)
from fedflat.data.info import VALIDATION, DataInfo
from fedflat.data.sets.other_examples import WHY
from fedflat.errors import LARGEST_SEED, SettingError, choice, number
from fedflat.registry.specs import register

EXAMPLES, CLIENTS = KINDS = ("examples", "clients")


@dataclass(frozen=True, repr=False)
class WithValidation(DerivedSet):
    """A data set whose clients set training examples aside for validation.

    The validation set is evaluated as the test sets are, under the name ``validation``. Its
    examples are not augmented.

    share
        The share that is set aside, between 0 and 1.
    by
        ``examples``: the share of each client's training examples. ``clients``: all examples of
        that share of the clients, which do not train.
    seed
        Seed of the selection. ``None``: the seed of the run.
    """

    share: float
    by: str = EXAMPLES
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("with_validation", self.share)
        choice("with_validation", "by", self.by, KINDS)
        if self.seed is not None:
            number("with_validation", "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)

    def open(self, seed: int) -> Federation:
        """The same clients with fewer training examples, or fewer clients; and a validation set."""
        fed = self.on.open(seed)
        seed = seed if self.seed is None else self.seed
        if VALIDATION in fed.tests:
            raise SettingError(
                f"{self.on} has a validation set already. Leave the validation share out."
            )
        if "gallery" in fed.tests:
            raise SettingError(
                "a validation share cannot be taken from images of places: they are retrieved from "
                "a gallery that belongs to the test set. Leave the validation share out."
            )
        if isinstance(fed, PartitionedFederation):
            labelled = not fed.train.unlabelled
        elif type(fed) is OnDemand:
            labelled = True
        else:
            raise SettingError(
                f"no validation share can be taken from the clients of {self.on}: their data are "
                "elsewhere, or changed when they are made. Leave the validation share out."
            )
        if not labelled:
            raise SettingError(f"a validation share needs labels. {WHY}")
        split = {EXAMPLES: _split_examples, CLIENTS: _split_clients}[self.by]
        fewer, validation = split(fed, self.share, seed)
        return replace(fewer, more={**fewer.more, VALIDATION: validation})  # type: ignore[no-any-return]

    def info(self) -> DataInfo:
        """That of the underlying set; the share is named with the partition."""
        inner = self.on.info()
        whose = "each client's examples" if self.by == EXAMPLES else "the clients"
        share = f"{100 * self.share:g} % of {whose} for validation"
        return replace(inner, partition=f"{inner.partition}, {share}")


def check_share(owner: str, share: object) -> None:
    """Refuse a share that leaves nothing to train on or nothing to validate on."""
    number(owner, "validation share", share, low=0, high=1, open_low=True)
    if share == 1:
        raise SettingError(f"{owner}: the validation share must be below 1, found 1.")


def counts_of(sizes: Sequence[int], share: float, seed: int) -> list[int]:
    """How many examples each client sets aside: its share rounded up or down, and one less than it
    has at most.

    Together they are ``share`` of all examples, rounded. The seed decides where it is rounded up.

    >>> sum(counts_of([14] * 100, 0.1, seed=0)), set(counts_of([14] * 100, 0.1, seed=0))
    (140, {1, 2})
    """
    found, before, total = [0] * len(sizes), 0, 0
    for client in numpy_generator(seed, VALIDATION).permutation(len(sizes)):
        total += sizes[client]
        until = int(np.floor(share * total + 0.5))
        found[client] = min(until - before, sizes[client] - 1)
        before = until
    return found


def _places(size: int, count: int, seed: int, client: int) -> tuple[Tensor, Tensor]:
    """Places of the examples that train, and of those that are set aside, each in order."""
    order = torch.from_numpy(numpy_generator(seed, VALIDATION, client).permutation(size))
    return order[count:].sort().values, order[:count].sort().values


def _split_examples(
    fed: PartitionedFederation | OnDemand, share: float, seed: int
) -> tuple[Any, ClientData]:
    if isinstance(fed, OnDemand) and fed.population > LARGEST_POPULATION:
        raise SettingError(
            f"a share of each of {fed.population} clients' examples would make all clients, and "
            f"they are made when needed. Use at most {LARGEST_POPULATION} clients, or whole clients: "
            "--validation-by clients."
        )
    sizes = fed.sizes()
    counts = counts_of(sizes, share, seed)
    if not any(counts):
        raise SettingError(
            f"validation: {share:g} of the clients' examples ({sum(sizes)} in all) is not one "
            "example. Use a larger share."
        )
    if isinstance(fed, OnDemand):
        kept = RemainingExamples(fed.make, tuple(counts), seed)
        aside = [kept.aside(client).plain() for client in range(fed.population) if counts[client]]
        left = fed.known_sizes and tuple(
            size - count for size, count in zip(sizes, counts, strict=True)
        )
        fewer = replace(fed, make=kept, known_sizes=left)
        return fewer, _all_of(concatenate(aside), fed.device)
    places = [_places(size, counts[client], seed, client) for client, size in enumerate(sizes)]
    trained = [
        part[keep.to(part.device)] for part, (keep, _) in zip(fed.parts, places, strict=True)
    ]
    chosen = [part[out.to(part.device)] for part, (_, out) in zip(fed.parts, places, strict=True)]
    return replace(fed, parts=trained), ClientData(fed.train.plain(), torch.cat(chosen))


def _split_clients(
    fed: PartitionedFederation | OnDemand, share: float, seed: int
) -> tuple[Any, ClientData]:
    population = fed.population
    count = min(max(round(share * population), 1), population - 1)
    if count < 1:
        raise SettingError(
            "validation by clients needs two clients, one of them to train, found one. Use more "
            "clients, or --validation-by examples."
        )
    if isinstance(fed, OnDemand) and count > LARGEST_POPULATION:
        raise SettingError(
            f"{count} clients would be made for validation, {LARGEST_POPULATION} at most can be. Use a "
            "smaller share."
        )
    drawn = numpy_generator(seed, VALIDATION).choice(population, count, replace=False)
    aside = sorted(drawn.tolist())
    stay = np.setdiff1d(np.arange(population), drawn)
    if isinstance(fed, OnDemand):
        examples = [fed.make(client) for client in aside]
        found = [one.raw(torch.arange(len(one))).plain() for one in examples]
        domain_of = fed.domain_of and RemainingDomains(fed.domain_of, stay)
        known = fed.known_sizes and tuple(fed.known_sizes[client] for client in stay)
        fewer = replace(
            fed,
            clients=len(stay),
            make=RemainingClients(fed.make, stay),
            domain_of=domain_of,
            known_sizes=known,
        )
        return fewer, _all_of(concatenate(found), fed.device)
    validation = ClientData(
        fed.train.plain(), torch.cat([fed.parts[client] for client in aside]).sort().values
    )
    left: dict[str, Any] = {"parts": [fed.parts[client] for client in stay]}
    if fed.held_out is not None:
        left["held_out"] = [fed.held_out[client] for client in stay]
        if owners_of_tests(fed) is not None:
            left["test"] = replace(fed.test, index=torch.cat(left["held_out"]))
    return replace(fed, **left), validation


def _all_of(examples: Examples, device: str) -> ClientData:
    data = ClientData(examples, torch.arange(len(examples)))
    return data if device == "cpu" else data.to(device)


@dataclass(frozen=True)
class RemainingExamples:
    """Makes a client's examples without those that it sets aside."""

    make: Callable[[int], AnyExamples]
    counts: tuple[int, ...]
    """How many examples each client sets aside."""
    seed: int

    def __call__(self, client: int) -> AnyExamples:
        return self._split(client, 0)

    def aside(self, client: int) -> Examples:
        return self._split(client, 1)

    def _split(self, client: int, which: int) -> Examples:
        examples = self.make(client)
        places = _places(len(examples), self.counts[client], self.seed, client)[which]
        return examples.raw(places)


@dataclass(frozen=True)
class RemainingClients:
    """Makes the clients that train, which are numbered anew."""

    make: Callable[[int], AnyExamples]
    stay: Any
    """The former numbers of the clients, in order."""

    def __call__(self, client: int) -> AnyExamples:
        return self.make(int(self.stay[client]))


@dataclass(frozen=True)
class RemainingDomains:
    """The domains of the clients that train."""

    domain_of: Callable[[int], Domain]
    stay: Any

    def __call__(self, client: int) -> Domain:
        return self.domain_of(int(self.stay[client]))


with_validation = register("data set", "with_validation")(WithValidation)
