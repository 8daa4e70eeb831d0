"""Examples whose inputs are an image and the number of its domain.

Methods that know domains (``fedcg(labels="oracle")``) get their data like this, for training and
for tests. A number stands for a value of each facet: the values of a facet are numbered in sorted
order, and the first facet counts most. So domains of binary facets are numbered by their bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from fedflat.data.derived import DelegatingExamples
from fedflat.data.domains import Domains
from fedflat.data.examples import AnyExamples, Batch, ClientData, Examples
from fedflat.data.federation import Federation, PartitionedFederation
from fedflat.errors import SettingError


@dataclass(frozen=True)
class DomainInputs(DelegatingExamples):
    """Examples with the number of their domain as a second input."""

    numbers: Tensor
    """The domain of each example, from 0."""

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        batch = self.examples.batch(index, dtype, rng)
        return replace(batch, inputs=(batch.inputs, self.numbers.index_select(0, index)))

    def raw(self, index: Tensor) -> Examples:
        raise SettingError(
            "images that have the number of their domain as a second input cannot be changed "
            "here. Leave out the piece that changes images."
        )

    def part(self, where: slice) -> DomainInputs:
        return replace(self, examples=self.examples.part(where), numbers=self.numbers[where])

    def retargeted(self, targets: Tensor) -> DomainInputs:
        return replace(self, examples=self.examples.retargeted(targets))

    def to(self, device: str) -> DomainInputs:
        return replace(self, examples=self.examples.to(device), numbers=self.numbers.to(device))

    def traces(self) -> Sequence[Any]:
        return [*self.examples.traces(), self.numbers]


def with_numbers(data: ClientData, numbers: Tensor) -> ClientData:
    """A client's data with these domains, one for each of its training examples, as inputs."""
    every = torch.zeros(len(data.examples), dtype=torch.long, device=data.index.device)
    every[data.index] = numbers.to(every.device)
    return replace(data, examples=DomainInputs(data.examples, every))


class DomainNumbers:
    """Numbers for all combinations of the facets' values that occur in some sets of examples."""

    def __init__(self, sets: Sequence[Domains]) -> None:
        facets = range(len(sets[0].facets))
        self.values = [
            sorted({domain[facet] for one in sets for domain in one.each}) for facet in facets
        ]

    def __len__(self) -> int:
        return prod(map(len, self.values))

    def of(self, domains: Domains) -> Tensor:
        known = {domain: self._number(domain) for domain in set(domains.each)}
        return torch.tensor([known[domain] for domain in domains.each], dtype=torch.long)

    def _number(self, domain: tuple[str, ...]) -> int:
        number = 0
        for value, values in zip(domain, self.values, strict=True):
            number = number * len(values) + values.index(value)
        return number


def with_known_domains(fed: Federation, count: int) -> Federation:
    """The same federation with the domain of each example as a second input.

    Raises `SettingError` if domains are not known, or if there are not ``count`` of them.
    """
    if not isinstance(fed, PartitionedFederation):
        raise SettingError(
            "known domains are needed here, and these data make their clients when asked for. Use "
            "data that are read as a whole."
        )
    found = [fed.train.domains, *(data.examples.domains for data in fed.tests.values())]
    known = [domains for domains in found if domains is not None]
    if len(known) < len(found):
        raise SettingError(
            "these data do not say of which domain their examples are. Use data with known "
            "domains, such as celeba() or transformed(...), name a column of your own table "
            "(csv(..., domain='camera')), or let images be labelled: labels='classifier'."
        )
    numbers = DomainNumbers(known)
    if len(numbers) != count:
        values = " x ".join(
            f"{facet} ({len(values)})"
            for facet, values in zip(known[0].facets, numbers.values, strict=True)
        )
        raise SettingError(
            f"the data have {len(numbers)} known domains: {values}; the method has {count}. Set "
            f"domains={len(numbers)}."
        )
    return replace(
        fed,
        train=_numbered(fed.train, numbers),
        test=_numbered_data(fed.test, numbers),
        more={name: _numbered_data(data, numbers) for name, data in fed.more.items()},
    )


def _numbered(examples: AnyExamples, numbers: DomainNumbers) -> AnyExamples:
    assert examples.domains is not None
    return DomainInputs(examples, numbers.of(examples.domains))


def _numbered_data(data: ClientData, numbers: DomainNumbers) -> ClientData:
    return replace(data, examples=_numbered(data.examples, numbers))
