"""``fedflat doctor``: check that a device computes what the CPU computes."""

from __future__ import annotations

import argparse

from fedflat.errors import printable

HELP = "check a device: methods against the CPU, stacks, resuming, speed"
LOADS = ("fedflat.experiments.doctor",)
EXAMPLES = ("fedflat doctor --device cuda", "fedflat doctor --device cpu --methods fedavg,fedsam")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The device and the methods."""
    parser.description = (
        "Train every method for ten steps on a device and on the CPU and compare the models; "
        "compare stacks with single clients, and a resumed run with an uninterrupted one; measure "
        "the speed. Needs no data set. Prints one text, to be pasted into an issue."
    )
    parser.add_argument("--device", default="cuda", metavar="NAME", help="cpu, cuda, cuda:1 or mps")
    parser.add_argument("--methods", metavar="NAME,...", help="methods to try (default: all)")
    parser.add_argument("--quick", action="store_true", help="do not measure the speed")


def run(args: argparse.Namespace) -> int:
    """Print the report. Returns 1 if something failed."""
    from fedflat.experiments.doctor import examine

    names = [name.strip() for name in args.methods.split(",")] if args.methods else None
    good = examine(
        args.device,
        lambda text: print(printable(text), flush=True),
        names,
        speed=not args.quick,
    )
    return 0 if good else 1
