"""A server whose transport is closed and opened again: ``python restarting_server.py ROUND deploy
serve ...`` does that before the round."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fedflat.cli import main
from fedflat.deploy.session import Session

asked = Session.online_for


def online_for(self: Session, round: int) -> Sequence[int]:
    """Reopen the transport once."""
    if round == int(sys.argv[1]) and round not in self.online_in and self.job:
        self.transport.reopen()
        self.log(reopened=round)
        self.wait_until(lambda: len(self.online()) >= self.least, "back")
    return asked(self, round)


if __name__ == "__main__":
    Session.online_for = online_for  # type: ignore[method-assign]
    sys.exit(main(sys.argv[2:]))
