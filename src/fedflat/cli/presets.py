"""``fedflat presets``, and what ``fedflat run --preset`` takes from one."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

from fedflat.cli.preset_pages import explain, listing, overview, paper
from fedflat.errors import MOST_RUNS, SettingError, number
from fedflat.papers.presets import PAPERS, Preset, find, matching
from fedflat.papers.presets.stretch import stretch, unfinished
from fedflat.settings.groups import SETTINGS

if TYPE_CHECKING:
    from fedflat.experiments.results.results import Result


def carry_out(args: Namespace) -> int:
    """All papers in groups, one of them, the presets that have a word in their name, or the only
    one in detail."""
    if not args.word or args.word in PAPERS:
        print(overview([args.word] if args.word else PAPERS))
        return 0
    found = matching(args.word)
    exact = [preset for preset in found if args.word in (preset.name, preset.column)] or found
    print(explain(exact[0]) if len(exact) == 1 else listing(found))
    return 0


def beside(
    preset: Preset, results: Sequence[Result], typed: Mapping[str, Any], stretched: bool
) -> str:
    """This run's number and the paper's, and what was not as in the paper."""
    judged = results[0].headline
    if any(result.diverged for result in results):
        here = "X (diverged)"
    elif preset.measure == "personal":
        here = f"{judged.said(mean(result.best('personal') for result in results))} as its best personal {judged.label}"
    else:
        score = f"{preset.measure}.{judged.name}" if preset.measure.startswith("tests.") else None
        here = judged.said(mean(result.final(score) for result in results))
    said = preset.arguments()
    other = [
        name.replace("_", " ")
        for name, value in typed.items()
        if name not in said or said[name] != value
    ]
    changed = f"; changed here: {', '.join(other)}" if other else ""
    changed += " (schedules stretched)" if stretched and other else ""
    return f"{preset.name}: {here}; {paper(preset)}{changed}."


def chosen(args: Namespace) -> Preset | None:
    """The preset of a command, if it names one."""
    name = getattr(args, "preset", None)
    if name is None:
        return None
    preset = find(name)
    if args.method is not None:
        raise SettingError(
            f"--preset {name} says the method already ({preset.method}), found {args.method!r} too. Leave out one "
            "of the two; other options may stand beside --preset."
        )
    return preset


def seeds_of(args: Namespace, preset: Preset | None) -> Sequence[int]:
    """The seeds of a command: those typed, or the preset's own."""
    own = preset.seeds if preset else ()
    if args.seeds is None:
        return [args.seed if args.seed is not None else own[0] if own else 0]
    number("run", "seeds", args.seeds, low=1, high=MOST_RUNS, whole=True)
    if own and args.seeds > len(own):
        raise SettingError(
            f"--seeds {args.seeds}: the preset has the {len(own)} seeds of its authors, {', '.join(map(str, own))}. "
            f"Ask for at most {len(own)}, or for any one with --seed."
        )
    return own[: args.seeds] if own else range(args.seeds)


def settings_of(preset: Preset | None, typed: Mapping[str, Any], stretched: bool) -> dict[str, Any]:
    """The settings of a run, and the method if a preset says it: what was typed in place of what
    the preset says."""
    if preset is None:
        if stretched:
            raise SettingError(
                "--stretch fits a preset to other rounds, and none was named. Add --preset NAME."
            )
        return {
            one.name: one.about.typed for one in SETTINGS if one.about.typed is not None
        } | dict(typed)
    rounds = typed.get("rounds", preset.rounds)
    settings = (
        {**stretch(preset.arguments(), rounds), **typed} if stretched else preset.arguments(**typed)
    )
    return {name: value for name, value in settings.items() if name != "seed"}


def too_short(settings: Mapping[str, Any], preset: Preset | None) -> str:
    """What a run leaves unfinished, as a sentence, or nothing."""
    late = unfinished(settings)
    if not late:
        return ""
    what = f"{', '.join(late)}: not finished after {settings['rounds']:,} rounds."
    return what + (
        " --stretch gives all that is counted in rounds its share of them." if preset else ""
    )
