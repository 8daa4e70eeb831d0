"""Federations with modified client examples: fewer, more, or without some part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from fedflat.data.examples import AnyExamples
from fedflat.data.federation import Federation, OnDemand, PartitionedFederation
from fedflat.errors import SettingError

Change = Callable[[AnyExamples], AnyExamples]
"""Replaces examples by as many others in the same order; must be picklable."""


@dataclass(frozen=True)
class Changing:
    """Makes a client's examples, then changes them."""

    make: Callable[[int], AnyExamples]
    change: Change

    def __call__(self, client: int) -> AnyExamples:
        return self.change(self.make(client))


class Changed(OnDemand):
    """Clients that are made on demand and then changed."""

    def pooled(self) -> PartitionedFederation:
        assert isinstance(self.make, Changing)
        pooled = OnDemand(**{**_fields(self), "make": self.make.make}).pooled()
        return replace(pooled, train=self.make.change(pooled.train))


def changed(fed: Federation, change: Change, what: str) -> Federation:
    """The same federation with changed client examples and no client test sets; test sets stay."""
    if isinstance(fed, PartitionedFederation):
        return replace(fed, train=change(fed.train), held_out=None)
    if isinstance(fed, OnDemand):
        return Changed(**{**_fields(fed), "make": Changing(fed.make, change)})
    raise SettingError(
        f"{what} whose data are partitioned or made when needed, found {type(fed).__name__}."
    )


def _fields(fed: OnDemand) -> dict[str, Any]:
    return {field.name: getattr(fed, field.name) for field in fields(fed)}
