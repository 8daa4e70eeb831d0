"""What reports say about a data set. A run folder records it, so that they need not import data
sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedflat.errors import FedflatError
from fedflat.registry.specs import parse

NAMED = 1_000
"""Most clients whose names a run folder records."""
VALIDATION = "validation"
"""The name of the validation set among the test sets of a federation."""


@dataclass(frozen=True)
class DataInfo:
    """A data set and its partition in words."""

    name: str
    """The registered name."""
    partition: str
    """The partition and the number of clients, such as ``lda(0.5), 100 clients``."""
    usual_task: str
    """The default task."""
    class_names: tuple[str, ...] | None = None
    """The names of the classes in order; None if they were not looked up."""
    notes: tuple[str, ...] = ()
    """Sentences to print beside results, see `Partition.note`."""
    client_names: tuple[str, ...] = ()
    """The names of the clients in order; empty if they have only numbers."""
    column_names: tuple[str, ...] = ()
    """The names of the input columns of a table; empty if inputs are no columns."""

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> DataInfo:
        names = saved["class_names"]
        return cls(
            saved["name"],
            saved["partition"],
            saved["usual_task"],
            None if names is None else tuple(names),
            tuple(saved["notes"]),
            tuple(saved.get("client_names", ())),
            tuple(saved.get("column_names", ())),
        )

    def as_json(self) -> dict[str, Any]:
        names = None if self.class_names is None else list(self.class_names)
        saved = {**asdict(self), "class_names": names, "notes": list(self.notes)}
        for name in ("client_names", "column_names"):
            found = list(saved.pop(name))
            saved |= {name: found} if found else {}
        return saved


def data_info(on: str) -> DataInfo | None:
    """The data set that a text names; None if this version cannot read the text.

    >>> info = data_info("digits(lda(0), clients=10)")
    >>> info.name, info.partition, info.usual_task
    ('digits', 'lda(0), 10 clients', 'classification()')
    """
    try:
        info: DataInfo = parse(on, "data set").info()
    except (FedflatError, AttributeError):
        return None
    return info


def class_names(on: str) -> tuple[str, ...]:
    """The class names of the data set that a text names; empty if they are not known."""
    try:
        names: tuple[str, ...] = parse(on, "data set").class_names()
    except FedflatError:
        return ()
    return names
