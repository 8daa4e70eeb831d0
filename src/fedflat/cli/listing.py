"""What ``fedflat list`` prints: the kinds of names, all names of a kind, or one in detail."""

from __future__ import annotations

import inspect
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING

from fedflat.cli import preset_listing
from fedflat.cli.options import ALPHAS
from fedflat.cli.parser import builtin, from_plugins
from fedflat.data.files.catalogue import builtin_entries
from fedflat.errors import SpellingError, nearest
from fedflat.papers.presets import every
from fedflat.registry.specs import (
    KINDS,
    RegisteredName,
    find,
    has_plugins,
    name_of,
    parse,
    registered,
    spell,
)

if TYPE_CHECKING:
    from fedflat.composition.method import Method


LEGEND = """
down, up    vectors of the model's size sent to and from each client per round; FedAvg: 1 and 1
gradients   batch gradients per local step; "+ pass": and one gradient over all data of the client
server      vectors that the server keeps besides the model (without model averages)
client      vectors that each client keeps between rounds

`fedflat list methods NAME` describes one. '+' sorts pieces into the papers' order, chain(a, b) keeps yours."""


def methods() -> str:
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
    arguments = ", ".join(map(_with_note, entry.signature.parameters.values()))
    call = f"\n    {entry.name}({arguments})" if arguments else ""
    return f"{entry.name:<18}{_numbers(entry)}\n    {entry.summary}{call}"


def _numbers(entry: RegisteredName) -> str:
    if entry.required:
        return ""
    price = entry.make().cost
    full = " + pass" if price.full_gradients else ""
    gradients = f"{price.gradients}{full}{' twice' if price.local_trainings > 1 else ''}"
    return f"{price.down:>4}{price.up:>4}  {gradients:<9}  {price.server_state:>6}  {price.client_state:>6}"


def _with_note(parameter: inspect.Parameter) -> str:
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


WIDE = 60
"""Calls that are longer are not aligned."""
WRITABLE = (int, float, str, list, tuple)
LISTINGS = Path(__file__).with_name("listings")
"""The folder of stored lists."""
DYNAMIC = ("presets", "datasets", "commands")
"""Kinds whose lists are not stored: they are quick to make, or depend on the machine."""
USE = {
    "methods": 'fedflat run "feddyn(alpha=0.01) + sam(rho=0.05)"',
    "models": '--model "mlp(hidden=[64, 64])"; in Python also any nn.Module',
    "datasets": '--on "digits(lda(0.1), clients=50)"',
    "partitions": 'inside a data set: --on "digits(lda(0.1), clients=50)"',
    "tasks": '--task "segmentation(ignore=255)"; each data set has a default',
    "topologies": '--topology "chains(groups=20)"',
    "groupings": 'inside a topology: --topology "chains(random(d_min=200, k_max=5))"',
    "growths": 'inside a method: "fedseq2par(growth=linear(0.5))"',
    "describers": "inside a grouping: greedy(psi=classifier_weights(epochs=2))",
    "initializers": '--init "pretrained(mnist(), rounds=5)"',
    "schedules": 'in place of a number: --lr "decay(0.1, 0.998)" or "fedsam(rho=warmup(0.01, 0.1, 50))"',
    "clocks": '--clock "devices(speed=lognormal(100, 0.5), deadline=60)"',
    "availability": 'inside a clock: --clock "devices(present=on_off(on=600, off=60))"',
    "distributions": 'in place of a number in a clock: --clock "devices(up=uniform(1e5, 1e6))"',
    "attacks": '--attack "label_flip(L_S=0.3, L=0.5, pairs=[[0, 2]])"',
    "executors": '--executor stacked, or --executor "workers(workers=4)"',
    "metrics": '--record "drift, norms"; --record all',
    "loggers": '--logger "tensorboard, wandb"',
    "analyses": 'fedflat analyse RUN --analyses "curvature(k=5), confusion"',
    "commands": "fedflat COMMAND --help",
    "presets": "fedflat run --preset NAME",
}
"""How an item of each kind is used."""


def stored(name: str) -> str:
    """A text that `python -m fedflat.public` has written: the items of a kind, or "kinds"."""
    return (LISTINGS / f"{name}.txt").read_text().rstrip("\n")


