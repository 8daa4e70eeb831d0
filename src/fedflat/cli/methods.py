"""``fedflat methods``: every method, its arguments, its paper, its cost."""

from __future__ import annotations

import inspect
from argparse import Namespace

from fedflat.spelling import Entry, find, parse, registered


def carry_out(asked: Namespace) -> int:
    """List all of them, or explain one."""
    print(_explain(asked.name) if asked.name else _listing())
    return 0


def _listing() -> str:
    entries = [entry for entry in registered("method") if entry.name != "chain"]
    whole = [e for e in entries if e.name.startswith(("fed", "naive_fed", "centralised"))]
    rest = [e for e in entries if e not in whole]
    lines = ["METHODS" + " " * 13 + "down  up  gradients", *map(_line, whole)]
    lines += ["", "PIECES to add with '+'", *map(_line, rest)]
    lines += [
        "",
        "down, up: vectors of the model's size to and from each client a round, FedAvg 1 and 1; gradients: batch",
        "gradients for each local step. `fedflat methods NAME` tells more; '+' sorts pieces into the papers' order,",
        "chain(a, b) keeps yours.",
    ]
    return "\n".join(lines)


def _line(entry: Entry) -> str:
    price = entry.make().cost
    arguments = ", ".join(f"{p.name}={p.default!r}" for p in entry.signature.parameters.values())
    numbers = f"{price.down:>4}{price.up:>4}{price.gradients:>7}"
    return f"  {entry.name:<18}{numbers}      {entry.summary}\n{'':41}({arguments})"


def _explain(text: str) -> str:
    method = parse(text, "method")
    price = method.cost
    lines = [repr(method), method.stack()]
    if text.isidentifier():
        entry = find(text, "method")
        signature = entry.signature.replace(return_annotation=inspect.Signature.empty)
        lines = [f"{entry.name}{signature}", "", inspect.getdoc(entry.make) or "", "", method.stack()]
    lines.append(
        f"each client, each round: {price.down} vectors down, {price.up} up, {price.gradients} gradients a local step; "
        f"clients weigh {method.weighting or 'sized'}"
    )
    return "\n".join(lines)
