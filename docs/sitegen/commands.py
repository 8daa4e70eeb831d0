"""A page for every command, from the parser of the command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from fedflat.cli.parser import build
from sitegen.markdown import fenced, inline, table


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands, by name; aliases are left out."""
    [action] = (one for one in build()._actions if isinstance(one, argparse._SubParsersAction))
    seen: dict[int, str] = {}
    for name, parser in action.choices.items():
        seen.setdefault(id(parser), name)
    return {name: action.choices[name] for name in seen.values()}


def page(name: str, parser: argparse.ArgumentParser) -> str:
    """The Markdown of one command."""
    return f"# fedflat {name}\n\n" + "".join(_sections(parser, 2))


def _sections(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    parser.prog = re.sub(r"^\S+(?= )", "fedflat", parser.prog)
    if parser.description:
        yield f"{inline(parser.description)}\n\n"
    inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if inner:
        for name, choice in inner[0].choices.items():
            yield f"{'#' * level} {parser.prog.partition(' ')[2]} {name}\n\n"
            yield from _sections(choice, level + 1)
        return
    usage = parser.format_usage().removeprefix("usage: ")
    yield fenced(" ".join(usage.split()) if len(usage) < 200 else parser.prog + " [options]") + "\n"
    for group in parser._action_groups:
        shown = [one for one in group._group_actions if one.help is not argparse.SUPPRESS]
        if shown:
            yield f"**{(group.title or 'options').capitalize()}**\n\n"
            yield table(
                ("option", "meaning"), ((_option(one), _help(parser, one)) for one in shown)
            )
            yield "\n"
    if parser.epilog:
        yield fenced(parser.epilog) + "\n"


def _option(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    value = " ".join(value) if isinstance(value, tuple) else value
    names = ", ".join(action.option_strings)
    takes = f" {value}" if names and action.nargs != 0 else ""
    return f'<span class="option">`{names or value}{takes}`</span>'


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return inline(parser._get_formatter()._expand_help(action)) if action.help else ""


def pages() -> dict[str, str]:
    """The pages by their file names."""
    return {f"{name}.md": page(name, parser) for name, parser in commands().items()}


def listing() -> str:
    """The table of contents of these pages."""
    links = "\n".join(f"../generated/commands/{name}" for name in commands())
    return f"\n```{{toctree}}\n:maxdepth: 1\n\n{links}\n```\n"
