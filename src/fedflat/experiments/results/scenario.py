"""What runs must share to be compared: the data set, its partition over clients, and the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedflat.data.federation import DataSpec
from fedflat.errors import FedflatError
from fedflat.registry.specs import name_of, parse

TASK = "classification()"
"""The task of runs that do not name one."""


@dataclass(frozen=True)
class Scenario:
    """The data and the task of a run, by their texts."""

    on: str = ""
    """The text of the data set and its partition; empty if they were given in Python."""
    task: str = TASK
    digest: str = ""
    """The digest of data that were given in Python."""

    @classmethod
    def of(cls, experiment: Mapping[str, Any], origin: Mapping[str, Any]) -> Scenario:
        """The scenario of a run, from its settings and the digests of its data as a run folder
        keeps them."""
        on = experiment.get("on") or ""
        return cls(on, experiment.get("task", TASK), "" if on else str(origin.get("data", "")))

    @property
    def title(self) -> str:
        """A name that no other scenario has.

        >>> Scenario("digits(lda(0))").title, Scenario(digest="12345678abc").title
        ('digits(lda(0)), classification()', 'data given in Python (12345678), classification()')
        """
        return f"{self.on or self.data_set}, {self.task}"

    @property
    def data_set(self) -> str:
        """The name of the data set.

        >>> Scenario("digits(lda(0), clients=10)").data_set, Scenario().data_set
        ('digits', 'data given in Python')
        """
        if not self.on:
            return (
                f"data given in Python ({self.digest[:8]})"
                if self.digest
                else "data given in Python"
            )
        spec = self._spec()
        return self.on if spec is None else name_of(type(spec))

    @property
    def partition(self) -> str:
        """How the data are divided among the clients, and among how many.

        >>> Scenario("digits(lda(0), clients=10)").partition, Scenario("digits()").partition
        ('lda(0), 10 clients', 'iid(), 100 clients')
        >>> Scenario("tested_on(digits(lda(0.5)), digits())").partition
        'lda(0.5), 100 clients'
        >>> Scenario("street(clients=4)").partition, Scenario().partition
        ("the data set's own, 4 clients", 'given in Python')
        """
        if not self.on:
            return "given in Python"
        spec = self._spec()
        while (inner := _within(spec)) is not None:
            spec = inner
        if spec is None:
            return "not readable without the plugin of the data set"
        clients = getattr(spec, "clients", None)
        rule = getattr(spec, "partition", None)
        parts = [
            "the data set's own" if rule is None else repr(rule),
            f"{clients} clients" if clients else "",
        ]
        return ", ".join(filter(None, parts))

    def _spec(self) -> Any:
        """The data set; None if this version cannot read its text."""
        try:
            return parse(self.on, "data set")
        except (FedflatError, AttributeError):
            return None


def _within(spec: Any) -> DataSpec | None:
    """The data that clients train on, where a data set is made of others: the first of them."""
    parts = vars(spec).values() if isinstance(spec, DataSpec) else ()
    return next((part for part in parts if isinstance(part, DataSpec)), None)
