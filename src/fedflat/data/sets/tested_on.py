"""Training on one data set and testing on another.

tested_on(street(style="game"), street())          clients of the first, tests of the second
tested_on(street(targets="place"), berlin(), add=True)       the tests of both
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedflat.data.derived import DerivedSet
from fedflat.data.federation import DataSpec, Federation, OnDemand, PartitionedFederation
from fedflat.errors import SettingError, flag
from fedflat.registry.specs import name_of, register


@dataclass(frozen=True, repr=False)
class TestedOn(DerivedSet):
    """The clients of one data set and the test sets of another, of the same classes.

    tests
        The data set whose test sets are used.
    """

    tests: DataSpec
    add: bool = False
    """True: the clients' own test sets stay, and those of the other are added under its name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        flag("tested_on", "add", self.add)

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
        if self.add:
            name = name_of(type(self.tests))
            others = {
                name if one == "test" else f"{name}_{one}": t for one, t in other.tests.items()
            }
            return replace(fed, more={**fed.more, **others})
        held_out = {"held_out": None} if isinstance(fed, PartitionedFederation) else {}
        return replace(fed, test=other.test, more=other.more, **held_out)  # type: ignore[arg-type]


tested_on = register("data set", "tested_on")(TestedOn)
