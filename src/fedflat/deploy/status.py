"""The status of a server, in a file that ``fedflat deploy status`` reads."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedflat.core.json_schema import check
from fedflat.errors import SettingError
from fedflat.files import Damaged, read_json, write_file
from fedflat.text_table import aligned, size

if TYPE_CHECKING:
    from fedflat.deploy.session import Session

FILE = "status.json"
WAITING, RUNNING, STOPPED, ENDED = "waits for clients", "is running", "was stopped", "has ended"
STATUS = {
    "run": str,
    "pid": int,
    "state": {WAITING, RUNNING, STOPPED, ENDED},
    "time": float,
    "round": int,
    "unread": {"*": int},
    "clients": {
        "*": {
            "online": bool,
            "seen": (float, None),
            "examples": (int, None),
            "refusal": str,
            "late": int,
            "sent": int,
            "received": int,
        }
    },
}
EVERY = 1.0
"""Least seconds between two writes."""


class StatusFile:
    """The status of a session, written at most once a second."""

    def __init__(self, session: Session) -> None:
        self.session, self._written = session, -EVERY

    def write(self, *, closed: bool = False) -> None:
        """Write the status, unless it was just written."""
        now = time.monotonic()
        if now - self._written < EVERY and not closed:
            return
        self._written, session = now, self.session
        online = set(session.online())
        clients = {
            name: {
                "online": name in online,
                "seen": round(now - client.seen, 1) if client.process else None,
                "examples": client.profile["examples"] if client.profile else None,
                "refusal": client.refusal,
                "late": len(client.late),
                "sent": client.sent,
                "received": client.received,
            }
            for name, client in session.clients.items()
        }
        text = {
            "run": session.run,
            "pid": os.getpid(),
            "state": self._state(closed),
            "time": time.time(),
            "round": session.round,
            "unread": session.rejected,
            "clients": clients,
        }
        write_file(session.folder.path / FILE, json.dumps(text, indent=1).encode())

    def _state(self, closed: bool) -> str:
        if closed:
            return ENDED if self.session.over else STOPPED
        return RUNNING if self.session.job else WAITING


def read_status(folder: Path) -> dict[str, Any]:
    """The last status of the federation's server."""
    try:
        found: dict[str, Any] = read_json(folder / FILE)
        check(found, STATUS)
    except Damaged as error:
        raise SettingError(
            f"{folder} has no status: {error}. Start a server: `fedflat deploy serve METHOD "
            f"--federation {folder}`."
        ) from None
    return found


def status_text(folder: Path) -> str:
    found = read_status(folder)
    ago = time.time() - found["time"]
    state = found["state"]
    here = state in (WAITING, RUNNING) and _alive(found["pid"])
    if not here and state != ENDED:
        state = STOPPED
    where = "" if state == WAITING else f", round {found['round'] + 1}"
    head = [f"run {found['run']} {state}{where}, status of {ago:.0f} s ago"]
    if found["unread"]:
        head += [f"messages not read: {why} ({count})" for why, count in found["unread"].items()]
    rows = [
        [
            name,
            _state(one, here),
            "" if one["examples"] is None else f"{one['examples']:,}",
            "" if one["seen"] is None else f"{one['seen'] + ago:.0f} s ago",
            size(one["sent"]),
            size(one["received"]),
        ]
        for name, one in sorted(found["clients"].items())
    ]
    columns = ["client", "state", "examples", "seen", "sent", "received"]
    return "\n".join([*head, aligned([columns, *rows])])


def _state(one: dict[str, Any], here: bool) -> str:
    """What a client is, given whether the server is there."""
    if one["refusal"]:
        return "refused"
    if not here:
        return "offline"
    return "late" if one["late"] else "online" if one["online"] else "offline"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
