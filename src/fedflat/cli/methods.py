"""``fedflat methods``: every method, its arguments, its paper, its cost."""

from __future__ import annotations

import inspect
from argparse import Namespace

from fedflat.composition.method import Method
from fedflat.registry.specs import RegisteredName, find, parse, registered

LEGEND = """
down, up    vectors of the model's size sent to and from each client in a round; FedAvg's 1 and 1
gradients   batch gradients for each local step; "+ pass": and one gradient over all the client's data
server      vectors the server keeps besides the model (averages of models not counted)
client      vectors each client keeps between its visits

`fedflat methods NAME` tells more. '+' sorts pieces into the papers' order, chain(a, b) keeps yours."""


def carry_out(args: Namespace) -> int:
    """List all of them, or explain one."""
    print(_explain(args.name) if args.name else _listing())
    return 0


def _listing() -> str:
    entries = [entry for entry in registered("method") if entry.name != "chain"]
    whole = [entry for entry in entries if _is_whole(entry)]
    rest = [entry for entry in entries if not _is_whole(entry)]
    head = f"{'METHODS':<18}down  up  gradients  server  client"
    return "\n".join(
        [head, *map(_line, whole), "", "PIECES to add with '+'", *map(_line, rest), LEGEND]
    )


def _is_whole(entry: RegisteredName) -> bool:
    """Whether it is a method of its own: those have a module of their own, or are recipes."""
    return not entry.make.__module__.endswith("methods.pieces") and entry.name != "fsa"


def _line(entry: RegisteredName) -> str:
    arguments = ", ".join(map(_argument, entry.signature.parameters.values()))
    call = f"\n    {entry.name}({arguments})" if arguments else ""
    return f"{entry.name:<18}{_numbers(entry)}\n    {entry.summary}{call}"


def _numbers(entry: RegisteredName) -> str:
    if _asks(entry):
        return ""
    price = entry.make().cost
    full = " + pass" if price.full_gradients else ""
    gradients = f"{price.gradients}{full}{' twice' if price.local_trainings > 1 else ''}"
    return f"{price.down:>4}{price.up:>4}  {gradients:<9}  {price.server_state:>6}  {price.client_state:>6}"


def _asks(entry: RegisteredName) -> bool:
    """Whether it has an argument that must be given, so that nothing can be said of it without."""
    return any(
        p.default is p.empty
        for p in entry.signature.parameters.values()
        if p.kind is not p.VAR_POSITIONAL
    )


def _argument(parameter: inspect.Parameter) -> str:
    return (
        parameter.name
        if parameter.default is parameter.empty
        else f"{parameter.name}={parameter.default!r}"
    )


def _explain(text: str) -> str:
    if not text.isidentifier():
        method = parse(text, "method")
        return "\n".join([repr(method), "", method.stack(), *_price(method)])
    entry = find(text, "method")
    signature = entry.signature.replace(return_annotation=inspect.Signature.empty)
    lines = [f"{entry.name}{signature}", "", inspect.getdoc(entry.make) or ""]
    if not _asks(entry):
        method = parse(text, "method")
        lines += ["", method.stack(), *_price(method)]
    return "\n".join(lines)


def _price(method: Method) -> list[str]:
    price = method.cost
    times = {1: "once", 2: "twice"}.get(price.local_trainings, f"{price.local_trainings} times")
    least = "" if price.stated else "at least: "
    return [
        f"{least}each client, each round: {price.down} vectors down, {price.up} up; local work {times}, "
        f"{price.gradients} gradients a step and {price.full_gradients} over all its data",
        f"kept: {price.server_state} vectors at the server, {price.client_state} at each client; clients weigh "
        f"{method.weighting or 'sized'}",
    ]
