"""Experiment files: the method and the options of ``fedflat run`` or ``compare`` as TOML.

A file is turned into the words of a command line, so that it means the same as the options. A key
is an option without its dashes; `method` or `methods` are the methods.

    method = "fedsam(rho=0.05)"
    on = "digits(lda(0.1), clients=50)"
    rounds = 300
"""

from __future__ import annotations

import argparse
import json
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedflat.errors import SettingError, nearest, shown
from fedflat.files import read_bytes
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import SETTINGS

SUFFIX = ".toml"
METHODS = ("method", "methods")
HEAD = """# An experiment of fedflat. Run it with: fedflat {verb} {file}
# Each key is an option of `fedflat {verb}`. Options on the command line replace those of this file.
# Lines that begin with # are not used: they show the other options and their defaults.
# Paths are relative to the folder in which the command is run.
"""


def with_file(words: Sequence[str], args: argparse.Namespace) -> Sequence[str]:
    """The words of a command line, with an experiment file replaced by what is in it."""
    found = getattr(args, "methods", None) or [getattr(args, "method", None)]
    files = [word for word in found if word is not None and word.lower().endswith(SUFFIX)]
    if not files:
        return words
    if len(found) > 1:
        raise SettingError(
            f"{files[0]}: an experiment file takes the place of all methods, found {len(found)} "
            "words. Write the methods into the file, or leave the file out."
        )
    place = words.index(files[0])
    before, after = list(words[1:place]), list(words[place + 1 :])
    return [words[0], *words_of(Path(files[0]), args.options), *before, *after]


def words_of(file: Path, options: Sequence[str]) -> list[str]:
    """The words that an experiment file stands for; ``options`` are those of the command."""
    content = _read(file)
    known = [option.removeprefix("--").replace("-", "_") for option in options]
    words: list[str] = []
    for key in METHODS:
        if key in content:
            value = content.pop(key)
            words += [
                _text(file, key, one) for one in (value if isinstance(value, list) else [value])
            ]
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in known or name in ("help", "h"):
            raise SettingError(
                f"{file}: unknown key {shown(key)}.{nearest(name, [*METHODS, *known])} "
                "`fedflat init` writes a file with all keys."
            )
        option = options[known.index(name)]
        if isinstance(value, bool):
            words += [option] * value
            continue
        for one in value if isinstance(value, list) else [value]:
            words.append(f"{option}={_text(file, key, one)}")
    return words


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bytes(file).decode())
    except OSError as error:
        raise SettingError(
            f"{file}: the experiment file cannot be read ({error.strerror or error}). `fedflat init "
            "FILE` writes one."
        ) from None
    except (ValueError, RecursionError) as error:
        raise SettingError(
            f'{file}: no TOML file ({error}). Write texts in quotes: on = "digits(lda(0))".'
        ) from None


def _text(file: Path, key: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise SettingError(
        f"{file}: {key} must be a text or a number, found {shown(value)}. Write texts in quotes."
    )


def written(file: str, methods: Sequence[str], args: argparse.Namespace) -> str:
    """An experiment file: the given methods and options, and all others as comments."""
    verb = "run" if len(methods) < 2 else "compare"
    lines = [HEAD.format(verb=verb, file=file)]
    if len(methods) < 2:
        lines.append(f"method = {_toml(methods[0])}" if methods else 'method = "fedavg"')
    else:
        lines += ["methods = [", *(f"  {_toml(method)}," for method in methods), "]"]
    for group in args.groups:
        found = [line for action in group._group_actions for line in _lines(action, args)]
        if found:
            lines += ["", f"# {group.title}", *found]
    return "\n".join(lines) + "\n"


def _lines(action: argparse.Action, args: argparse.Namespace) -> Iterator[str]:
    """The help of an option, and its value or its default."""
    name = action.option_strings[-1].removeprefix("--").replace("-", "_")
    if name in ("help", "h"):
        return
    value = getattr(args, action.dest, action.default)
    if action.nargs == 0:
        given, value = value is True or value == action.const, True
        default = "true"
    else:
        given = action.dest in args and value != action.default
        default = _default(name, action)
    help = (action.help or "").replace("%%", "%")
    yield from ("", *textwrap.wrap(help, 98, initial_indent="# ", subsequent_indent="# "))
    yield f"{name} = {_toml(value)}" if given else f"# {name} = {default}"


def _default(name: str, action: argparse.Action) -> str:
    for one in (*SETTINGS, *MACHINE):
        if one.name == name and one.about.cli_default is not None:
            return _toml(one.about.cli_default)
        if one.name == name and one.python_default is not None:
            return _toml(one.python_default)
    if isinstance(action.default, int | float) and not isinstance(action.default, bool):
        return _toml(action.default)
    return str(action.metavar)


def _toml(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
