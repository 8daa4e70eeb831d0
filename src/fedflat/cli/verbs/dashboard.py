"""``fedflat dashboard``: runs in a browser while they are trained."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fedflat.cli.options import path, whole

HELP = "show runs in a browser while they are trained, until Ctrl-C"
LOADS = ("fedflat.report.live_server",)
EXAMPLES = ("fedflat dashboard runs",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder and the port."""
    parser.description = (
        "Serve a page, on this machine only, that follows the runs in a folder. Ctrl-C ends it."
    )
    parser.add_argument(
        "folder",
        type=path,
        metavar="DIR",
        help="a run, a study, or a folder with runs, now or later",
    )
    parser.add_argument(
        "--port",
        type=whole,
        default=8765,
        metavar="N",
        help="port (default 8765; 0: any free port)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from fedflat.report.live_server import LiveServer

    folder = Path(args.folder)
    with LiveServer(folder, args.port) as server:
        if not folder.exists():
            print(
                f"{folder} does not exist yet. Its runs will appear when they start.",
                file=sys.stderr,
            )
        print(
            f"Showing {folder} at the address below, on this machine only. Ctrl-C ends it.",
            file=sys.stderr,
        )
        print(server.address, flush=True)
        server.serve_forever()
    return 0
