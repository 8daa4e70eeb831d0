"""Damaged run folders, drawn by a seed, given to every reader: the right numbers, or one sentence.

ground = Ground(scratch)
for trial in folders(seed=0, count=2000):
    assert ground.check(trial) in VERDICTS
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.damaged_files import make_runs
from experiments.small import final, timeless
from fedflat.experiments.run_folder.record import read_rows
from fedflat.experiments.run_folder.study_file import runs_in
from fedflat.report import collect
from fedflat.report.live_server import News
from hostile.damages import damage
from hostile.limits import CommandOutput, carried_out, limited

OTHER = {"done-0": "done-1", "cut-0": "cut-1", "done-1": "done-0", "study": "exchanged"}
"""The folders that are damaged, and those from which things come that do not belong there."""
ENDED = {"cut-0": "done-0"}
"""What a folder comes to by resume, if it had not ended."""
VERDICTS = ("accepted", "healed", "refused")
"""No message; something was skipped or repeated, with a message; there was nothing to be
done."""
ANALYSE = ("--curvature", "-k", "0", "--examples", "50", "--quiet")


@dataclass(frozen=True)
class Trial:
    """A folder, and what its damage is drawn by."""

    name: str
    seed: int


def folders(seed: int, count: int) -> Iterator[Trial]:
    """``count`` trials."""
    rng = random.Random(seed)
    for _ in range(count):
        yield Trial(rng.choice(list(OTHER)), rng.randrange(2**32))


@dataclass(frozen=True)
class Whole:
    """What readers say of a folder that is not damaged."""

    shown: set[str]
    missing: list[str]
    """What was not measured."""
    resumed: str
    analysed: dict[int | None, list[str]]
    """By the round of the checkpoint whose model is used; None: that of the end."""


class Ground:
    """Whole folders, and one place where copies of them are damaged, beside a good run and
    something precious."""

    def __init__(self, scratch: Path) -> None:
        self.made, self.runs, self.outside = (
            scratch / name for name in ("made", "runs", "outside")
        )
        self.made.mkdir()
        make_runs(self.made)
        shutil.copytree(self.made / "study", self.made / "exchanged")
        first, second = sorted((self.made / "exchanged").glob("*/seed-0"))
        for here, there in (
            (first, self.made / "spare"),
            (second, first),
            (self.made / "spare", second),
        ):
            here.rename(there)
        shutil.copytree(self.made / "done-1", self.runs / "good")
        self.bad = self.runs / "bad"
        carried_out("analyse", str(self.made / "done-0"), *ANALYSE)
        self.whole = {name: self._whole(name) for name in OTHER}

    def lay_out(self, name: str) -> None:
        """A fresh copy at the one place where all trials happen, and a fresh victim."""
        for folder in (self.bad, self.outside):
            if folder.is_dir():
                for inner in folder.rglob("*"):
                    if not inner.is_symlink():
                        inner.chmod(0o700)
                shutil.rmtree(folder)
        shutil.copytree(self.made / name, self.bad)
        self.outside.mkdir()
        (self.outside / "victim").write_text("precious")

    def _whole(self, name: str) -> Whole:
        self.lay_out(name)
        page = collect([self.bad], target=0.0)
        analysed = {}
        for path in sorted(self.bad.glob("checkpoint/round-*.json"), reverse=True):
            output = self._registered("analyse", *ANALYSE)
            analysed[_status(output)] = _lines(output.out)
            path.unlink()
        if not analysed:
            analysed[None] = _lines(self._registered("analyse", *ANALYSE).out)
        self.lay_out(name)
        output = self._registered("resume", "--quiet")
        assert output.status == 0, output
        return Whole(_shown(page), page["missing"], _numbers(output.out), analysed)

    def _registered(self, command: str, *words: str) -> CommandOutput:
        return carried_out(command, str(self.bad), *words, where=self.runs)

    def check(self, trial: Trial) -> str:
        """Damage a copy and have it read: the worst of `VERDICTS`, or an AssertionError."""
        rng = random.Random(trial.seed)
        self.lay_out(trial.name)
        messages = damage(rng, self.bad, self.made / OTHER[trial.name], self.outside)
        claim = (
            "nothing"
            if messages.startswith("forged")
            else "about"
            if self._other_how(trial.name)
            else "exactly"
        )
        before = self._around()
        try:
            verdicts = [self._report(trial.name, claim)]
            self._live()
            if rng.random() < 0.5:
                verdicts += [self._analyse(trial.name, claim), self._resume(trial.name, claim)]
            else:
                resumed = self._resume(trial.name, claim)
                ended = trial.name if resumed == "refused" else ENDED.get(trial.name, trial.name)
                verdicts += [resumed, self._analyse(ended, claim)]
            assert self._around() == before, "something was changed outside of the folder"
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise AssertionError(f"{trial}: {messages}: {type(error).__name__}: {error}") from error
        return max(verdicts, key=VERDICTS.index)

    def _around(self) -> Any:
        """All that is not to be changed."""
        # A run that is elsewhere, behind a link, is written to as any other.
        outside = {
            name: content
            for name, content in _contents(self.outside).items()
            if not name.startswith("folder")
        }
        return outside, _contents(self.runs / "good"), sorted(os.listdir(self.runs))

    def _other_how(self, name: str) -> bool:
        """Whether the damage changed where the computing is done, which anybody may do."""
        for path in (self.made / name).rglob("*.json"):
            if path.name in ("run.json", "study.json"):
                try:
                    now = json.loads(_read(self.bad / path.relative_to(self.made / name)) or b"{}")
                    if now["how"] != json.loads(path.read_bytes())["how"]:
                        return True
                except (ValueError, TypeError, LookupError, RecursionError):
                    continue
        return False

    def _report(self, name: str, claim: str) -> str:
        """Write the page, and look at what it shows."""
        output = self._registered("report")
        with limited():
            found = collect([self.bad], target=0.0)
        _foreseen(found)
        if output.status == 0:
            assert all(one in output.err for one in found["problems"]), (
                f"report does not tell all: {output}"
            )
        if claim == "exactly" and not self._shorter(name):
            shown, whole = _shown(found), self.whole[name].shown
            messages = found["problems"] or found["missing"] != self.whole[name].missing
            assert shown <= whole, (
                f"report: other numbers: {sorted(shown - whole)} for {sorted(whole - shown)}"
            )
            assert shown == whole or messages, f"report: silently without {sorted(whole - shown)}"
        return "refused" if output.status == 2 else "healed" if found["problems"] else "accepted"

    def _shorter(self, name: str) -> bool:
        """Whether it looks like a run that goes on and has not come as far."""
        if name not in ENDED:
            return False
        try:
            now = {log: repr(read_rows(self.bad, log)) for log in ("metrics", "recorded")}
        except Exception:
            return False
        return all(
            repr(read_rows(self.made / name, log)).startswith(text[:-1])
            for log, text in now.items()
        )

    def _live(self) -> None:
        """Collect the page of both runs: the good one is shown."""
        with limited():
            found = json.loads(News(self.runs).now("/data.json")[1])
        _foreseen(found)
        assert str(self.runs / "good") in [run["folder"] for run in found["runs"]], (
            "the live page lacks the good run"
        )

    def _analyse(self, name: str, claim: str) -> str:
        output = self._registered("analyse", *ANALYSE)
        if output.status == 0 and claim == "exactly":
            found, expected = _lines(output.out), self.whole[name].analysed[_status(output)]
            assert found == expected or (output.err and set(found) < set(expected)), (
                f"analyse: {output} for {expected}"
            )
        return "refused" if output.status == 2 else "accepted"

    def _resume(self, name: str, claim: str) -> str:
        output = self._registered(
            "resume", "--quiet", *(("--until", "1") if claim == "nothing" else ())
        )
        if output.status == 0 and claim != "nothing":
            ended = self.made / ENDED.get(name, name)
            for run in runs_in(ended):
                self._same(self.bad / run.relative_to(ended), run, claim)
            if claim == "exactly":
                assert _numbers(output.out) == self.whole[name].resumed, f"resume: {output}"
        return "refused" if output.status == 2 else "healed" if output.err else "accepted"

    def _same(self, run: Path, whole: Path, claim: str) -> None:
        if claim == "about":
            losses = [[row["loss"] for row in read_rows(folder)] for folder in (run, whole)]
            assert all(math.isclose(*pair, rel_tol=1e-4) for pair in zip(*losses, strict=True)), (
                f"resume: {losses}"
            )
            return
        assert final(whole).items() <= final(run).items(), f"resume: other models in {run}"
        for log in ("metrics", "recorded"):
            found, expected = (repr(timeless(read_rows(folder, log))) for folder in (run, whole))
            assert found == expected, (
                f"resume: other numbers in {run / log}: {found} for {expected}"
            )


def _contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): _read(path) for path in sorted(folder.rglob("*"))}


def _read(path: Path) -> bytes | None:
    """A file of a size that can be."""
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size < 10**6 else None
    except OSError:  # a loop of links, or not for us to read
        return None


def _foreseen(found: dict[str, Any]) -> None:
    """What keeps a run off the page is a sentence of ours, not an error that came from
    somewhere."""
    assert not any("cannot be shown" in output for output in found["problems"]), (
        f"an odd sentence: {found['problems']}"
    )


def _shown(found: dict[str, Any]) -> set[str]:
    """All that a page says of its runs, piece by piece, whatever else is on it."""
    kinds = ("runs", "curvature", "surface", "partition", "heatmaps")
    without: dict[str, tuple[str, ...]] = dict.fromkeys(kinds, ("method", "run", "folder"))
    of_curvature = ("lambda_1", "scaled", "trace")
    # The look of a curve depends on how many curves there are.
    without["methods"] = (
        "runs",
        "look",
        *of_curvature,
        *(f"{name}_spread" for name in of_curvature),
    )
    return {
        json.dumps([kind, {name: value for name, value in one.items() if name not in names}])
        for kind, names in without.items()
        for one in found[kind]
    }


def _status(message: CommandOutput) -> int | None:
    used = re.search(r"its model of round (\d+) is used", message.err)
    return int(used[1]) if used else None


def _lines(out: str) -> list[str]:
    """What analyse found, whatever the names of folders, and whether or not it was known."""
    return sorted(
        re.sub(r"^\S+/|/seed-0", "", line).replace(" (computed before)", "")
        for line in out.splitlines()
    )


def _numbers(out: str) -> str:
    """A table without its last column, the speed."""
    return re.sub(r"\s+\S+$", "", out, flags=re.MULTILINE)
