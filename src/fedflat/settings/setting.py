"""A setting of a run, said once: a dataclass field that knows its help, its range and its name in
Python and on the command line. Signatures, options, schemas of files and printed commands are made
from it. Nothing heavy is imported."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from shlex import quote
from typing import Any

from fedflat.core.schedules import scalar
from fedflat.errors import choice, flag, number

_ABOUT = "setting"
_PLAIN = ("int", "float", "Scalar", "str", "bool")
"""Kinds of settings that one word can say."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What is known of a setting besides its type and its default."""

    help: str
    option: str = ""
    """Its name in Python and on the command line, if it is not that of the field."""
    metavar: str = "N"
    says: str = ""
    """What messages call it, if not by the name of the field."""
    low: float | None = None
    high: float = float("inf")
    allowed: tuple[str, ...] = ()
    unsaid: str = ""
    """What happens if it is not said, where that depends on other things; it is then None in
    Python."""
    otherwise: str | None = None
    """What it is if it is not said, unless the method brings one."""
    typed: Any = None
    """What the command line takes if it is not typed; Python must say it."""
    text: bool = False
    """Whether Python may give a text that stands for the value; numbers that may be schedules
    always may."""
    registered: str = ""
    """The kind of registered names that say it, such as "start"; the default is then a text too, or
    None."""
    later: bool = False
    """Whether there are folders from before there was one: it then has its default, or what
    `from_json` says."""
    unit: str = ""
    either: str = ""
    """Of those with the same word here, one may be said."""


def about(help: str, **more: Any) -> dict[str, About]:
    """The metadata of a field that must be said."""
    return {_ABOUT: About(help=help, **more)}


def setting(default: Any, help: str, **more: Any) -> Any:
    """A field with a default."""
    return field(default=default, metadata=about(help, **more))


@dataclass(frozen=True)
class Setting:
    """A field of a group, as a person meets it."""

    name: str
    path: tuple[str, ...]
    """Where run.json keeps it."""
    type: str
    default: Any
    about: About

    @property
    def kind(self) -> str:
        """Its type, without None."""
        return self.type.removesuffix(" | None")

    @property
    def typeable(self) -> bool:
        """Whether one word can say it."""
        return self.about.text or bool(self.about.registered) or self.kind in _PLAIN

    @property
    def unsaid(self) -> Any:
        """Its value in Python if it is not said."""
        return None if self.about.unsaid else self.default

    @property
    def annotation(self) -> str:
        """Its type in Python, where it may be a text or left to us."""
        texts = (
            " | str" if self.about.text or self.about.registered or self.kind == "Scalar" else ""
        )
        return self.kind + texts + (" | None" if self.unsaid is None else "")

    @property
    def goes_without_saying(self) -> Any:
        """The value that a printed command leaves out: what is off, and words. Other numbers are
        always said."""
        if self.about.otherwise is not None:
            return self.about.otherwise
        return self.default if isinstance(self.default, str) or not self.default else None

    @property
    def described(self) -> str:
        """Its help, with what can be said and what happens if nothing is."""
        *most, last = self.about.allowed or ("",)
        help = f"{', '.join(most)} or {last}: {self.about.help}" if most else self.about.help
        if self.about.unsaid:
            return f"{help} (default: {self.about.unsaid})"
        default = self.default if self.about.typed is None else self.about.typed
        if default is None or default is MISSING or default is False:
            return help
        return f"{help} (default {f'{default:g}' if isinstance(default, float) else default})"

    @property
    def option(self) -> str:
        """The word on the command line."""
        return "--" + self.name.replace("_", "-")


def typed(name: str, value: Any) -> str:
    """A setting as it is typed.

    >>> typed("local_epochs", 5), typed("drop_last", True), typed("on", "digits(lda(0))")
    ('--local-epochs 5', '--drop-last', "--on 'digits(lda(0))'")
    """
    option = "--" + name.replace("_", "-")
    return option if value is True else f"{option} {quote(str(value))}"


def settings_of(group: type, *path: str) -> tuple[Setting, ...]:
    """The settings in a group, which run.json keeps under ``path``."""
    return tuple(
        Setting(said.option or one.name, (*path, one.name), str(one.type), one.default, said)
        for one in fields(group)
        if (said := one.metadata.get(_ABOUT)) is not None
    )


def check(owner: str, group: Any) -> None:
    """Refuse values out of their range; ``owner`` is named in the message."""
    for one in settings_of(type(group)):
        name, value, said = one.path[-1], getattr(group, one.path[-1]), one.about
        if value is None and one.type.endswith(" | None"):
            continue
        words = said.says or name.replace("_", " ")
        low = float("-inf") if said.low is None else said.low
        if one.kind == "int":
            number(owner, words, value, low=low, high=said.high, whole=True)
        elif one.kind == "Scalar" and said.low is not None:
            scalar(owner, words, value, low=low, high=said.high)
        elif one.kind == "bool":
            flag(owner, words, value)
        elif said.allowed and (isinstance(value, str) or not said.text):
            choice(owner, name, value, said.allowed)
