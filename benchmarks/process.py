"""The driver's side of a benchmark: a script in a process of its own, which works only when asked
(see `turns`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from turns import LIFELINE

HERE = Path(__file__).parent
Answer = dict[str, Any]


class Failed(Exception):
    """It ended, or did another amount of work than it was asked to."""


class Participant:
    """One running script; ``samples`` are the examples it must train on in a round."""

    def __init__(
        self, name: str, command: Sequence[str], samples: int, more: Mapping[str, str] | None = None
    ) -> None:
        self.name, self.samples = name, samples
        self.rounds = 0
        self._said = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 (as long as the process)
        begun = time.perf_counter()
        theirs, ours = os.pipe()
        self._lifeline: int | None = ours
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            start_new_session=True,
            pass_fds=[theirs],
            env={**os.environ, "PYTHONPATH": str(HERE), LIFELINE: str(theirs), **(more or {})},
        )
        os.close(theirs)
        self.first = self._answer(None)
        self.until_warm = time.perf_counter() - begun
        """Seconds from the start of the process to the end of the warm-up."""

    def ask(self, rounds: int) -> Answer:
        """Let it do so many rounds."""
        self.begin(rounds)
        return self.end(rounds)

    def begin(self, rounds: int) -> None:
        """Ask, and do not wait for the answer."""
        assert self._process.stdin is not None
        try:
            print(rounds, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._failed("ended") from None

    def end(self, rounds: int) -> Answer:
        """The answer to what was asked."""
        return self._answer(rounds)

    def _answer(self, rounds: int | None) -> Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failed("ended")
        answer: Answer = json.loads(line)
        expected = self.samples * (answer["rounds"] if rounds is None else rounds)
        if answer["samples"] != expected:
            raise self._failed(f"trained on {answer['samples']:,} examples, not on {expected:,}")
        self.rounds += answer["rounds"]
        return answer

    def _failed(self, what: str) -> Failed:
        self.close()
        self._said.seek(0)
        last = "".join(self._said.readlines()[-15:])
        return Failed(f"{self.name} {what}. The last it said:\n{last}")

    def peak(self) -> int:
        """Bytes: the sum of the largest resident memory of each of its processes; shared pages
        count for each."""
        return sum(_peak(pid) for pid in _tree(self._process.pid))

    def close(self) -> None:
        """End the input, which ends the script; if it does not, end its processes."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


def _tree(root: int) -> list[int]:
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rpartition(")")[2].split()[1]
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
