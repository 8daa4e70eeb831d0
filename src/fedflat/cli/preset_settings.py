"""The settings that ``fedflat run`` takes from a preset, and the paper's number beside the
result."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

from fedflat.cli.preset_listing import paper
from fedflat.errors import MOST_RUNS, SettingError, number
from fedflat.papers.presets import Preset, find
from fedflat.papers.presets.stretch import stretch, unfinished
from fedflat.settings.groups import SETTINGS

if TYPE_CHECKING:
    from fedflat.experiments.results.results import Result


def beside(
    preset: Preset, results: Sequence[Result], typed: Mapping[str, Any], stretched: bool
) -> str:
    """The number of this run and the paper's, and the settings that differ."""
    headline = results[0].headline
    if any(result.diverged for result in results):
        here = "X (diverged)"
    elif preset.measure == "personal":
        best = headline.format(mean(result.best("personal") for result in results))
        here = f"{best} as its best personal {headline.label}"
    else:
        score = f"{preset.measure}.{headline.name}" if preset.measure.startswith("tests.") else None
        here = headline.format(mean(result.final(score) for result in results))
    arguments = preset.arguments()
    other = [
        name.replace("_", " ")
        for name, value in typed.items()
        if name not in arguments or arguments[name] != value
    ]
    changed = f"; changed here: {', '.join(other)}" if other else ""
    changed += " (schedules stretched)" if stretched and other else ""
    return f"{preset.name}: {here}; {paper(preset)}{changed}."


def chosen(args: Namespace) -> Preset | None:
    """The preset that the command names, if any."""
    name = getattr(args, "preset", None)
    if name is None:
        return None
    preset = find(name)
    if args.method is not None:
        raise SettingError(
            f"--preset {name} has a method already ({preset.method}), found {args.method!r} too. "
            "Remove one of them. Other options can be combined with --preset."
        )
    return preset


def seeds_of(args: Namespace, preset: Preset | None) -> Sequence[int]:
    """The seeds that the command names, or those of the preset."""
    own = preset.seeds if preset else ()
    if args.seeds is None:
        return [args.seed if args.seed is not None else own[0] if own else 0]
    number("run", "seeds", args.seeds, low=1, high=MOST_RUNS, whole=True)
    if own and args.seeds > len(own):
        raise SettingError(
            f"--seeds {args.seeds}: the preset has {len(own)} seeds, those of the authors: "
            f"{', '.join(map(str, own))}. Use at most {len(own)}, or any single one with --seed."
        )
    return own[: args.seeds] if own else range(args.seeds)


def settings_of(preset: Preset | None, typed: Mapping[str, Any], stretched: bool) -> dict[str, Any]:
    """The settings of a run, and the method of the preset if there is one; typed settings replace
    the preset's."""
    if preset is None:
        if stretched:
            raise SettingError(
                "--stretch scales the schedules of a preset, and there is none. Add --preset NAME."
            )
        return {
            one.name: one.about.cli_default for one in SETTINGS if one.about.cli_default is not None
        } | dict(typed)
    rounds = typed.get("rounds", preset.rounds)
    settings = (
        {**stretch(preset.arguments(), rounds), **typed} if stretched else preset.arguments(**typed)
    )
    return {name: value for name, value in settings.items() if name != "seed"}


def too_short(settings: Mapping[str, Any], preset: Preset | None) -> str:
    """The schedules that do not finish within the run, as a sentence; empty if all do."""
    late = unfinished(settings)
    if not late:
        return ""
    what = f"{', '.join(late)}: not finished after {settings['rounds']:,} rounds."
    return what + (" --stretch scales everything that is counted in rounds." if preset else "")
