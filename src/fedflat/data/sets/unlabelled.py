"""Another data set without its clients' labels.

    unlabelled(street())     the clients have pictures and no masks; test sets keep theirs
"""

from __future__ import annotations

from dataclasses import dataclass

from fedflat.data.federation import DataSpec, Federation
from fedflat.data.unlabelled import without_labels
from fedflat.errors import SettingError
from fedflat.language.spelling import register


@dataclass(frozen=True, repr=False)
class WithoutLabels(DataSpec):
    """A data set whose clients hold no labels; only its test sets have them."""

    stored = False
    origin = "is a change of another set"

    on: DataSpec

    def __post_init__(self) -> None:
        if not isinstance(self.on, DataSpec):
            raise SettingError(f"unlabelled: labels are taken from a data set, found {self.on!r}.")

    @property
    def usual_task(self) -> str:  # type: ignore[override]
        """That of the set."""
        return self.on.usual_task

    def class_names(self) -> tuple[str, ...]:
        """See `DataSpec.class_names`."""
        return self.on.class_names()

    def open(self, seed: int) -> Federation:
        """The federation without its clients' labels."""
        return without_labels(self.on.open(seed))


unlabelled = register("data set", "unlabelled")(WithoutLabels)
