"""``fedflat deploy join``: a client's machine."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from fedflat.data.federation import DataSpec
from fedflat.data.sets.csv_file import CsvFile
from fedflat.data.sets.image_folder import ImageFolder
from fedflat.deploy.extra import require_extra
from fedflat.deploy.federation_folder import read_participant
from fedflat.deploy.node import Node, NodeSettings, open_cell_link
from fedflat.deploy.supervise import end_with_parent
from fedflat.errors import PrintLine, SettingError
from fedflat.experiments.experiment import data_set


def join(args: Namespace) -> int:
    """Take part as a client, in a process that another one watches."""
    require_extra()
    participant = read_participant(Path(args.file))
    agree_on_tls(participant.tls, args)
    settings = NodeSettings(
        own_data(args.data),
        args.part,
        Path(args.state) if args.state else Path(args.file).with_suffix(""),
        threads=args.threads,
        device=args.device,
        wait=args.wait,
    )
    end_with_parent()
    Node(participant, settings, open_cell_link, printer(args)).run()
    return 0


def own_data(text: str) -> DataSpec:
    """A folder of images, a CSV file, or the text of a data set.

    All images and all rows are used, by a client for training and by the server for testing, unless
    the folder has subfolders ``train`` and ``test``.
    """
    place = Path(text)
    if place.is_dir():
        divided = (place / "train").is_dir() and (place / "test").is_dir()
        return ImageFolder(text, test=None if divided else text, clients=1)
    if text.endswith((".csv", "/")):
        if not place.is_file():
            raise SettingError(
                f"{text} is not there. Name a folder of images by class, a CSV file, or a data set "
                "such as 'digits()'."
            )
        return CsvFile(text, test=text, clients=1)
    return data_set(text)


def agree_on_tls(tls: bool, args: Namespace) -> None:
    """Refuse to go without TLS unless that was asked for by name."""
    if not tls and not args.insecure_no_tls:
        raise SettingError(
            "deploy: this federation was made without TLS, so anybody on the way can read what is "
            "sent. Make one with TLS, or accept that: --insecure-no-tls."
        )
    if tls and args.insecure_no_tls:
        raise SettingError("deploy: this federation has TLS. Leave --insecure-no-tls out.")


def printer(args: Namespace) -> PrintLine:
    """Prints lines on standard error, unless they are not wanted."""

    def print_line(text: str) -> None:
        if not getattr(args, "quiet", False):
            print(text, file=sys.stderr, flush=True)

    return print_line
