"""Processes of Python that need not import PyTorch: forked from one that has imported fedflat and
has started no thread.

``WarmPython([sys.executable, "script.py", "--option"], stdout=PIPE)`` is a `subprocess.Popen` of a
real process: a child of the caller, with streams, arguments, folder, environment, session and signal
handlers of its own. In `warm_starts`, the workers of the caller start so too. Only the start
differs: what Python and PyTorch read from the environment when they start is that of the first
process. Tests of the start itself use `subprocess`.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from multiprocessing import util
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

IMPORTED = ("fedflat.cli.training", "fedflat.experiments.train", "fedflat.papers.presets.preset")
"""What the first process imports besides all that is registered."""
FEDFLAT = str(Path(sys.executable).with_name("fedflat"))
SET_CHILD_SUBREAPER = 36
"""Of prctl: a process becomes the parent of the orphans among its descendants."""
ABOVE = 1000
"""A number above those of the descriptors that a process passes on."""
cold_popen, cold_spawn = subprocess.Popen, util.spawnv_passfds
_one_at_a_time = threading.Lock()


class Request(NamedTuple):
    """A process to fork."""

    words: Sequence[str]
    """What would follow ``python`` on the command line: a script, ``-m`` or ``-c``."""
    folder: str
    environment: dict[str, str]
    start_new_session: bool
    ignored: Sequence[int]
    """Signals that it ignores, as who starts it."""
    blocked: Sequence[int]
    descriptors: Sequence[int]
    """The numbers of its descriptors, which are sent with the request in this order."""


class WarmPython(subprocess.Popen[Any]):
    """`subprocess.Popen`; forked if the command is this Python, or ``fedflat``."""

    def _execute_child(  # called by Popen with its pipes
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any,
        env: Any, startupinfo: Any, creationflags: Any, shell: Any, p2cread: int, p2cwrite: int,
        c2pread: int, c2pwrite: int, errread: int, errwrite: int, restore_signals: Any, gid: Any,
        gids: Any, uid: Any, umask: Any, start_new_session: bool, process_group: Any,
    ) -> None:  # fmt: skip
        program, *words = [args] if isinstance(args, str) else map(os.fspath, args)
        if program == FEDFLAT:
            words.insert(0, FEDFLAT)
        elif program != sys.executable:
            super()._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
                creationflags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
                restore_signals, gid, gids, uid, umask, start_new_session, process_group,
            )  # fmt: skip
            return
        given = [
            number if fd == -1 else fd for number, fd in enumerate((p2cread, c2pwrite, errwrite))
        ]
        request = _request(words, cwd, env, start_new_session, (0, 1, 2, *pass_fds))
        self.pid = _fork(request, [*given, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def _warm_spawn(path: Any, args: Sequence[str], passed: Sequence[int]) -> int:
    """`multiprocessing.util.spawnv_passfds`, by which the method "spawn" starts a process."""
    if "--multiprocessing-fork" not in args:  # another helper of multiprocessing
        return cold_spawn(path, args, passed)
    words = args[args.index("-c") :]
    used = (0, 1, 2, *passed)
    return _fork(_request(words, None, None, False, used), used)


def _request(
    words: Sequence[str], folder: Any, environment: Any, new_session: bool, used: Sequence[int]
) -> Request:
    where = os.path.abspath(folder or ".")
    variables = dict(os.environ if environment is None else environment)
    ignored = [n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    return Request(words, where, variables, new_session, ignored, list(blocked), used)


@contextmanager
def warm_starts() -> Iterator[None]:
    """In here, `subprocess` and `multiprocessing` fork processes of Python."""
    subprocess.Popen, util.spawnv_passfds = WarmPython, _warm_spawn  # type: ignore[misc,assignment]
    try:
        yield
    finally:
        subprocess.Popen, util.spawnv_passfds = cold_popen, cold_spawn  # type: ignore[misc]


def _fork(request: Request, descriptors: Sequence[int]) -> int:
    """Have the first process, a child of this one, fork another, which becomes one too; its id."""
    prctl = ctypes.CDLL(None).prctl
    with _one_at_a_time:
        assert prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        try:
            channel = _first_process()
            socket.send_fds(channel, [b"\0"], descriptors)
            channel.sendall(json.dumps(request).encode() + b"\n")
            return int(channel.recv(32))
        finally:
            prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@cache
def _first_process() -> socket.socket:
    """Start it, and end it with this one."""
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, str(number)]
        process = cold_popen(command, env=environment, pass_fds=[number])

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def serve(channel: socket.socket) -> list[str]:
    """Fork a process for each request until there will be no more; return in each of them, with its
    words."""
    stream = channel.makefile("rb")
    while True:
        message, received, _, _ = socket.recv_fds(channel, 1, 100)
        if not message:
            os._exit(0)
        request = Request(*json.loads(stream.readline()))
        read, write = os.pipe()
        between = os.fork()
        if between == 0:
            if process := os.fork():
                os.write(write, str(process).encode())
                os._exit(0)  # which makes the process an orphan
            stream.close()
            channel.close()
            become(request, received)
            return list(request.words)
        os.waitpid(between, 0)
        channel.send(os.read(read, 32))
        for fd in (read, write, *received):
            os.close(fd)


def become(request: Request, received: Sequence[int]) -> None:
    """Take what belongs to a process from a request."""
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, ABOVE) for fd in received]
    os.closerange(3, ABOVE)
    for fd, number in zip(moved, request.descriptors, strict=True):
        os.dup2(fd, number)
        os.close(fd)
    if request.start_new_session:
        os.setsid()
    for number in request.ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, request.blocked)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]


def run(words: list[str]) -> None:
    """What ``python WORDS`` does."""
    if safe := words[0] == "-P":
        del words[0], sys.path[0]
    if words[0] == "-m":
        sys.argv = words[1:]
        if not safe:
            sys.path[0] = os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] in ("-c", "-"):
        code = words.pop(1) if words[0] == "-c" else sys.stdin.read()
        sys.argv, sys.path[0] = words, ""
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), vars(main))
    else:
        sys.argv, sys.path[0] = words, str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


def default_signals() -> None:
    """React to signals as Python does when it starts, whatever who started this one ignores."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is not None and number not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


if __name__ == "__main__":
    from fedflat.registry.builtin_modules import import_all

    for name in IMPORTED:
        import_module(name)
    import_all()
    default_signals()
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
    gc.freeze()
    run(serve(socket.socket(fileno=int(sys.argv[1]))))
