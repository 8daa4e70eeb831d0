"""``fedflat export``: the model of a run as a file for other programs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fedflat.cli.options import path

HELP = "write the model of a run to a file for other programs"
LOADS = ("fedflat.experiments.run_folder.export",)
EXAMPLES = (
    "fedflat export runs/mine --to model.onnx --raw",
    "fedflat export runs/mine --to model.safetensors --model server",
    "fedflat export runs/own --to model.onnx --module nets.py:Net",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, the model and the file."""
    parser.description = (
        "Write the model of a run as named tensors, as a torch.export program, or as ONNX."
    )
    parser.add_argument("folder", type=path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--to",
        type=path,
        required=True,
        metavar="FILE",
        help="model.safetensors, model.pt (state dict), model.pt2 or model.onnx",
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="which model of the run, such as server or swa (default: the reported one)",
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help=".pt2, .onnx: take inputs as they are stored (columns, bytes) and normalize inside",
    )
    module_option(parser)


def module_option(parser: argparse.ArgumentParser) -> None:
    """The option that names a module that was given in Python."""
    parser.add_argument(
        "--module",
        metavar="FILE:NAME",
        help="the run's module, if it was given in Python: a class, function or module, such as "
        "nets.py:Net or package.nets:Net",
    )


def run(args: argparse.Namespace) -> int:
    """Write the file, print its name, and say what it takes and gives."""
    from fedflat.cli.predict import own_module
    from fedflat.experiments.run_folder.export import export

    card = export(
        Path(args.folder),
        Path(args.to),
        model=args.model,
        module=own_module(args.module),
        raw=args.raw,
    )
    print(args.to)
    print(card.describe(), file=sys.stderr)
    return 0
