"""Training on one data set and testing on another.

tested_on(street(style="game"), street())     clients of the first, test sets of the second
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedflat.data.derived_set import DerivedSet
from fedflat.data.federation import DataSpec, Federation, OnDemand, PartitionedFederation
from fedflat.errors import SettingError
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class TestedOn(DerivedSet):
    """The clients of one data set and the test sets of another, of the same classes."""

    tests: DataSpec

    def open(self, seed: int) -> Federation:
        """The federation with the other's test sets."""
        fed, other = self.on.open(seed), self.tests.open(seed)
        if (fed.classes, fed.shape[0]) != (other.classes, other.shape[0]):
            raise SettingError(
                f"tested_on: {self.on} has {fed.classes} classes and inputs of shape {fed.shape}, "
                f"{self.tests} has {other.classes} and {other.shape}. Use sets of the same "
                "classes and kind."
            )
        if not isinstance(fed, PartitionedFederation | OnDemand):
            raise SettingError(
                f"tested_on: the clients of {self.on} cannot be tested elsewhere. Use another "
                "data set."
            )
        held_out = {"held_out": None} if isinstance(fed, PartitionedFederation) else {}
        return replace(fed, test=other.test, more=other.more, **held_out)  # type: ignore[arg-type]


tested_on = register("data set", "tested_on")(TestedOn)
