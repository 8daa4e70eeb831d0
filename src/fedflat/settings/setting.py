"""A setting of a run, declared once: a dataclass field with its help, its range and its name in
Python and on the command line. Signatures, options, file schemas and printed commands are made from
it. Nothing heavy is imported."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from shlex import quote
from typing import Any

from fedflat.core.schedules import scalar
from fedflat.errors import choice, flag, number

DATA, LOCAL, SERVER, EVALUATION, SIMULATION, EXECUTION, RECORDING = PURPOSES = (
    "data and model",
    "local training",
    "server and topology",
    "evaluation",
    "simulation",
    "execution",
    "recording",
)
"""The groups of options in the help of the command line, in this order."""
_ABOUT = "setting"
_PLAIN = ("int", "float", "Scalar", "str", "bool")
"""Types of settings that can be given in one word."""


@dataclass(frozen=True, kw_only=True)
class About:
    """The properties of a setting besides its type and its default."""

    help: str
    purpose: str = ""
    """The group of options that it belongs to, one of `PURPOSES`."""
    option: str = ""
    """Its name in Python and on the command line, if it differs from the field's."""
    metavar: str = "N"
    label: str = ""
    """Its name in error messages, if it differs from the field's."""
    low: float | None = None
    open_low: bool = False
    """True if the value must be above ``low``."""
    high: float = float("inf")
    allowed: tuple[str, ...] = ()
    default_text: str = ""
    """What happens by default, where that depends on other settings; the default in Python is then
    None."""
    otherwise: str | None = None
    """Its default, unless the method has one."""
    cli_default: Any = None
    """Its default on the command line; in Python it is required."""
    text: bool = False
    """Whether Python accepts a text for the value; numbers that can be schedules always do."""
    registered: str = ""
    """The kind of registered names that it is written with, such as "initializer"; its default is a
    text or None."""
    absent_in_old_runs: bool = False
    """True if there are run folders from before this setting. Their value is its default, or the
    one in `from_texts`."""
    amount: bool = False
    """True if it sets how much a client trains. `LocalTraining.optimizer_only` resets it."""
    unit: str = ""
    either: str = ""
    """Of the settings with the same word here, at most one may be given."""


def about(help: str, **more: Any) -> dict[str, About]:
    """The metadata of a required field."""
    return {_ABOUT: About(help=help, **more)}


def setting(default: object, help: str, **more: Any) -> Any:
    """A field with a default."""
    return field(default=default, metadata=about(help, **more))


@dataclass(frozen=True)
class Setting:
    """A field of a group of settings."""

    name: str
    path: tuple[str, ...]
    """Its keys in run.json."""
    type: str
    default: Any
    about: About

    @property
    def kind(self) -> str:
        """The type without None."""
        return self.type.removesuffix(" | None")

    @property
    def typeable(self) -> bool:
        """Whether it can be given in one word."""
        return self.about.text or bool(self.about.registered) or self.kind in _PLAIN

    @property
    def python_default(self) -> Any:
        return None if self.about.default_text else self.default

    @property
    def annotation(self) -> str:
        """The type in Python, including texts and None where they are accepted."""
        texts = (
            " | str" if self.about.text or self.about.registered or self.kind == "Scalar" else ""
        )
        return self.kind + texts + (" | None" if self.python_default is None else "")

    @property
    def omitted_value(self) -> Any:
        """The value that a printed command leaves out: a default that is a word, zero or off."""
        if self.about.otherwise is not None:
            return self.about.otherwise
        return self.default if isinstance(self.default, str) or not self.default else None

    @property
    def described(self) -> str:
        """The help, with the allowed values and the default."""
        *most, last = self.about.allowed or ("",)
        help = self.about.help
        if most and not all(f"`{word}`" in help for word in self.about.allowed):
            help = f"{', '.join(most)} or {last}: {help}"
        if self.about.default_text:
            return f"{help} (default: {self.about.default_text})"
        default = self.default if self.about.cli_default is None else self.about.cli_default
        if default is None or default is MISSING or default is False:
            return help
        return f"{help} (default {f'{default:g}' if isinstance(default, float) else default})"

    @property
    def option(self) -> str:
        """The option on the command line."""
        return "--" + self.name.replace("_", "-")


def as_option(name: str, value: object) -> str:
    """A setting as an option and its value.

    >>> as_option("local_epochs", 5), as_option("drop_last", True)
    ('--local-epochs 5', '--drop-last')
    >>> as_option("on", "digits(lda(0))")
    "--on 'digits(lda(0))'"
    """
    option = "--" + name.replace("_", "-")
    return option if value is True else f"{option} {quote(str(value))}"


def settings_of(group: type, *path: str) -> tuple[Setting, ...]:
    """The settings in a group, which are under ``path`` in run.json."""
    return tuple(
        Setting(about.option or one.name, (*path, one.name), str(one.type), one.default, about)
        for one in fields(group)
        if (about := one.metadata.get(_ABOUT)) is not None
    )


def check(owner: str, group: object) -> None:
    """Refuse values outside their range; ``owner`` is the first word of the message."""
    for one in settings_of(type(group)):
        name, value, about = one.path[-1], getattr(group, one.path[-1]), one.about
        if value is None and one.type.endswith(" | None"):
            continue
        words = about.label or name.replace("_", " ")
        low = float("-inf") if about.low is None else about.low
        limits: dict[str, Any] = {"low": low, "open_low": about.open_low, "high": about.high}
        if one.kind in ("int", "float"):
            number(owner, words, value, **limits, whole=one.kind == "int")
        elif one.kind == "Scalar":
            scalar(owner, words, value, **limits)
        elif one.kind == "bool":
            flag(owner, words, value)
        elif about.allowed and (isinstance(value, str) or not about.text):
            choice(owner, name, value, about.allowed)
