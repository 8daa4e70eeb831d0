"""``fedflat models``, ``partitions``, ``tasks`` and the like: what there is of each, with its
arguments."""

from __future__ import annotations

from argparse import Namespace
from inspect import Parameter

from fedflat.cli.parser import ALPHAS
from fedflat.registry.specs import RegisteredName, registered, spell

WIDE = 60
"""A longer call stands out of its column."""
SAYABLE = (int, float, str, list, tuple)

WHERE = {
    "models": 'Say one with --model, as in --model "mlp(hidden=[64, 64])"; in Python any nn.Module will do.',
    "partitions": f'Say one inside a data set, as in --on "digits(lda(0.1), clients=50)".\n{ALPHAS}',
    "tasks": 'Say one with --task, as in --task "segmentation(ignore=255)"; data sets name their usual one.',
    "topologies": 'Say one with --topology, as in --topology "chains(groups=20)".',
    "attacks": 'Say one with --attack, as in --attack "label_flip(L_S=0.3, L=0.5, pairs=[[0, 2]])".',
    "groupings": 'Say one inside a topology, as in --topology "chains(random(d_min=200, k_max=5))".',
    "clocks": 'Say one with --clock, as in --clock "devices(speed=lognormal(100, 0.5), deadline=60)".',
    "spreads": 'Say one in place of a number in a clock, as in --clock "devices(up=uniform(1e5, 1e6))".',
    "presences": 'Say one inside a clock, as in --clock "devices(present=on_off(on=600, off=60))".',
    "starts": 'Say one with --init, as in --init "pretrained(mnist(), rounds=5)".',
    "schedules": 'Say one in place of a number, as in --lr "decay(0.1, 0.998)" or "fedsam(rho=warmup(0.01, 0.1, 50))".',
}


ONE = {"topologies": "topology"}


def carry_out(args: Namespace) -> int:
    """List one kind, a line for what it is and how it is called."""
    entries = list(registered(ONE.get(args.command, args.command.removesuffix("s"))))
    calls = [_call(entry) for entry in entries]
    width = max((len(call) for call in calls if len(call) < WIDE), default=0)
    for call, entry in zip(calls, entries, strict=True):
        print(f"{call:<{width}}  {entry.summary.replace('``', '')}")
    print(f"\n{WHERE[args.command]}")
    return 0


def _call(entry: RegisteredName) -> str:
    return f"{entry.name}({', '.join(map(_argument, entry.signature.parameters.values()))})"


def _argument(parameter: Parameter) -> str:
    """With its default, if that can be written."""
    default = parameter.default
    if default is Parameter.empty:
        return parameter.name
    return f"{parameter.name}={spell(default) if isinstance(default, SAYABLE) else '...'}"
