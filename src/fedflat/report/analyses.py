"""The stored analyses of a run, checked and shortened to what the page shows.

What a kind of analysis shows is defined by its class (`fedflat.analysis.kinds`). A result with
another shape is `Damaged`, and the caller names the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedflat.analysis.analysis import Result, analyses
from fedflat.core.json_schema import check

_SETTINGS = {
    "model?": str,
    "set?": str,
    "of?": int,
    "examples?": (int, None),
    "a?": str,
    "b?": str,
    "probes?": int,
    "*": object,
}


class Unusable(ValueError):
    """An analysis that is whole but cannot be shown."""


@dataclass(frozen=True)
class ShownAnalysis:
    """One finished analysis of one run."""

    kind: str
    model: str
    """Which model was analysed; empty if the analysis is of no model."""
    settings: str
    """The other settings as text; equal texts mean comparable results."""
    result: Result


def checked(saved: dict[str, Any]) -> ShownAnalysis:
    """Return what the page shows of a stored analysis."""
    kind, settings = saved["kind"], dict(saved["settings"])
    known = analyses()
    if kind not in known:
        raise Unusable(
            f"this version does not know analyses of the kind {kind!r}. "
            "If a plugin has it, name the plugin with --plugin."
        )
    check(settings, _SETTINGS, "settings")
    model = settings.pop("model", "")
    for name in ("models", "a", "b"):  # the result names them
        settings.pop(name, None)
    result = known[kind].for_report(saved["result"], saved["settings"])
    return ShownAnalysis(kind, model, settings_text(settings), result)


def settings_text(settings: dict[str, Any]) -> str:
    """Return settings as text, without those that are off or zero.

    >>> settings_text({"set": "test", "examples": 500, "of": 10000, "seed": 0, "power": True})
    '500 of 10,000 test examples, power'
    >>> settings_text({"set": "client:3", "of": 40, "models": ["a", "b"], "span": 1.0})
    'all 40 examples of client:3, models a+b, span 1.0'
    """
    rest = {name: value for name, value in settings.items() if value not in (None, False, 0)}
    if not rest.get("probes"):
        rest.pop("method", None)
    parts = []
    if "set" in rest and "of" in rest:
        where, whole, used = str(rest.pop("set")), rest.pop("of"), rest.pop("examples", None)
        count = f"all {whole:,}" if used is None else f"{used:,} of {whole:,}"
        parts.append(
            f"{count} examples of {where}" if ":" in where else f"{count} {where} examples"
        )
    for name, value in rest.items():
        text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
        parts.append(name if value is True else f"{name} {text}")
    return ", ".join(parts)


def registered_kinds() -> list[dict[str, Any]]:
    """The registered analyses, with their titles and places on the page."""
    return [
        {
            "id": kind,
            "title": one.title or kind.replace("_", " "),
            "short": one.short_title,
            "position": one.position,
        }
        for kind, one in analyses().items()
    ]
