"""The report page while runs go on, for browsers on this machine only.

Two addresses are answered, ``/`` with the page and ``/data.json`` with what it shows, and only
under a name of this machine: a page from elsewhere that points its own name here (DNS rebinding)
gets nothing. The runs are read again only if a file of theirs has changed; who says what it has
(``If-None-Match``) gets "not modified" and no more.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from hashlib import blake2b
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any

from fedflat.errors import RunError, SettingError, number
from fedflat.report import collect, document

DEPTH = 5
"""How deep below a folder runs are looked for; a run of a study in runs/ is three folders below
it."""

Stamp = tuple[str, int, int]
"""A file, when it was changed, and how long it is."""


def look(folder: Path) -> tuple[list[Path], list[Stamp]]:
    """The runs and studies in a folder, or the folder itself if it is one; and the stamps of all
    that belong to them.

    Equal stamps mean that nothing has happened, and taking them reads no file.
    """
    found: list[Path] = []
    stamps: list[Stamp] = []
    for root, below, files in os.walk(folder):
        here = Path(root)
        below[:] = sorted(name for name in below if not name.startswith("."))
        if "run.json" in files or "study.json" in files:
            if not any(here.is_relative_to(outer) for outer in found):
                found.append(here)
            stamps += _stamps(here)
        if "run.json" in files or len(here.relative_to(folder).parts) >= DEPTH:
            below.clear()
    return found, stamps


def _stamps(folder: Path) -> list[Stamp]:
    names = ("run.json", "study.json", "metrics.jsonl", "recorded.jsonl")
    paths = [*(folder / name for name in names), *sorted((folder / "analysis").glob("*.json"))]
    stamps = []
    for path in paths:
        try:
            seen = path.stat()
        except OSError:  # not there, or gone since it was listed
            continue
        stamps.append((str(path), seen.st_mtime_ns, seen.st_size))
    return stamps


PORT = 8765
NAMES = ("localhost", "127.0.0.1", "[::1]")
"""What this machine may be called by those who ask."""
_LOCAL = re.compile(
    f"(?:{'|'.join(map(re.escape, NAMES))})(?::[0-9]{{1,5}})?", re.IGNORECASE | re.ASCII
)


class News:
    """The page of all runs in a folder, made again whenever there is something new."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._stamps: list[Stamp] | None = None
        self._answers: dict[str, bytes] = {}
        self._tag = ""

    def now(self, path: str) -> tuple[str, bytes]:
        """The content at ``path``, and a tag that changes with it."""
        with self._lock:
            found, stamps = look(self.folder)
            if stamps != self._stamps:
                collected = {**collect(found), "live": True}
                self._answers = {
                    "/": document(collected, live=True).encode(),
                    "/data.json": json.dumps(
                        collected, allow_nan=False, separators=(",", ":")
                    ).encode(),
                }
                self._tag = blake2b(repr(stamps).encode(), digest_size=16).hexdigest()
                self._stamps = stamps
            return f'"{self._tag}"', self._answers[path]


class LiveServer(ThreadingHTTPServer):
    """Serves the runs in ``folder``, those to come too, on the loopback; port 0 takes any free
    one."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = PORT) -> None:
        number("dashboard", "port", port, low=0, high=65535, whole=True)
        if folder.exists() and not folder.is_dir():
            raise RunError(
                f"{folder} is a file. Name the folder of a run or a study, or one that holds some."
            )
        self.news = News(folder)
        try:
            super().__init__(("127.0.0.1", port), PageHandler)
        except OSError as error:
            raise SettingError(
                f"port {port} of this machine cannot be opened: {error.strerror}. Name another "
                "one with --port, or "
                "--port 0 for any that is free."
            ) from error

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def server_bind(self) -> None:
        """Take the port, and ask no name server what this machine is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has left is no error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class PageHandler(BaseHTTPRequestHandler):
    server: LiveServer
    timeout = 30
    server_version, sys_version = "fedflat", ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer with the headers of a GET request."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not local(hosts[0]):
            self.send_error(
                HTTPStatus.FORBIDDEN, "Only for this machine", "Ask for localhost or 127.0.0.1."
            )
            return
        if path not in ("/", "/data.json"):
            self.send_error(HTTPStatus.NOT_FOUND, "Not here", "There are only / and /data.json.")
            return
        tag, body = self.server.news.now(path)
        known = self.headers.get("If-None-Match") == tag
        self.send_response(HTTPStatus.NOT_MODIFIED if known else HTTPStatus.OK)
        self.send_header("ETag", tag)
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Frame-Options", "DENY")
        if not known:
            self.send_header(
                "Content-Type",
                f"{'text/html' if path == '/' else 'application/json'}; charset=utf-8",
            )
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body and not known:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a page asks every few seconds."""


def local(host: str) -> bool:
    """Whether a Host header is a name of this machine, with whatever port, and nothing else.

    >>> [local(host) for host in ("localhost:8765", "127.0.0.1", "[::1]:80")]
    [True, True, True]
    >>> local("evil.example"), local("[::1].evil")
    (False, False)
    """
    return _LOCAL.fullmatch(host) is not None
