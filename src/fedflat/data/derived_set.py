"""Data sets that are made of another one, or of two."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fedflat.data.federation import DataSpec
from fedflat.errors import SettingError
from fedflat.registry.specs import name_of


@dataclass(frozen=True, repr=False)
class DerivedSet(DataSpec):
    """Something is made of ``on``: it is for the same task, and its classes have the same names."""

    origin = "is made of another set"

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
        """That of the set it is made of."""
        return self.on.usual_task

    @property
    def usual_model(self) -> str | None:  # type: ignore[override]
        """That of the set it is made of."""
        return self.on.usual_model

    def class_names(self) -> tuple[str, ...]:
        return self.on.class_names()
