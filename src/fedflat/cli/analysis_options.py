"""The options of ``fedflat analyse``, ``report``, ``export`` and ``predict``."""

from __future__ import annotations

import argparse
from typing import Any

from fedflat.cli.values import examples, memory, path, picture_size, real, target, whole
from fedflat.errors import MAX_PIXELS


def add_commands(commands: argparse._SubParsersAction[Any]) -> dict[str, argparse.ArgumentParser]:
    """The commands that look at runs, by name."""
    found = {}
    for name, (help, options) in _COMMANDS.items():
        found[name] = commands.add_parser(name, help=help)
        options(found[name])
    return found


def analyse_options(parser: argparse.ArgumentParser) -> None:
    """What to work out, and how closely. Who holds what is always noted."""
    parser.description = (
        "Work out what is asked for and write it as JSON into RUN/analysis/, where `fedflat report` finds it. What is "
        "known already is not worked out again, and after Ctrl-C the same command goes on."
    )
    add = parser.add_argument
    add("folders", type=path, metavar="RUN", nargs="+", help="run folders, or studies")
    _what(parser)
    _where(parser)
    _closely(parser)
    add("--quiet", action="store_true", help="no progress")


def _what(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what")
    what.add_argument(
        "--curvature", action="store_true", help="the largest Hessian eigenvalues, and what you add"
    )
    what.add_argument(
        "--surface",
        action="store_true",
        help="the loss around the model, on directions all runs share",
    )
    what.add_argument(
        "--plane",
        nargs="*",
        metavar="RUN[:MODEL]",
        help="the plane through three models (default: the runs given); `clients`: of three clients' models",
    )
    what.add_argument(
        "--interpolate",
        nargs=2,
        metavar=("A", "B"),
        help="the line between two models: RUN[:MODEL]",
    )
    what.add_argument(
        "--local-global",
        action="store_true",
        help="how sharp clients' models are, at home and abroad",
    )
    what.add_argument(
        "--recovered",
        action="store_true",
        help="what an attack by gan(...) has recovered, and how near",
    )
    what.add_argument(
        "--corruptions",
        nargs="*",
        metavar="KIND",
        help="accuracy under 19 kinds of corruption, or some",
    )
    what.add_argument(
        "--pictures",
        type=whole,
        nargs="?",
        const=3,
        metavar="N",
        help="image, truth and mask of N examples of every test set (default 3), or of one of each of its domains",
    )
    what.add_argument(
        "--confusion", action="store_true", help="which class is taken for which, on every test set"
    )
    what.add_argument(
        "--styles", action="store_true", help="the styles of the clients' images, in clusters"
    )


def _where(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("of which model, on which examples")
    where.add_argument(
        "--model", metavar="NAME", help="server, swa, ... (default: the one the run reports)"
    )
    where.add_argument(
        "--set", default="test", metavar="SET", help="test (default), train, or client:K"
    )
    where.add_argument(
        "--examples",
        type=examples,
        default=1000,
        metavar="N",
        help="how many, drawn by the seed (default 1000); all: the whole set",
    )
    where.add_argument(
        "--seed", type=whole, default=0, help="of subsets, directions and probes (default 0)"
    )


def _closely(parser: argparse.ArgumentParser) -> None:
    config = parser.add_argument_group("how closely")
    config.add_argument("-k", type=whole, default=5, metavar="K", help="eigenvalues (default 5)")
    config.add_argument(
        "--power",
        action="store_true",
        help="also by power iteration with deflation, as the papers do",
    )
    config.add_argument(
        "--probes",
        type=whole,
        default=0,
        metavar="N",
        help="products for the trace (default 0: none)",
    )
    config.add_argument(
        "--trace", default="hutchinson", metavar="KIND", help="hutchinson (default) or hutch++"
    )
    config.add_argument(
        "--density",
        type=whole,
        default=0,
        metavar="N",
        help="the spectral density from N random vectors",
    )
    config.add_argument(
        "--layers", action="store_true", help="the largest eigenvalue of each layer"
    )
    config.add_argument("--rho", type=real, metavar="R", help="sharpness in a ball of this radius")
    config.add_argument(
        "--memory",
        type=memory,
        metavar="SIZE",
        help="for curvature, beside program and data: less is slower, and what cannot fit is refused (default 4GB)",
    )
    config.add_argument(
        "--clients",
        type=whole,
        metavar="N",
        help="clients, local against global (default: a round's)",
    )
    config.add_argument(
        "--points",
        type=whole,
        default=25,
        metavar="N",
        help="points on a side of a surface (default 25)",
    )
    config.add_argument(
        "--span", type=real, default=1.0, metavar="S", help="a surface reaches so far (default 1)"
    )


def report_options(parser: argparse.ArgumentParser) -> None:
    """What to show, and where to write it."""
    add = parser.add_argument
    add(
        "--target",
        type=target,
        metavar="A",
        help="score to reach: 0.9 or 90%% (default: the study's or the first's)",
    )
    add("folders", type=path, metavar="RUN", nargs="+", help="run folders, or studies")
    add(
        "--out",
        type=path,
        metavar="FILE",
        help="the page (default: report.html, in the folder if there is one only)",
    )
    add(
        "--figures", type=path, metavar="DIR", help="also draw figures for a paper into this folder"
    )
    kinds = ["png", "pdf", "svg"]
    add(
        "--formats",
        nargs="+",
        default=kinds,
        metavar="KIND",
        help="of figures: png pdf svg (default: all)",
    )


def export_options(parser: argparse.ArgumentParser) -> None:
    """Which model, and where to write it."""
    parser.description = (
        "Write the model of a run as tensors by name, as a program of torch.export, or as ONNX."
    )
    parser.add_argument("folder", type=path, metavar="RUN", help="a run folder")
    parser.add_argument(
        "--to",
        type=path,
        required=True,
        metavar="FILE",
        help="model.safetensors, model.pt2 or model.onnx",
    )
    parser.add_argument(
        "--model", metavar="NAME", help="another model than the run reports, such as server"
    )


def predict_options(parser: argparse.ArgumentParser) -> None:
    """Which model, which pictures, and what to do with what it sees."""
    parser.description = (
        "Look at pictures with the model of a run, prepared as the run's test images are. Where each pixel has a "
        "class, write NAME.mask.png, in the colours of the data set, and NAME.ids.png, with the numbers of the "
        "classes; otherwise say each picture's class and its probability."
    )
    add = parser.add_argument
    add("folder", type=path, metavar="RUN", help="a run folder")
    add("images", type=path, metavar="IMAGE", nargs="+", help="pictures, or folders of them")
    add(
        "--out",
        type=path,
        metavar="DIR",
        help="where masks are written (default: beside the pictures)",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace NAME.mask.png and NAME.ids.png that exist (default: if one exists, nothing is predicted)",
    )
    add("--model", metavar="NAME", help="server, swa, ... (default: the one the run reports)")
    add(
        "--size",
        type=picture_size,
        metavar="HxW",
        help="feed pictures at this height and width, filled up to multiples of 32; own: each at its own (default: the "
        "size that the run is tested at)",
    )
    add(
        "--max-pixels",
        type=whole,
        default=MAX_PIXELS,
        metavar="N",
        help=f"refuse pictures with more pixels (default {MAX_PIXELS:,})",
    )
    style = parser.add_mutually_exclusive_group()
    style.add_argument(
        "--csv", dest="style", action="store_const", const="csv", help="what was seen as CSV"
    )
    style.add_argument(
        "--json", dest="style", action="store_const", const="json", help="... as JSON"
    )
    parser.set_defaults(style="text")


_COMMANDS = {
    "analyse": ("curvature, loss landscapes and robustness of runs", analyse_options),
    "report": ("one page of runs, to open in a browser without a network", report_options),
    "export": ("the model of a run as a file for others", export_options),
    "predict": ("masks or classes of pictures, by the model of a run", predict_options),
}
