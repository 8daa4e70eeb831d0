"""Shell scripts that complete commands, options and names, made from the parser."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from fedflat.papers.presets import every
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import SETTINGS

KIND_OF_OPTION = {
    "--on": "datasets",
    "--server-data": "datasets",
    "--model": "models",
    "--preset": "presets",
    "--record": "metrics",
    "--logger": "loggers",
    "--executor": "executors",
    "--topology": "topologies",
    "--init": "initializers",
    "--task": "tasks",
    "--clock": "clocks",
    "--attack": "attacks",
    "--analyses": "analyses",
}
KIND_OF_ARGUMENT = {
    "run": "methods",
    "compare": "methods",
    "init": "methods",
    "data get": "datasets",
    "data show": "datasets",
}
"""The kinds of names that options and arguments take."""


@dataclass
class Completed:
    """The words that can follow a command."""

    path: str
    help: str
    words: list[str] = field(default_factory=list)
    """Its jobs, or the names that it takes."""
    options: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    """The help and the possible values of each option."""
    flags: set[str] = field(default_factory=set)
    """The options without a value."""


def commands(parser: argparse.ArgumentParser) -> list[Completed]:
    return list(_below(parser, "", ""))[1:]


def _below(parser: argparse.ArgumentParser, path: str, help: str) -> Iterator[Completed]:
    here = Completed(path, help)
    yield here
    if path in KIND_OF_ARGUMENT:
        here.words = names(KIND_OF_ARGUMENT[path])
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {one.dest: one.help or "" for one in action._choices_actions}
            here.words = list(helps)
            for name, inner in action.choices.items():
                if name in helps:
                    yield from _below(inner, f"{path} {name}".strip(), helps[name])
            continue
        if not action.option_strings:
            here.words = here.words or [str(word) for word in action.choices or ()]
            continue
        option = action.option_strings[-1]
        text = re.sub(r"\s+", " ", (action.help or "").replace("%%", "%"))
        here.options[option] = (text, _values(option, action))
        if action.nargs == 0:
            here.flags.add(option)


def _values(option: str, action: argparse.Action) -> list[str]:
    if option in KIND_OF_OPTION:
        return names(KIND_OF_OPTION[option])
    for one in (*SETTINGS, *MACHINE):
        if one.option == option and one.about.allowed:
            return list(one.about.allowed)
    return [str(word) for word in action.choices or ()]


def names(kind: str) -> list[str]:
    from fedflat.data.files.catalogue import builtin_entries

    if kind == "presets":
        return [preset.name for preset in every()]
    if kind == "datasets":
        return [entry.name for entry in builtin_entries()]
    text = Path(__file__).with_name("listings").joinpath(f"{kind}.txt").read_text(encoding="utf-8")
    return re.findall(r"^([a-z][\w-]*)(?=[( \n]|$)", text.partition("\n\n")[0], flags=re.MULTILINE)


def bash(parser: argparse.ArgumentParser) -> str:
    found = commands(parser)
    tops = [one.path for one in found if " " not in one.path]
    parents = sorted({one.path.split()[0] for one in found if " " in one.path})
    lines = [
        "_fedflat() {",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
        '  local path="${COMP_WORDS[1]}" words="" options=""',
        '  case "$path" in',
        f'    {"|".join(parents)}) [ "$COMP_CWORD" -gt 2 ] && path="$path ${{COMP_WORDS[2]}}" ;;',
        "  esac",
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f"    words={quote(' '.join(tops))} options='--help --version'",
        '  else case "$path" in',
    ]
    values: dict[str, list[str]] = {}
    for one in found:
        lines.append(
            f"    {quote(one.path)}) words={quote(' '.join(one.words))} "
            f"options={quote(' '.join(one.options))} ;;"
        )
        values |= {option: words for option, (_, words) in one.options.items() if words}
    taking = sorted({o for one in found for o in one.options if o not in one.flags})
    lines += ["  esac", "  fi", '  case "$prev" in']
    lines += [f"    {name}) words={quote(' '.join(some))} ;;" for name, some in values.items()]
    lines += [
        f'    {"|".join(name for name in taking if name not in values)}) words="" ;;',
        "  esac",
        '  case "$cur" in -*) words="$options" ;; esac',
        '  COMPREPLY=( $(compgen -W "$words" -- "$cur") )',
        "}",
        "complete -o default -F _fedflat fedflat",
    ]
    return "\n".join(lines) + "\n"


def zsh(parser: argparse.ArgumentParser) -> str:
    """A script for zsh, which can read those for bash."""
    return (
        "autoload -Uz compinit bashcompinit\n"
        "(( $+functions[compdef] )) || compinit\n"
        f"bashcompinit\n{bash(parser)}"
    )


def fish(parser: argparse.ArgumentParser) -> str:
    lines = [
        "complete -c fedflat -e",
        "complete -c fedflat -n __fish_use_subcommand -l help -l version",
    ]
    found = commands(parser)
    for one in found:
        top, _, job = one.path.partition(" ")
        here = f"__fish_seen_subcommand_from {top}"
        if not job:
            lines.append(
                f"complete -c fedflat -f -n __fish_use_subcommand -a {top} -d {_fish(one.help)}"
            )
        else:
            here += f"; and __fish_seen_subcommand_from {job}"
        if one.words:
            jobs = [each.path.split()[1] for each in found if each.path.startswith(f"{top} ")]
            rest = f"; and not __fish_seen_subcommand_from {' '.join(jobs)}" * (one.words == jobs)
            lines.append(
                f"complete -c fedflat{' -f' * (one.path not in KIND_OF_ARGUMENT)} "
                f"-n {_fish(here + rest)} -a {_fish(' '.join(one.words))}"
            )
        for option, (help, words) in one.options.items():
            value = "" if option in one.flags else " -r"
            value += f" -f -a {_fish(' '.join(words))}" * bool(words)
            lines.append(
                f"complete -c fedflat -n {_fish(here)} -l {option.removeprefix('--')}{value} "
                f"-d {_fish(help)}"
            )
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS: dict[str, Callable[[argparse.ArgumentParser], str]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}
