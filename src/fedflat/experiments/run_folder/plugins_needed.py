"""What a run needs of others' code: the plugins whose names its texts use, as its folder remembers
them.

    {"name": "my.py", "version": null, "digest": "9f...", "place": "/home/me/my.py", "names": ["my_sam"]}

An installed package is told by its version, a file by its digest. ``place`` is a hint for people.
Nothing is ever loaded because a folder says so: a person names the plugin again, has it installed,
or has imported it. No message advises to install a package that a folder names: the folder may come
from anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from fedflat.errors import RunError, printable, shown
from fedflat.registry.plugins import HAND_MADE, Plugin
from fedflat.registry.specs import known, names_in

Needs = Sequence[dict[str, Any]]
_HINT = "(--plugin on the command line, fedflat.load_plugin in Python)"


def needs_of(texts: Iterable[object]) -> list[dict[str, Any]]:
    """The plugins whose names are used in those of ``texts`` that are texts."""
    names: dict[Plugin, list[str]] = {}
    for text in texts:
        for entry in names_in(text) if isinstance(text, str) else ():
            plugin = entry.plugin
            if plugin is not None and entry.name not in names.setdefault(plugin, []):
                names[plugin].append(entry.name)
    return [{**asdict(plugin), "names": own} for plugin, own in names.items()]


def refuse_unmet(needs: Needs, *, exact: bool) -> None:
    """Refuse what needs a plugin that is not here; if ``exact``, also one that has changed."""
    for sentence in [*missing(needs), *(changed(needs) if exact else ())]:
        raise RunError(sentence)


def missing(needs: Needs) -> list[str]:
    """A sentence for each plugin that is not loaded."""
    said = []
    for need in needs:
        unknown = [name for name in need["names"] if known(name) is None]
        if unknown:
            names = f"{', '.join(printable(name[:40]) for name in unknown[:5])}{', ...' if len(unknown) > 5 else ''}"
            said.append(
                f"the run needs {names} of {_whose(need)} which is not loaded here. {_how_to_load(need)}"
            )
    return said


def changed(needs: Needs) -> list[str]:
    """A sentence for each plugin that is here, but not as it was when the run began."""
    said = []
    for need in needs:
        if need["version"] is None and need["digest"] is None:
            continue
        for entry in filter(None, map(known, need["names"])):
            now = entry.plugin
            if now is not None and now.same(_plugin(need)):
                continue
            found = "fedflat itself" if now is None else _told(now)
            said.append(
                f"the run was begun with {entry.name} of {_whose(need)} and here it is that of {found}, which may "
                f"compute other numbers. {_how_to_go_on(need)}"
            )
            break
    return said


def _plugin(need: dict[str, Any]) -> Plugin:
    return Plugin(**{name: value for name, value in need.items() if name != "names"})


def _whose(need: dict[str, Any]) -> str:
    plugin = _plugin(need)
    return f"{_told(plugin)}, found in {shown(plugin.place)}," if plugin.place else _told(plugin)


def _told(plugin: Plugin) -> str:
    name = plugin.name if plugin.name == HAND_MADE else shown(plugin.name)
    if plugin.version is not None:
        return f"{name} {printable(plugin.version[:20])}"
    return (
        name if plugin.digest is None else f"{name} with the digest {printable(plugin.digest[:12])}"
    )


def _how_to_load(need: dict[str, Any]) -> str:
    if need["version"] is not None:
        return "If you know and trust this package, make that version of it available here again."
    if need["digest"] is None:
        return f"Go on in Python, where it is defined; or put it into a file and name that {_HINT}."
    return f"Name it again {_HINT}."


def _how_to_go_on(need: dict[str, Any]) -> str:
    if need["version"] is not None:
        return "Go back to that version of it, or start a new run."
    return "Put it back as it was to go on, or start a new run."
