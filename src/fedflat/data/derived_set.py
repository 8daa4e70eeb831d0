"""Data sets that are derived from one or two others."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fedflat.data.federation import DataSpec
from fedflat.errors import SettingError
from fedflat.registry.specs import name_of


@dataclass(frozen=True, repr=False)
class DerivedSet(DataSpec):
    """A set derived from ``on``, with the same task and class names."""

    origin = "is derived from another set"

    on: DataSpec

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.type == "DataSpec" and not isinstance(value, DataSpec):
                owner = name_of(type(self))
                raise SettingError(
                    f"{owner}: {each.name} must be a data set, such as digits(), found {value!r}."
                )

    @property
    def usual_task(self) -> str:  # type: ignore[override]
        """The task of the underlying set."""
        return self.on.usual_task

    @property
    def usual_model(self) -> str | None:  # type: ignore[override]
        """The model of the underlying set."""
        return self.on.usual_model

    def class_names(self) -> tuple[str, ...]:
        return self.on.class_names()
