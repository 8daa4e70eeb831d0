"""A connection to a Ray cluster that leaves signals, warnings and other people's clusters alone."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from fedflat.errors import SettingError
from fedflat.execution.interrupt import ALL, Terminated
from fedflat.execution.workers import cores

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "3600",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "has been marked dead",
}
"""Environment of Ray, unless the user has set it: no usage statistics and no hints about settings.
Without the timeout Ray ends this process a minute after the head was lost; we end the run with a
checkpoint before that. The last one keeps the loss of a node, which we log, out of the standard
output."""
PATIENCE = 5.0
"""Seconds in which the port of a head must accept a connection."""


def import_ray() -> Any:
    """Import Ray with our settings."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    return import_module("ray")


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Be connected to a cluster. A connection that the user has opened is used and kept."""
    ray = import_ray()
    if ray.is_initialized():
        yield
        return
    with _same_signals():
        _connect(ray, address)
    try:
        yield
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options |= {"num_cpus": cores(), "include_dashboard": False}
    elif address != "auto":
        _require_head(address)
    try:
        ray.init(address, **options)
    except Exception as error:
        ray.shutdown()  # it may have come half of the way
        why = " ".join(str(error).split()).rstrip(".")
        if "Version mismatch" in why:
            raise SettingError(
                f"ray: the cluster at {address!r} has other versions than this machine ({why}). "
                "Install the same versions of Python and Ray on both."
            ) from None
        if "AuthenticationError" in "".join(traceback.format_exception(error)):
            raise SettingError(
                f"ray: the cluster at {address!r} asks for a token. Set RAY_AUTH_MODE=token and "
                "give this machine the cluster's token, as Ray's page on token authentication "
                "says."
            ) from None
        raise SettingError(
            f"ray: cannot connect to a cluster at {address!r} ({type(error).__name__}: {why}). "
            "Start one with `ray start --head`, or use address='local'."
        ) from None


def head_problem(address: str) -> str | None:
    """Why the head at ``host:port`` does not accept a connection; None if it does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _require_head(address: str) -> None:
    problem = head_problem(address)
    if problem is not None:
        raise SettingError(
            f"ray: no Ray head answers at {address!r} ({problem}). Start it with `ray start "
            f"--head --port {address.rpartition(':')[2]}` on that machine, or correct the address."
        )


@contextmanager
def _same_signals() -> Iterator[None]:
    """Keep our signal handlers: Ray replaces them when it starts."""
    mine = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in ALL if mine}
    try:
        yield
    except SystemExit as stopped:  # by Ray's own handler
        raise Terminated(signal.SIGTERM) from stopped
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
