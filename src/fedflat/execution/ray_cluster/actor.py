"""What runs in the processes of a Ray cluster: open the job and the data once, answer requests."""

from __future__ import annotations

import os
import socket
import traceback
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast
from fedflat.errors import FedflatError, SettingError
from fedflat.execution.in_process import run_or_fail
from fedflat.execution.pickling import dumps, loads
from fedflat.execution.ray_cluster.connection import import_ray
from fedflat.execution.worker import open_job, portable
from fedflat.version import __version__


class ClientActor:
    """Answers requests of one run, one at a time. All arguments and results are pickled bytes."""

    def __init__(self) -> None:
        self.last: tuple[int, Broadcast] | None = None
        """The last broadcast and its number."""

    def open(self, code: tuple[str, str], setup: bytes, content: bytes) -> bytes:
        """Open the job and its data; return the name of the node, or the error.

        Args:
            code: Version and digest of the driver's fedflat.
            setup: See `fedflat.execution.worker.open_job`.
            content: The same.
        """
        node = f"{socket.gethostname()} ({import_ray().util.get_node_ip_address()})"
        try:
            _check_code(code)
            self.job, self.fed = open_job(setup, content)
        except (FedflatError, ImportError, OSError) as error:
            why = (
                str(error)
                if isinstance(error, FedflatError)
                else f"{type(error).__name__}: {error}."
            )
            return dumps(
                SettingError(
                    f"The node {node} cannot take part: {why} Plugins, data and fedflat must have "
                    "the same paths and the same content on all nodes."
                )
            )
        except Exception as error:
            error.add_note("".join(traceback.format_exception(error)))
            return dumps(portable(error))
        return dumps((node, os.getpid()))

    def run(self, number: int, broadcast: list[Any], request: bytes) -> bytes:
        """Answer a request.

        Args:
            number: The number of the broadcast; it is fetched and decoded once for all its requests.
            broadcast: The reference to its bytes, in a list, so that Ray does not fetch it itself.
            request: Client, state and id of the request.
        """
        if self.last is None or self.last[0] != number:
            self.last = number, loads(import_ray().get(broadcast[0]))
        client, state, id = loads(request)
        outcome = run_or_fail(self.job, Request(client, self.last[1], state, id), self.fed.data)
        if isinstance(outcome, ClientFailure):
            error = outcome.error
            assert error is not None
            error.add_note("".join(traceback.format_exception(error)))
            return dumps(portable(error))
        return dumps(outcome)


def _check_code(code: tuple[str, str]) -> None:
    version, digest = code
    if version != __version__:
        raise SettingError(f"it has fedflat {__version__}, the run was started with {version}.")
    if digest != code_digest():
        raise SettingError(
            f"its fedflat {version} has other source files than the one that started the run."
        )


@cache
def code_digest() -> str:
    """The digest of fedflat's source files on this machine."""
    root = Path(__file__).parents[2]
    total = sha256()
    for path in sorted(root.rglob("*.py")):
        total.update(str(path.relative_to(root)).encode())
        total.update(sha256(path.read_bytes()).digest())
    return total.hexdigest()
