"""``fedflat presets``, and what ``fedflat run --preset`` takes from one."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from statistics import mean
from textwrap import fill
from typing import TYPE_CHECKING, Any

from fedflat.errors import MOST_RUNS, SettingError, number
from fedflat.presets import Preset, find, matching
from fedflat.presets.stretch import stretch, unfinished

if TYPE_CHECKING:
    from fedflat.runs.results import Result


def carry_out(asked: Namespace) -> int:
    """List those that have a word in their name, or explain the only one."""
    found = matching(asked.word or "")
    exact = [preset for preset in found if preset.name == asked.word] or found
    print(_explain(exact[0]) if len(exact) == 1 else _listing(found))
    return 0


def _listing(found: Sequence[Preset]) -> str:
    groups: dict[str, list[Preset]] = {}
    for preset in found:
        groups.setdefault(_where(preset), []).append(preset)
    width = max(len(preset.name) for preset in found)
    lines = []
    for where, group in groups.items():
        lines += [where, *(_line(preset, width) for preset in group), ""]
    return "\n".join([*lines, *FOOT])


FOOT = (
    "The number is the paper's accuracy in %, X where it does not converge; * also goes by its column's name alone.",
    "`fedflat presets NAME` tells more; `fedflat run --preset NAME` runs it, with any option in place of the preset's.",
)


def _where(preset: Preset) -> str:
    clients = preset.settings["clients_per_round"]
    return f"{_paper(preset)}: {preset.on}, {preset.model}, {clients} clients a round, {preset.rounds:,} rounds"


def _line(preset: Preset, width: int) -> str:
    mark = "*" if preset.column else " "
    return f"{mark} {preset.name:<{width}}  {preset.figure:>13}  {preset.table:<10}  {preset.method}"


def _paper(preset: Preset) -> str:
    return preset.name.partition("/")[0]


def _explain(preset: Preset) -> str:
    said = {name: value for name, value in preset.arguments().items() if name != "seed"}
    said = said | {"seeds": ", ".join(map(str, preset.seeds)) or "not named"}
    lines = [preset.name + (f", or {preset.column}" if preset.column else ""), ""]
    lines += [f"  {name.replace('_', ' '):<18}{value}" for name, value in said.items()]
    lines += ["", f"{paper(preset)[0].upper()}{paper(preset)[1:]}."]
    return "\n".join([*lines, *([fill(preset.note, 110)] if preset.note else [])])


def paper(preset: Preset) -> str:
    """What the paper reports, as part of a sentence."""
    when = f"after {preset.rounds:,} rounds ({preset.table})"
    if preset.reported is None:
        return f"the paper reports no convergence {when}"
    what = " as its best personal accuracy" if preset.measure == "personal" else ""
    return f"the paper reports {preset.figure}{what} {when}"


def beside(preset: Preset, results: Sequence[Result], typed: Mapping[str, Any], stretched: bool) -> str:
    """This run's number and the paper's, and what was not as in the paper."""
    if any(result.diverged for result in results):
        here = "X (diverged)"
    elif preset.measure == "personal":
        here = f"{100 * mean(result.best('personal') for result in results):.2f} as its best personal accuracy"
    else:
        here = f"{100 * mean(result.final() for result in results):.2f}"
    said = preset.arguments()
    other = [name.replace("_", " ") for name, value in typed.items() if name not in said or said[name] != value]
    changed = f"; changed here: {', '.join(other)}" if other else ""
    changed += " (schedules stretched)" if stretched and other else ""
    return f"{preset.name}: {here}; {paper(preset)}{changed}."


def chosen(asked: Namespace) -> Preset | None:
    """The preset of a command, if it names one."""
    name = getattr(asked, "preset", None)
    if name is None:
        return None
    preset = find(name)
    if asked.method is not None:
        raise SettingError(
            f"--preset {name} says the method already ({preset.method}), found {asked.method!r} too. Leave out one "
            "of the two; other options may stand beside --preset."
        )
    return preset


def seeds_of(asked: Namespace, preset: Preset | None) -> Sequence[int]:
    """The seeds of a command: those typed, or the preset's own."""
    own = preset.seeds if preset else ()
    if asked.seeds is None:
        return [asked.seed if asked.seed is not None else own[0] if own else 0]
    number("run", "seeds", asked.seeds, low=1, high=MOST_RUNS, whole=True)
    if own and asked.seeds > len(own):
        raise SettingError(
            f"--seeds {asked.seeds}: the preset has the {len(own)} seeds of its authors, {', '.join(map(str, own))}. "
            f"Ask for at most {len(own)}, or for any one with --seed."
        )
    return own[: asked.seeds] if own else range(asked.seeds)


def settings_of(preset: Preset | None, typed: Mapping[str, Any], stretched: bool) -> dict[str, Any]:
    """The settings of a run, and the method if a preset says it: what was typed in place of what the preset says."""
    if preset is None:
        if stretched:
            raise SettingError("--stretch fits a preset to other rounds, and none was named. Add --preset NAME.")
        return {"on": "digits(lda(0))", "rounds": 500, **typed}
    rounds = typed.get("rounds", preset.rounds)
    settings = {**stretch(preset.arguments(), rounds), **typed} if stretched else preset.arguments(**typed)
    return {name: value for name, value in settings.items() if name != "seed"}


def too_short(settings: Mapping[str, Any], preset: Preset | None) -> str:
    """What a run leaves unfinished, as a sentence, or nothing."""
    late = unfinished(settings)
    if not late:
        return ""
    what = f"{', '.join(late)}: not finished after {settings['rounds']:,} rounds."
    return what + (" --stretch gives all that is counted in rounds its share of them." if preset else "")
