"""What ``fedflat list methods`` prints: every method, its arguments, its paper, its cost."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from fedflat.registry.specs import RegisteredName, find, parse, registered

if TYPE_CHECKING:
    from fedflat.composition.method import Method

LEGEND = """
down, up    vectors of the model's size sent to and from each client per round; FedAvg: 1 and 1
gradients   batch gradients per local step; "+ pass": and one gradient over all data of the client
server      vectors that the server keeps besides the model (without model averages)
client      vectors that each client keeps between rounds

`fedflat list methods NAME` describes one. '+' sorts pieces into the papers' order, chain(a, b) keeps yours."""


def listing() -> str:
    """All methods, then all pieces that can be added to one."""
    entries = [entry for entry in registered("method") if entry.name != "chain"]
    whole = [entry for entry in entries if _is_whole(entry)]
    rest = [entry for entry in entries if not _is_whole(entry)]
    head = f"{'METHODS':<18}down  up  gradients  server  client"
    return "\n".join(
        [
            head,
            *map(_line, whole),
            "",
            "PIECES that can be added with '+'",
            *map(_line, rest),
            LEGEND,
        ]
    )


def _is_whole(entry: RegisteredName) -> bool:
    """Whether it is a complete method: those have their own module, or are recipes."""
    return not entry.make.__module__.endswith("methods.pieces") and entry.name != "fsa"


def _line(entry: RegisteredName) -> str:
    arguments = ", ".join(map(_argument, entry.signature.parameters.values()))
    call = f"\n    {entry.name}({arguments})" if arguments else ""
    return f"{entry.name:<18}{_numbers(entry)}\n    {entry.summary}{call}"


def _numbers(entry: RegisteredName) -> str:
    if entry.required:
        return ""
    price = entry.make().cost
    full = " + pass" if price.full_gradients else ""
    gradients = f"{price.gradients}{full}{' twice' if price.local_trainings > 1 else ''}"
    return f"{price.down:>4}{price.up:>4}  {gradients:<9}  {price.server_state:>6}  {price.client_state:>6}"


def _argument(parameter: inspect.Parameter) -> str:
    return (
        parameter.name
        if parameter.default is parameter.empty
        else f"{parameter.name}={parameter.default!r}"
    )


def explain(text: str) -> str:
    """One method with its documentation and its cost, or a combination with its pieces in order."""
    if not text.isidentifier():
        method = parse(text, "method")
        return "\n".join([repr(method), "", method.stack(), *_price(method)])
    entry = find(text, "method")
    signature = entry.signature.replace(return_annotation=inspect.Signature.empty)
    lines = [f"{entry.name}{signature}", "", (inspect.getdoc(entry.make) or "").replace("``", "")]
    if not entry.required:
        method = parse(text, "method")
        lines += ["", method.stack(), *_price(method)]
    return "\n".join(lines)


def _price(method: Method) -> list[str]:
    from fedflat.composition.disclosure import disclosure_text

    price = method.cost
    times = {1: "once", 2: "twice"}.get(price.local_trainings, f"{price.local_trainings} times")
    least = "" if price.stated else "at least: "
    return [
        f"{least}per client and round: {price.down} vectors down, {price.up} up; local training {times}, with "
        f"{price.gradients} gradients per step and {price.full_gradients} over all data of the client",
        f"state: {price.server_state} vectors at the server, {price.client_state} at each client; weighting: "
        f"{method.weighting or 'sized'}",
        "",
        disclosure_text(method),
    ]
