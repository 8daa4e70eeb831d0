"""``fedflat watch``."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from fedflat.report.live import LiveServer


def carry_out(args: Namespace) -> int:
    """Show the runs in a folder until Ctrl-C."""
    folder = Path(args.folder)
    with LiveServer(folder, args.port) as server:
        if not folder.exists():
            print(
                f"{folder} is not there yet; its runs will be shown when they begin.",
                file=sys.stderr,
            )
        print(
            f"{folder} is shown at the address below, on this machine only; Ctrl-C ends it.",
            file=sys.stderr,
        )
        print(server.address, flush=True)
        server.serve_forever()
    return 0
