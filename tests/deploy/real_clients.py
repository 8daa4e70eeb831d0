"""A federation of real processes on loopback, for tests and for the table of faults."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedflat.cli import main

PATIENCE = 300
"""Seconds after which something that is waited for has gone wrong, on the slowest machine."""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def free_port() -> int:
    """A port that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def fedflat(*words: str, at: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """A command that ends."""
    return subprocess.run(
        [sys.executable, "-m", "fedflat", *words],
        cwd=at,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **more,
    )


class Processes:
    """The processes of a federation in a folder; all are ended in the end.

    ``host`` is the server's address, and ``inside`` returns what is put before a command, by name.
    """

    def __init__(
        self,
        at: Path,
        clients: Sequence[str],
        host: str = "127.0.0.1",
        inside: Callable[[str], list[str]] = lambda name: [],
    ) -> None:
        self.at, self.clients, self.host, self.inside = at, list(clients), host, inside
        self.port = free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        words = ["deploy", "init", str(self.folder), "--clients", ",".join(clients)]
        assert main([*words, "--address", f"{host}:{self.port}"]) == 0

    @property
    def folder(self) -> Path:
        """The federation's folder."""
        return self.at / "federation"

    def start(
        self, name: str, *words: str, watched: bool = False, **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a command in the background; its output goes to NAME.log.

        ``watched``: without the process that starts it again.
        """
        own = {"FEDFLAT_WATCHED": "1"} if watched else {}
        with (self.at / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*self.inside(name), sys.executable, "-m", "fedflat", *words],
                cwd=self.at,
                env={**os.environ, **ENVIRONMENT, **own, **environment},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.running[name] = process
        return process

    def join(
        self, name: str, data: str, part: int, *more: str, watched: bool = True, **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a client."""
        words = ("deploy", "join", f"federation/participants/{name}.join", "--data", data)
        own = ("--part", str(part), *more)
        return self.start(name, *words, *own, watched=watched, **environment)

    def join_all(self, data: str, *more: str) -> None:
        """Start all clients, each with its part of the data."""
        for part, name in enumerate(sorted(self.clients)):
            self.join(name, data, part, *more)

    def log(self, name: str) -> str:
        """What a process has printed."""
        path = self.at / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def entries(self) -> list[dict[str, Any]]:
        """The lines of the server's log of the run."""
        found = sorted((self.folder / "runs").glob("*.jsonl"))
        return [json.loads(line) for path in found for line in path.read_text().splitlines()]

    def end(self) -> None:
        """End all processes."""
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


@contextmanager
def processes(at: Path, clients: Sequence[str], **more: Any) -> Iterator[Processes]:
    """A federation whose processes are ended when the block is left; ``more``: see `Processes`."""
    found = Processes(at, clients, **more)
    try:
        yield found
    finally:
        found.end()
