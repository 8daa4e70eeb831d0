"""Which runs a folder stands for: itself, or those that its ``study.json`` names."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fedflat.core.json_schema import damaged
from fedflat.data.files.paths import data_place
from fedflat.errors import RunError
from fedflat.experiments.run_folder.record import read_facts, read_known
from fedflat.experiments.run_folder.schema import STUDY
from fedflat.experiments.run_folder.signed import sign, verified, write_signed
from fedflat.files import Damaged
from fedflat.version import __version__

Plan = dict[str, Any]
_ADVICE = "Name its runs one by one, or start the study anew."


def write_plan(
    folder: Path, runs: list[dict[str, Any]], config: dict[str, Any], target: float | None = None
) -> None:
    """Write down what a study sets out to run, and the score that its methods should reach, if
    there is one."""
    plan = {"fedflat": __version__, "runs": runs, "how": config, "place": data_place()}
    write_signed(
        folder / "study.json", plan if target is None else {**plan, "target": target}, indent=2
    )


def write_target(folder: Path, target: float) -> None:
    """Change the target of the study in a folder; nothing else of it changes."""
    write_signed(folder / "study.json", {**read_plan(folder), "target": target}, indent=2)


def read_target(folder: Path) -> float | None:
    """The target of the study in a folder; None if it has none, or the folder holds a single
    run."""
    return None if is_run(folder) else read_plan(folder).get("target")


def read_plan(folder: Path) -> Plan:
    """What a study set out to run: "runs", each with "folder" and "experiment", "how", fedflat's
    version; "target"."""
    path = folder / "study.json"
    if not os.path.lexists(path):
        raise RunError(
            f"{folder} holds neither a run (run.json) nor a study (study.json). Check the path."
        )
    plan: Plan = read_known(path, STUDY, _ADVICE, partial(_check_all_inside, folder))
    try:
        return verified(plan)
    except Damaged as error:
        raise damaged(path, error, _ADVICE) from None


def _check_all_inside(folder: Path, plan: Plan) -> None:
    for entry in plan["runs"]:
        check_inside(folder, entry["folder"])


def check_inside(folder: Path, name: str) -> None:
    """`Damaged` if a run would not be inside its study, be it by a link."""
    try:
        inside = not Path(name).is_absolute() and (folder / name).resolve().is_relative_to(
            folder.resolve()
        )
    except (OSError, ValueError, RuntimeError):
        inside = False
    if not inside or ".." in Path(name).parts:
        raise Damaged(f"its run {name[:100]!r} is not inside {folder}")


def is_run(folder: Path) -> bool:
    """Whether a run was begun there."""
    return os.path.lexists(folder / "run.json")


def runs_in(folder: Path, say: Callable[[str], object] = lambda text: None) -> list[Path]:
    """The folder itself if it is a run, or the runs of its study that have begun; ``say`` is told
    of the others."""
    if is_run(folder):
        return [folder]
    entries = read_plan(folder)["runs"]
    begun = [entry for entry in entries if is_run(folder / entry["folder"])]
    if len(begun) < len(entries):
        say(f"{len(entries) - len(begun)} of the {len(entries)} runs in {folder} have not begun.")
    found = []
    for entry in begun:
        run = folder / entry["folder"]
        if _is_another(run, entry["experiment"]):
            say(f"{_another(run)} It is left out.")
        else:
            found.append(run)
    return found


def check_planned(run: Path, planned: dict[str, Any]) -> None:
    """An error if the run in a folder is not the one that its study set out to make there."""
    if _is_another(run, planned):
        raise RunError(
            f"{_another(run)} Put back the study's own, or move the folder away to run it anew."
        )


def _is_another(run: Path, planned: dict[str, Any]) -> bool:
    """By its settings; a plugin may have been moved in between, so that the two name it
    differently."""
    try:
        return sign({**read_facts(run)["experiment"], "plugins": None}) != sign(
            {**planned, "plugins": None}
        )
    except RunError:  # for whoever reads it to tell
        return False


def _another(run: Path) -> str:
    return f"{run} holds another run than the one its study names: their settings differ."
