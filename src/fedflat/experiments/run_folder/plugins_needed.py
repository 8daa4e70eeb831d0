"""The plugins whose names the texts of a run use, as run.json records them.

    {"name": "my.py", "version": null, "digest": "9f...", "place": "/home/me/my.py", "names":
    ["my_sam"]}

An installed package is identified by its version, a file by its digest. ``place`` is a hint for
the user. Nothing is ever loaded because a folder names it: the user names the plugin again, has it
installed, or has imported it. No message advises to install a package that a folder names, since
the folder may come from an untrusted source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedflat.errors import RunError, printable, shown
from fedflat.registry.plugins import HAND_MADE, Plugin
from fedflat.registry.specs import known, names_in

HINT = "(--plugin on the command line, fedflat.load_plugin in Python)"
"""How a plugin is named again."""


@dataclass(frozen=True)
class PluginNeed:
    """A plugin, and the names of it that a run uses."""

    plugin: Plugin
    names: tuple[str, ...]

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> PluginNeed:
        fields = {name: value for name, value in saved.items() if name != "names"}
        return cls(Plugin(**fields), tuple(saved["names"]))

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self.plugin), "names": list(self.names)}


Needs = Sequence[PluginNeed]


def needs_of(texts: Iterable[object]) -> tuple[PluginNeed, ...]:
    """The plugins whose names are used in those of ``texts`` that are texts."""
    names: dict[Plugin, list[str]] = {}
    for text in texts:
        for entry in names_in(text) if isinstance(text, str) else ():
            plugin = entry.plugin
            if plugin is not None and entry.name not in names.setdefault(plugin, []):
                names[plugin].append(entry.name)
    return tuple(PluginNeed(plugin, tuple(own)) for plugin, own in names.items())


def refuse_unmet(needs: Needs, *, exact: bool) -> None:
    """Refuse what needs a plugin that is not here; if ``exact``, also one that has changed."""
    for sentence in [*missing(needs), *(changed(needs) if exact else ())]:
        raise RunError(sentence)


def missing(needs: Needs) -> list[str]:
    """A sentence for each plugin that is not loaded."""
    sentences = []
    for need in needs:
        unknown = [name for name in need.names if known(name) is None]
        if unknown:
            names = f"{', '.join(printable(name[:40]) for name in unknown[:5])}{', ...' if len(unknown) > 5 else ''}"
            sentences.append(
                f"the run needs {names} of {_whose(need)} which is not loaded here. "
                f"{_how_to_load(need)}"
            )
    return sentences


def changed(needs: Needs) -> list[str]:
    """A sentence for each plugin that is here, but not as it was when the run began."""
    sentences = []
    for need in needs:
        if need.plugin.version is None and need.plugin.digest is None:
            continue
        for entry in filter(None, map(known, need.names)):
            now = entry.plugin
            if now is not None and now.same(need.plugin):
                continue
            found = "fedflat itself" if now is None else _shown(now)
            sentences.append(
                f"the run was begun with {entry.name} of {_whose(need)} and here it is that of "
                f"{found}, which may compute other numbers. {_how_to_go_on(need)}"
            )
            break
    return sentences


def _whose(need: PluginNeed) -> str:
    plugin = need.plugin
    return f"{_shown(plugin)}, found in {shown(plugin.place)}," if plugin.place else _shown(plugin)


def _shown(plugin: Plugin) -> str:
    name = plugin.name if plugin.name == HAND_MADE else shown(plugin.name)
    if plugin.version is not None:
        return f"{name} {printable(plugin.version[:20])}"
    return (
        name if plugin.digest is None else f"{name} with the digest {printable(plugin.digest[:12])}"
    )


def _how_to_load(need: PluginNeed) -> str:
    if need.plugin.version is not None:
        return "If you know and trust this package, make that version of it available here again."
    if need.plugin.digest is None:
        return f"Go on in Python, where it is defined; or put it into a file and name that {HINT}."
    return f"Name it again {HINT}."


def _how_to_go_on(need: PluginNeed) -> str:
    if need.plugin.version is not None:
        return "Go back to that version of it, or start a new run."
    return "Restore it to continue, or start a new run."
