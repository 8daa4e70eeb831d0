"""``fedflat export``: the model of a run as a file for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedflat.cli.values import path

HELP = "write the model of a run to a file for other programs"
LOADS = ("fedflat.experiments.run_folder.load",)


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
        help="model.safetensors, model.pt2 or model.onnx",
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="which model of the run, such as server or swa (default: the reported one)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the file and print its name."""
    from fedflat.experiments.run_folder.load import export

    export(Path(args.folder), Path(args.to), model=args.model)
    print(args.to)
    return 0
