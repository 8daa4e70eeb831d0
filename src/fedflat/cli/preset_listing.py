"""What ``fedflat list presets`` prints, and the settings that ``fedflat run`` takes from a preset."""

from __future__ import annotations

import inspect
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from shlex import quote
from statistics import mean
from textwrap import fill
from typing import TYPE_CHECKING, Any

from fedflat.errors import MOST_RUNS, SettingError, number
from fedflat.papers.presets import PAPERS, Preset, find, matching, of_paper
from fedflat.papers.presets.preset import FLATNESS, OF_CLIENTS, reference
from fedflat.papers.presets.stretch import stretch, unfinished
from fedflat.papers.presets.table_counts import COUNTS, TableCount
from fedflat.settings.groups import SETTINGS
from fedflat.settings.setting import as_option

if TYPE_CHECKING:
    from fedflat.experiments.results.results import Result


WIDTH = 110
FOOT = (
    "The number is the paper's, an accuracy in % unless the name says otherwise. X: no convergence, -: none is",
    "printed, or the target is not reached. *: the name of the column suffices.",
    "`fedflat list presets NAME` describes one. `fedflat run --preset NAME` runs it; options replace its settings.",
)


def describe(word: str) -> str:
    """A paper, the presets with a word in their names, or the only one of them in detail."""
    if word in PAPERS:
        return overview([word])
    found = matching(word)
    exact = [preset for preset in found if word in (preset.name, preset.column)] or found
    return explain(exact[0]) if len(exact) == 1 else listing(found)


def overview(papers: Sequence[str] = PAPERS) -> str:
    """Each paper and its groups of runs; of a single one also notes about its numbers."""
    lines = []
    for name in papers:
        title, source, _, *about = _paragraphs(name)
        lines += [
            f"{name}: {title}",
            fill(source, WIDTH, initial_indent="  ", subsequent_indent="  "),
        ]
        groups = _grouped(of_paper(name), _group)
        for group in groups.values():
            first, *others = {preset.on: _setting(preset) for preset in reversed(group)}.values()
            lines += [
                f"  {_prefix(group):<36}{len(group):>4} runs  {first}",
                *(f"{'':<49}{one}" for one in others),
            ]
        lines += counts(name, tables=len(papers) == 1)
        lines += ["", *(fill(text, WIDTH) + "\n" for text in about if len(papers) == 1)]
    if len(papers) > 1:
        lines += [total(), ""]
    foot = "`fedflat list presets WORD` lists runs with this word in their names, and the papers' numbers."
    return "\n".join([*lines, foot])


def counts(name: str, *, tables: bool) -> list[str]:
    """How many numbers a paper's tables print, and how many of them can be run; by table or all."""
    own = of_paper(name)
    found = COUNTS.get(name, ())
    lines = []
    if found:
        lines.append("  " + _count_line("its tables", found, own))
        reasons = [f"{one.table}: {one.why}" for one in found if one.left_out(own)]
        if reasons:
            text = f"left out: {'; '.join(reasons)}"
            lines.append(fill(text, WIDTH, initial_indent="  ", subsequent_indent="    "))
    if tables:
        lines += ["    " + _count_line(one.table, [one], own) for one in found]
    return lines


def total() -> str:
    """How many numbers all tables print, and how many of them can be run."""
    sums = [0, 0, 0]
    for name, found in COUNTS.items():
        own = of_paper(name)
        printed, left = sum(one.printed for one in found), sum(one.left_out(own) for one in found)
        sums = [a + b for a, b in zip(sums, (printed, printed - left, left), strict=True)]
    return "all papers: {:,} numbers in tables, {:,} can be run, {:,} left out".format(*sums)


def _count_line(name: str, found: Sequence[TableCount], own: Sequence[Preset]) -> str:
    printed, repeated = sum(one.printed for one in found), sum(one.repeated for one in found)
    left = sum(one.left_out(own) for one in found)
    line = f"{name}: {printed:,} numbers, {printed - left:,} can be run"
    line += f" ({repeated:,} of them in another table too)" if repeated else ""
    return line + (f", {left:,} left out" if left else "")


def listing(found: Sequence[Preset]) -> str:
    width = max(len(preset.name) for preset in found)
    lines = []
    for where, group in _grouped(found, _whole_setting).items():
        lines += [where, *(_line(preset, width) for preset in group), ""]
    return "\n".join([*lines, *FOOT])