def kinds() -> str:
    """All kinds, with the number of their items and an example."""
    lines = list_kinds() if has_plugins() else stored("kinds")
    foot = "`fedflat list KIND` lists the items, `fedflat list KIND NAME` describes one."
    return "\n".join([lines, "", foot])


def list_kinds() -> str:
    """A line for each kind in the registry, for commands and for presets."""
    return "\n".join(map(_kind_line, USE))


def _kind_line(kind: str) -> str:
    return f"{kind:<15}{_count(kind):>5}  {USE[kind]}"


def _count(kind: str) -> int:
    if kind == "presets":
        return len(every())
    return len(_commands()) if kind == "commands" else len(_entries(kind))


def listing(kind: str) -> str:
    """All items of a kind.

    fedflat's own are stored, since methods and models import PyTorch; with plugins the list is made
    from the registry.
    """
    return build_listing(kind) if kind in DYNAMIC or has_plugins() else stored(kind)


def build_listing(kind: str) -> str:
    if kind in _LISTINGS:
        return _LISTINGS[kind]()
    entries = _entries(kind)
    calls = [_call(entry) for entry in entries]
    width = max((len(call) for call in calls if len(call) < WIDE), default=0)
    lines = [
        f"{call:<{width}}  {_plain(entry.summary)}"
        for call, entry in zip(calls, entries, strict=True)
    ]
    return "\n".join([*lines, "", f"Use: {USE[kind]}", *([ALPHAS] if kind == "partitions" else [])])


def describe(kind: str, name: str) -> str:
    """One item of a kind; of methods also a combination, of presets all that have a word in their
    names."""
    if kind in _DETAILS:
        return _DETAILS[kind](name)
    one = _kind(kind)
    bare = name.strip().replace("-", "_")
    made = None if bare.isidentifier() else parse(name, one)
    entry = find(bare if made is None else name_of(type(made)), one)
    explained = _plain(inspect.getdoc(entry.make) or "")
    parts = [_call(entry) if made is None else repr(made), "", explained]
    return "\n".join([*parts, "", f"Use: {USE[kind]}"])


def datasets() -> str:
    """All data sets: what they are, and where their files are or how to get them."""
    found = builtin_entries()
    if has_plugins():
        from fedflat.data.files.fetch import entries

        found = entries()
    width = 2 + max(len(entry.name) for entry in found)
    return "\n".join(
        f"{entry.name:<{width}}{entry.summary}\n{'':{width}}{entry.where or entry.advice}"
        for entry in found
    )


def _commands() -> dict[str, str]:
    """The help of each command, those of plugins too."""
    own = {name: str(verb.HELP) for name, verb in builtin().items()}
    return own | {name: summary for name, (summary, _) in from_plugins().items()}


def _list_commands() -> str:
    found = _commands()
    width = 2 + max(map(len, found))
    return "\n".join(f"{name:<{width}}{help}" for name, help in found.items())


def _describe_command(name: str) -> str:
    found = _commands()
    if name not in found:
        raise SpellingError(
            f"unknown command {name!r}.{nearest(name, found)} Known: {', '.join(found)}."
        )
    return f"{name}: {found[name]}\n\nSee `fedflat {name} --help`."


_LISTINGS = {
    "methods": methods,
    "presets": preset_listing.overview,
    "datasets": datasets,
    "commands": _list_commands,
}
_DETAILS = {
    "methods": explain,
    "presets": preset_listing.describe,
    "commands": _describe_command,
}


def _kind(name: str) -> str:
    """The kind that ``fedflat list`` calls so."""
    return next(kind for kind, called in KINDS.items() if called == name)


def _entries(name: str) -> list[RegisteredName]:
    return list(registered(_kind(name)))


def _plain(text: str) -> str:
    return text.replace("``", "")


def _call(entry: RegisteredName) -> str:
    return f"{entry.name}({', '.join(map(_argument, entry.signature.parameters.values()))})"


def _argument(parameter: Parameter) -> str:
    """The name, with the default if that can be written."""
    default = parameter.default
    if default is Parameter.empty:
        return (
            f"*{parameter.name}" if parameter.kind is Parameter.VAR_POSITIONAL else parameter.name
        )
    return f"{parameter.name}={spell(default) if isinstance(default, WRITABLE) else '...'}"
