"""What reports say about a method. A run folder records it, so that they need not import
methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fedflat.errors import FedflatError
from fedflat.registry.specs import parse


@dataclass(frozen=True)
class MethodInfo:
    """The pieces of a method, and the settings of a run that it decides."""

    stack: str = ""
    """The pieces in the order in which they act; empty if this version cannot read the method."""
    settings: Mapping[str, int | str] = field(default_factory=dict)
    """The settings by name, as run.json has them."""

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> MethodInfo:
        return cls(saved["stack"], saved["settings"])

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def method_info(text: str) -> MethodInfo:
    """The method that a text names; without content if this version cannot read the text.

    >>> method_info("fedseq(4)").settings
    {'topology': "chains(groups=4, draw='share')"}
    """
    try:
        info: MethodInfo = parse(text, "method").info()
    except (FedflatError, AttributeError):
        return MethodInfo()
    return info