def explain(preset: Preset) -> str:
    """One preset: its settings, the paper's number, the command, and notes."""
    arguments = {name: value for name, value in preset.arguments().items() if name != "seed"}
    arguments = arguments | {"seeds": ", ".join(map(str, preset.seeds)) or "not named"}
    reported = paper(preset)
    lines = [preset.name + (f", or {preset.column}" if preset.column else ""), ""]
    lines += [f"  {name.replace('_', ' '):<18}{value}" for name, value in arguments.items()]
    lines += ["", f"{reported[0].upper()}{reported[1:]}."]
    lines += [fill(preset.note, WIDTH)] if preset.note else []
    lines += ["", f"fedflat run --preset {preset.name}", "is the same as", command(preset), ""]
    lines += [
        "About the paper's runs:",
        *(fill(text, WIDTH) for text in _paragraphs(_paper(preset))[3:]),
    ]
    return "\n".join(lines)


def command(preset: Preset) -> str:
    """The command that runs it, with all settings.

    >>> from fedflat.papers.presets import find
    >>> command(find("man/cifar10-iid-fedavg")).splitlines()[0]
    "fedflat run 'fedavg() + all_clients()' \\\\"
    """
    arguments = preset.arguments()
    words = [f"fedflat run {quote(arguments.pop('method'))}"]
    words += [as_option(name, value) for name, value in arguments.items()]
    lines = [words[0]]
    for word in words[1:]:
        if len(lines) == 1 or len(lines[-1]) + len(word) > WIDTH:
            lines.append(f"    {word}")
        else:
            lines[-1] += f" {word}"
    return " \\\n".join(lines)


def paper(preset: Preset) -> str:
    """The paper's number, as part of a sentence."""
    when = f"after {preset.rounds:,} rounds ({preset.table})"
    if preset.not_printed:
        return f"no number is reported ({preset.table})"
    if preset.target is not None:
        return _to_target(preset)
    if preset.at < 1:
        when = f"after {round(preset.at * preset.rounds):,} of {preset.rounds:,} rounds ({preset.table})"
    if preset.reported is None:
        return f"the paper reports no convergence {when}"
    what = " as its best personal accuracy" if preset.measure == "personal" else ""
    what = (
        f" on the test set {test}"
        if (test := preset.measure.removeprefix("tests.")) != preset.measure
        else what
    )
    if preset.measure in FLATNESS:
        what = f" as {FLATNESS[preset.measure].label} on the {preset.where} set"
        if preset.measure in OF_CLIENTS:
            what = f" as {FLATNESS[preset.measure].label}"
    return f"the paper reports {preset.figure}{what} {when}"


def _to_target(preset: Preset) -> str:
    factor, name = reference(preset.target)
    share = "" if factor == 1 else f"{100 * factor:g} % of "
    goal = f"{share}the score of {name}" if name else f"{preset.target:g} %"
    if preset.reported is None:
        what = "that it does not reach" if preset.unreached else "no convergence on the way to"
        return f"the paper reports {what} {goal} ({preset.table})"
    unit = {"rounds": " rounds", "cost": " B", "speedup": " times the speed"}[preset.measure]
    return f"the paper reports {preset.figure}{unit} to reach {goal} ({preset.table})"


def _grouped(found: Sequence[Preset], key: Callable[[Preset], str]) -> dict[str, list[Preset]]:
    groups: dict[str, list[Preset]] = {}
    for preset in found:
        groups.setdefault(key(preset), []).append(preset)
    return groups


def _group(preset: Preset) -> str:
    """The first words of the name, which stand for data and model.

    One word if the data have only their natural clients.
    """
    natural = preset.on.startswith(("landmarks(", "stackoverflow(", "femnist("))
    return "-".join(preset.name.split("-")[: 1 if natural else 2])


def _setting(preset: Preset) -> str:
    return f"{preset.on}, {preset.model}, {preset.rounds:,} rounds"


def _whole_setting(preset: Preset) -> str:
    clients = preset.settings["clients_per_round"]
    return f"{_paper(preset)}: {preset.on}, {preset.model}, {clients} clients per round, {preset.rounds:,} rounds"


def _prefix(group: Sequence[Preset]) -> str:
    """The common prefix of the names of a group, up to a whole word."""
    first, last = min(preset.name for preset in group), max(preset.name for preset in group)
    same = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    return first[:same].rpartition("-")[0] + "-"


def _line(preset: Preset, width: int) -> str:
    mark = "*" if preset.column else " "
    return (
        f"{mark} {preset.name:<{width}}  {preset.figure:>13}  {preset.table:<10}  {preset.method}"
    )


def _paper(preset: Preset) -> str:
    return preset.name.partition("/")[0]


def _paragraphs(name: str) -> list[str]:
    """A paper's title, its source, its names, and notes about its numbers, from the docstring of
    its module."""
    text = inspect.getdoc(import_module(f"fedflat.papers.presets.{name}")) or ""
    return [" ".join(paragraph.replace("``", "").split()) for paragraph in text.split("\n\n")]


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
