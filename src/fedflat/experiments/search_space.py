"""Settings with several values: which runs a comparison or a sweep consists of.

A family is one method text, such as ``fedsam(rho={0.01, 0.1})``, with all settings. Its axes are
the choices in the text and the settings that were given as a list. A configuration has one value of
each axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedflat.composition.method import Method
from fedflat.core.seeds import numpy_generator
from fedflat.errors import SettingError, shown
from fedflat.registry.choices import Choice, Range, Template, read_template
from fedflat.settings.groups import SETTINGS

LISTS = ("cohorts", "orders")
"""Settings whose one value is a list."""
_KINDS = {one.name: one.kind for one in SETTINGS}


@dataclass(frozen=True)
class Axis:
    """A setting with several values, or with a range of values."""

    name: str
    values: tuple[Any, ...] | Range


@dataclass(frozen=True)
class Configuration:
    """One value of each axis, and what they make: the arguments of `experiment`."""

    values: Mapping[str, Any]
    method: Method | str
    settings: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Its values as a text, such as ``rho=0.1, lr=0.01``."""
        return ", ".join(f"{name}={value}" for name, value in self.values.items()) or "as given"


@dataclass(frozen=True)
class Family:
    """A method with its axes."""

    method: Template | Method
    axes: tuple[Axis, ...]
    settings: Mapping[str, Any]
    """Settings of all its runs. Those with choices in their text are templates, those with a list
    are absent."""

    @property
    def name(self) -> str:
        """The text of the method, with its choices."""
        return str(self.method) if isinstance(self.method, Template) else repr(self.method)

    @property
    def size(self) -> int:
        """The number of its configurations; an error if an axis is a range."""
        return len(list(itertools.product(*self._listed())))

    @property
    def listed(self) -> bool:
        """Whether no axis is a range."""
        return not any(isinstance(axis.values, Range) for axis in self.axes)

    def at(self, values: Mapping[str, Any]) -> Configuration:
        """The configuration with these values."""
        settings = dict(self.settings)
        for name, value in self.settings.items():
            if isinstance(value, Template):
                settings[name] = _read(name, value.filled(_texts(values)))
        for name in values:
            if name in _KINDS and not _in_template(name, self.settings):
                settings[name] = values[name]
        method = self.method
        if isinstance(method, Template):
            return Configuration(dict(values), method.filled(_texts(values)), settings)
        return Configuration(dict(values), method, settings)

    def grid(self) -> list[Configuration]:
        names = [axis.name for axis in self.axes]
        every = itertools.product(*self._listed())
        return [self.at(dict(zip(names, values, strict=True))) for values in every]

    def sample(self, count: int, seed: int) -> list[Configuration]:
        """Random configurations, all different; fewer than ``count`` if there are not so many."""
        if self.listed and self.size <= count:
            return self.grid()
        found: dict[str, Configuration] = {}
        for place in range(100 * count):
            rng = numpy_generator(seed, "sweep", place)
            values = {axis.name: _drawn(axis, float(rng.random())) for axis in self.axes}
            one = self.at(values)
            found.setdefault(one.label, one)
            if len(found) == count:
                break
        return list(found.values())

    def _listed(self) -> list[tuple[Any, ...]]:
        found = []
        for axis in self.axes:
            if isinstance(axis.values, Range):
                raise SettingError(
                    f"sweep: {axis.name} has the range {axis.values}, and a grid needs values. "
                    "List values, or draw from the range: --search random or --search optuna."
                )
            found.append(axis.values)
        return found


def families(
    methods: Sequence[Method | str], settings: Mapping[str, Any], who: str = "compare"
) -> list[Family]:
    """A family for each method, with the choices in its text and those of the settings."""
    axes, fixed = list[Axis](), dict[str, Any]()
    for name, value in settings.items():
        template = _template(name, value)
        if template is not None:
            axes += map(_axis, template.choices)
            fixed[name] = template
        elif isinstance(value, list | tuple) and name in _KINDS and name not in LISTS:
            if not value or len({repr(one) for one in value}) < len(value):
                raise SettingError(
                    f"{who}: {name} must be a value, or a list of different values, found "
                    f"{shown(value)}."
                )
            axes.append(Axis(name, tuple(value)))
        else:
            fixed[name] = value
    taken = [axis.name for axis in axes]
    if len(set(taken)) < len(taken):
        raise SettingError(f"{who}: two settings have a choice of the same name: {taken}.")
    found = []
    for method in methods:
        if isinstance(method, str):
            template = read_template(method, "method", taken)
            own = [*map(_axis, template.choices), *axes]
            found.append(Family(template, tuple(own), fixed))
        else:
            found.append(Family(method, tuple(axes), fixed))
    return found


def _template(name: str, value: object) -> Template | None:
    if name not in _KINDS or not isinstance(value, str) or "{" not in value:
        return None
    template = read_template(value, name)
    return template if template.choices else None


def _axis(choice: Choice) -> Axis:
    return Axis(choice.name, choice.values)


def _in_template(name: str, settings: Mapping[str, Any]) -> bool:
    """Whether a value is part of the text of the setting of its name."""
    return isinstance(settings.get(name), Template)


def _drawn(axis: Axis, share: float) -> Any:
    if isinstance(axis.values, Range):
        return axis.values.at(share)
    return axis.values[min(int(share * len(axis.values)), len(axis.values) - 1)]


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _read(name: str, text: str) -> Any:
    """The value of a setting that was written as text; texts of other kinds are read later."""
    if _KINDS[name] in ("int", "float", "Scalar"):
        try:
            number = float(text)
        except ValueError:
            return text
        return int(number) if _KINDS[name] == "int" and number.is_integer() else number
    return text
