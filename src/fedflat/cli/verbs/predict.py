"""``fedflat predict``: masks or classes of images, by the model of a run."""

from __future__ import annotations

import argparse

from fedflat.cli.options import data_dir_option, path, picture_size, whole
from fedflat.cli.verbs.export import module_option
from fedflat.errors import MAX_PIXELS

HELP = "predict images or rows of a CSV file with the model of a run"
LOADS = ("fedflat.cli.predict",)
EXAMPLES = (
    "fedflat predict runs/street photo.jpg more_photos --out masks",
    "fedflat predict runs/wine new.csv --csv",
    "fedflat predict runs/own photo.jpg --module nets.py:Net",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, the images and the output."""
    parser.description = (
        "Predict images or the rows of a CSV file with the model of a run. They are prepared as "
        "the run's test examples are. For segmentation, write NAME.mask.png with the colours of "
        "the data set, NAME.ids.png with the class numbers, and NAME.overlay.png with the mask on "
        "the photo and a legend. Otherwise print the class of each example and its probability, "
        "or its value."
    )
    add = parser.add_argument
    add("folder", type=path, metavar="RUN", help="run folder")
    add(
        "images",
        type=path,
        metavar="IMAGE",
        nargs="+",
        help="images, folders of images, or a CSV file",
    )
    add("--out", type=path, metavar="DIR", help="folder for the masks (default: beside the images)")
    add(
        "--overwrite",
        action="store_true",
        help="replace masks that exist (default: if one exists, nothing is predicted)",
    )
    add("--model", metavar="NAME", help="which model: server, swa, ... (default: the reported one)")
    add(
        "--size",
        type=picture_size,
        metavar="HxW",
        help="height and width to resize images to, padded to multiples of 32; own: keep the size "
        "of each image (default: the size of the run's test images)",
    )
    add(
        "--max-pixels",
        type=whole,
        default=MAX_PIXELS,
        metavar="N",
        help=f"refuse images with more pixels (default {MAX_PIXELS:,})",
    )
    style = parser.add_mutually_exclusive_group()
    style.add_argument(
        "--csv", dest="style", action="store_const", const="csv", help="print predictions as CSV"
    )
    style.add_argument(
        "--json", dest="style", action="store_const", const="json", help="print predictions as JSON"
    )
    parser.set_defaults(style="text")
    module_option(parser)
    data_dir_option(parser)


def run(args: argparse.Namespace) -> int:
    """Predict, write the masks, and print a line for each image."""
    from fedflat.cli.predict import predict

    return predict(args)
