"""A page for every method, from the registry: rule, arguments, cost, one command, one curve."""

from __future__ import annotations

import inspect
import json
import sys
import textwrap
from pathlib import Path

from fedflat.composition.disclosure import disclosure_text
from fedflat.registry.specs import RegisteredName, registered
from sitegen.arguments import arguments, parts
from sitegen.chart import line_chart
from sitegen.markdown import fenced, inline, is_rule, shell, table

CURVES = Path(__file__).parents[1] / "curves.json"
SHARED = ("fedflat.methods.pieces", "fedflat.methods.recipes", "fedflat.composition.method")
"""Modules of many methods, whose docstrings have no rule."""
COST = {
    "down": "vectors of the model's size from the server to each client, per round",
    "up": "vectors of the model's size from each client to the server, per round",
    "local_trainings": "local trainings per client and round",
    "gradients": "batch gradients per local step",
    "full_gradients": "gradients over all data of the client, per round",
    "server_state": "vectors that the server keeps besides the model",
    "client_state": "vectors that each client keeps between rounds",
}


def entries() -> list[RegisteredName]:
    """All methods of fedflat."""
    return [entry for entry in registered("method") if entry.plugin is None]


def rule_docs(entry: RegisteredName) -> list[str]:
    """The docstrings that have the method's rule: of its own module, or of its pieces' modules."""
    home = entry.make.__module__
    homes = [home] if home not in SHARED else [cls.__module__ for cls in parts(entry)]
    return [sys.modules[one].__doc__ or "" for one in dict.fromkeys(homes)]


def card(entry: RegisteredName, curves: dict[str, dict]) -> str:
    """The Markdown of one card."""
    back = "[All methods](../../reference/methods.md)"
    summary, *more = (inspect.getdoc(entry.make) or "").split("\n\n")
    text = f"---\norphan: true\n---\n\n# {entry.name}\n\n{inline(summary)} {back}.\n\n"
    text += fenced(_call(entry), "python") + "\n"
    text += "\n\n".join(inline(one) for one in more if not is_rule(one) and "\n    " not in one)
    text += _rule(entry) + _arguments(entry) + _cost(entry) + _curve(entry, curves)
    return text


def _call(entry: RegisteredName) -> str:
    given = ", ".join(
        f"{one.name}={one.default}" if one.default else one.name for one in arguments(entry)
    )
    call = f"{entry.name}({given})"
    return "\n".join(textwrap.wrap(call, 84, subsequent_indent=" " * (len(entry.name) + 1)))


def _rule(entry: RegisteredName) -> str:
    text = ""
    for doc in rule_docs(entry):
        title, *paragraphs = textwrap.dedent(doc).strip().split("\n\n")
        blocks = [one for one in paragraphs if is_rule(one)]
        prose = [one for one in paragraphs if not is_rule(one)]
        text += f"\n\n## {'Rule' if not text else 'Rule, second part'}\n\n{inline(title)}\n\n"
        text += "\n".join(fenced(textwrap.dedent(one)) for one in blocks)
        text += "\n\n" + "\n\n".join(map(inline, prose)) + "\n"
    if text:
        text += "\n[Symbols](../../symbols.md) explains the letters that all rules share.\n"
    return text


def _arguments(entry: RegisteredName) -> str:
    rows = [
        (f"`{a.name}`", f"`{a.default}`" if a.default else "", inline(a.meaning))
        for a in arguments(entry)
    ]
    return "\n## Arguments\n\n" + table(("argument", "default", "meaning"), rows) if rows else ""


def _cost(entry: RegisteredName) -> str:
    if entry.required or entry.name == "chain":
        return ""
    method = entry.make()
    cost = method.cost
    rows = [(meaning, str(getattr(cost, name))) for name, meaning in COST.items()]
    text = "\n## Cost with the default arguments\n\n" + table(("what", "number"), rows)
    text += f"\n{fenced(method.stack().replace('; ', chr(10)))}\n"
    return text + f"\n{fenced(disclosure_text(method))}\n"


def _curve(entry: RegisteredName, curves: dict[str, dict]) -> str:
    if entry.name not in curves:
        return ""
    own, base = curves[entry.name], curves["fedavg"]
    lines = [(entry.name, own["rounds"], own["values"])]
    same = own["command"].replace(f" {entry.name} ", " fedavg ") == base["command"]
    if same and entry.name != "fedavg":
        lines.insert(0, ("fedavg", base["rounds"], base["values"]))
    return (
        "\n## One run\n\nOne seed, arguments that were not tuned, a small task. It shows how the method behaves, "
        "not how good it can be.\n\n"
        + shell(own["command"])
        + "\n"
        + line_chart(lines, x="round", y=own["score"], title=f"{own['score']} of {entry.name}")
        + "\n"
    )


def pages() -> dict[str, str]:
    """The cards by their file names."""
    curves = json.loads(CURVES.read_text(encoding="utf-8"))
    return {f"{entry.name}.md": card(entry, curves) for entry in entries()}


def listing() -> str:
    """The table of all methods with links to their cards.

    The cards are not in the navigation of the site: it would be as long as this table on every
    page.
    """
    rows = [
        (f"[{one.name}](../generated/methods/{one.name}.md)", inline(one.summary))
        for one in entries()
    ]
    return f"\n{table(('method', 'what it is'), rows)}\n"
