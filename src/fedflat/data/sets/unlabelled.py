"""Another data set without its clients' labels.

unlabelled(street())     the clients have images and no masks; test sets keep theirs
"""

from __future__ import annotations

from dataclasses import dataclass

from fedflat.data.derived import DerivedSet
from fedflat.data.federation import Federation
from fedflat.data.unlabelled import without_labels
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class WithoutLabels(DerivedSet):
    """A data set whose clients hold no labels; only its test sets have them."""

    def open(self, seed: int) -> Federation:
        """The federation without its clients' labels."""
        return without_labels(self.on.open(seed))


unlabelled = register("data set", "unlabelled")(WithoutLabels)
