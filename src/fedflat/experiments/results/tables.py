"""Results as a table: text for people, CSV for programs, Markdown and LaTeX for papers, HTML for
notebooks."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from fedflat.data.info import VALIDATION
from fedflat.errors import SettingError, nearest
from fedflat.experiments.results.scenario import Scenario
from fedflat.experiments.results.summary import DROP, MAIN, STD, Summary
from fedflat.experiments.results.table_styles import (
    BOLD,
    CHANCE,
    STYLES,
    TableContent,
    best_in_columns,
    format_table,
)
from fedflat.tasks.headline import Headline
from fedflat.text_table import size, span

FORMATS = ("csv", *STYLES)
NOT_IN_PAPERS = ("last", "best", "sent", "simulated", "speed")
"""Columns that a LaTeX table has only if they are asked for."""
CHOSEN = "the evaluation with the best score on the validation set"
TRIED = "tried"
OPTIMISTIC = "Best is optimistic: the test set chose it."
Draw = Callable[[TableContent], str]
NOTHING = (math.nan, math.nan)


@dataclass(frozen=True)
class Column:
    """A column of the table: its name in ``columns``, its head, and its cells."""

    key: str
    head: str
    text: Callable[[Summary], str]
    estimate: Callable[[Summary], tuple[float, float]] | None = None
    """The mean and its spread, if the best of the column can be in bold."""
    higher_is_better: bool = True


def table(
    summaries: Sequence[Summary],
    target: float | None,
    last: int,
    style: str = "text",
    room: int | None = None,
    columns: Sequence[str] | None = None,
    prose: Collection[str] = (),
) -> str:
    """The table of a comparison; ``last`` is over how many of the last rounds scores are averaged.

    Text that is wider than ``room`` characters comes in parts. ``columns`` selects columns by name
    (None: all; in LaTeX, those that papers print). ``prose`` are names of methods that
    are labels; texts of methods are printed as code.

    Methods on different data sets, partitions or tasks, or with different headline scores, have a
    table each, and there is no target for all of them.
    """
    if style == "csv":
        return _csv(summaries)

    def draw(content: TableContent) -> str:
        return format_table(content, style, room)

    def one(group: Sequence[Summary], target: float | None, title: str = "") -> str:
        wanted = _selected(_columns(group, target), columns, style)
        like = TableContent([], title=title, prose=prose)
        return _one(group, wanted, last, draw, like, style != "text")

    groups: dict[tuple[Scenario, Headline, bool], list[Summary]] = {}
    for summary in summaries:
        key = (summary.scenario, summary.headline, summary.by_validation)
        groups.setdefault(key, []).append(summary)
    comment = "% " if style == "latex" else ""
    if len(groups) == 1:
        title = summaries[0].scenario.title if summaries[0].scenario.on else ""
        return one(summaries, target, title)
    if len({scenario for scenario, *_ in groups}) == 1:
        headlines = dict.fromkeys(headline for _, headline, _ in groups)
        note = different_scores(headlines) if len(headlines) > 1 else CHOSEN_APART
        return "\n\n".join([comment + note, *(one(group, None) for group in groups.values())])
    named = (
        f"{'' if comment else scenario.title}\n\n{one(group, None, scenario.title)}".lstrip("\n")
        for (scenario, *_), group in groups.items()
    )
    return "\n\n".join([comment + APART, *named])


def _selected(found: list[Column], wanted: Sequence[str] | None, style: str) -> list[Column]:
    if wanted is None:
        return [one for one in found if style != "latex" or one.key not in NOT_IN_PAPERS]
    known = {one.key: one for one in found}
    for name in wanted:
        if name not in known:
            raise SettingError(
                f"table: there is no column {name!r}.{nearest(name, known)} "
                f"Known: {', '.join(known)}."
            )
    return [known[name] for name in wanted]


APART = "These runs are on different data sets, partitions or tasks. Each has a table; they are not compared."
SETTINGS_TRIED = "Settings tried: in the sweep that the runs of the method belong to."
CHOSEN_APART = "The validation set chose the round of some of these runs. They are not compared with the others."


def different_scores(headlines: Iterable[Headline]) -> str:
    """A sentence about runs with different headline scores."""
    *most, final = (headline.label for headline in headlines)
    return f"These runs have different headline scores ({', '.join(most)} and {final}), and are not compared."


def _columns(summaries: Sequence[Summary], target: float | None) -> list[Column]:
    headline, text = summaries[0].headline, summaries[0].headline.format
    higher = headline.higher_is_better
    tests = _tests(summaries)

    def of_test(name: str) -> Column:
        return Column(
            name,
            headline.head(name),
            lambda s: text(*s.tests.get(name, NOTHING)),
            lambda s: s.tests.get(name, NOTHING),
            higher if name != DROP else False,
        )

    def some(value: Callable[[Summary], float]) -> bool:
        return any(math.isfinite(value(summary)) for summary in summaries)

    found = [
        Column("seeds", "seeds", lambda s: str(s.seeds)),
        Column(headline.name, headline.column, _score, lambda s: (s.score, s.spread), higher),
        Column("last", headline.head("last"), lambda s: text(s.latest)),
        Column("best", headline.head("best"), lambda s: text(s.best)),
        *([_chosen(headline)] if VALIDATION in tests and not summaries[0].by_validation else []),
        *map(of_test, tests),
    ]
    if len({summary.seeds for summary in summaries}) == 1:
        del found[0]
    if some(lambda s: s.personal):
        found.append(
            Column(
                "personal",
                headline.head("personal"),
                lambda s: text(s.personal, s.personal_spread),
                lambda s: (s.personal, s.personal_spread),
                higher,
            )
        )
    if headline.name != "loss":
        found.append(Column("loss", "loss", _loss, lambda s: (s.loss, s.loss_spread), False))
    if some(lambda s: s.epsilon):
        found.append(
            Column(
                "epsilon",
                "epsilon",
                lambda s: f"{s.epsilon:.2f}" if math.isfinite(s.epsilon) else "-",
            )
        )
    if any(summary.tried > 1 for summary in summaries):
        found.append(Column(TRIED, "settings tried", lambda s: str(s.tried)))
    return found + _costs(headline, target, some(lambda s: s.clock))


def _chosen(headline: Headline) -> Column:
    """The score at the evaluation that the validation set chooses."""
    return Column(
        "chosen",
        headline.head("chosen"),
        lambda s: headline.format(s.chosen, s.chosen_spread),
        lambda s: (s.chosen, s.chosen_spread),
        headline.higher_is_better,
    )


def _costs(headline: Headline, target: float | None, timed: bool) -> list[Column]:
    """The cost of a run: up to the target, and in all."""
    found = []
    if target is not None:
        goal = headline.goal(target)
        found = [
            Column(
                "rounds_to_target",
                f"rounds to {goal}",
                lambda s: "-" if s.rounds_to_target is None else f"{s.rounds_to_target:.0f}",
            ),
            Column(
                "sent_to_target",
                f"sent to {goal}",
                lambda s: "-" if s.bytes_to_target is None else size(s.bytes_to_target),
            ),
        ]
        if timed:
            found.append(
                Column(
                    "simulated_to_target",
                    f"simulated to {goal}",
                    lambda s: span(s.clock_to_target),
                )
            )
    found.append(Column("sent", "sent in all", lambda s: size(s.bytes)))
    if timed:
        found.append(Column("simulated", "simulated in all", lambda s: span(s.clock)))
    return [*found, Column("speed", "samples/s", lambda s: f"{s.speed:,.0f}")]


def _tests(summaries: Sequence[Summary], domains: bool = False) -> list[str]:
    """The further test sets; with ``domains``, the domains of all test sets."""
    named = dict.fromkeys(name for summary in summaries for name in summary.tests)
    return [name for name in named if ("/" in name) == domains]


def _score(s: Summary) -> str:
    score = s.headline.format(s.score, s.spread)
    if not s.diverged:
        return score
    return "X (diverged)" if s.diverged == s.seeds else f"{score} ({s.diverged} diverged)"


def _loss(s: Summary) -> str:
    spread = f" ± {s.loss_spread:.4f}" if math.isfinite(s.loss_spread) else ""
    return f"{s.loss:.4f}{spread}"


def _one(
    summaries: Sequence[Summary],
    columns: Sequence[Column],
    last: int,
    draw: Draw,
    like: TableContent,
    marks: bool,
) -> str:
    """The table of methods with one headline score, and those by domain and by class."""
    rows = [
        ["method", *(one.head for one in columns)],
        *([s.method, *(one.text(s) for one in columns)] for s in summaries),
    ]
    bold = best_in_columns(
        [
            (place, [(*one.estimate(s), s.seeds) for s in summaries], one.higher_is_better)
            for place, one in enumerate(columns, 1)
            if one.estimate
        ]
    )
    foot = _foot(summaries, {one.key for one in columns}, last)
    if marks and bold:
        foot += f"\n{BOLD}"
    parts = [draw(replace(like, rows=rows, foot=foot, bold=bold))]
    if domains := _tests(summaries, domains=True):
        parts.append(draw(_by_domain(summaries, domains, like)))
    if any(summary.classes for summary in summaries):
        parts.append(draw(_by_class(summaries, like)))
    return "\n\n".join(parts)


def _foot(summaries: Sequence[Summary], keys: set[str], last: int) -> str:
    """The explanation of the columns."""
    headline, tests = summaries[0].headline, _tests(summaries)
    which = (
        CHOSEN
        if summaries[0].by_validation
        else f"mean of the evaluations in the last {last} rounds"
        if last > 1
        else "the last evaluation"
    )
    what = f"{headline.title} and loss" if "loss" in keys - {headline.name} else headline.title
    foot = f"{what} on {summaries[0].scenario.tested_on}: {which}{_over_seeds(summaries)}."
    if keys & {"last", "best"}:
        foot += f" Last, best: of all evaluations. {OPTIMISTIC}"
    if not headline.higher_is_better:
        foot += f" Less {headline.label} is better."
    if "chosen" in keys:
        foot += f"\nChosen: the {headline.label} on the test set at {CHOSEN}."
    if VALIDATION in keys:
        foot += f"\nValidation: the {headline.label} on examples that were set aside, neither trained nor tested on."
    if sets := [name for name in tests if name not in (DROP, VALIDATION) and name in keys]:
        which = "a further test set" if len(sets) == 1 else "further test sets"
        foot += f"\n{', '.join(sets)}: the {headline.label} on {which}, likewise."
    if DROP in keys:
        foot += f"\nDrop: how much worse the {headline.label} is than that of the same run without its attack."
    if "personal" in keys:
        foot += "\nPersonal: the clients' own models, each on its own held-out part; mean over clients, best round."
    if TRIED in keys:
        foot += f"\n{SETTINGS_TRIED}"
    if "epsilon" in keys:
        foot += "\nEpsilon: the privacy budget of the run for the delta of its dp(); - without a guarantee."
    if keys & {"simulated", "simulated_to_target"}:
        foot += "\nSimulated: the time on the clients' devices, by the run's clock."
    for note in dict.fromkeys(note for summary in summaries for note in summary.notes):
        foot += f"\n{note}"
    return foot


def _over_seeds(summaries: Sequence[Summary]) -> str:
    """Over how many seeds scores are averaged, at the end of a sentence."""
    counts = {summary.seeds for summary in summaries}
    if counts == {1}:
        return f" (1 seed: {CHANCE})" if len(summaries) > 1 else " (1 seed)"
    over = "over seeds" if len(counts) > 1 else f"over {summaries[0].seeds} seeds"
    single = f" (with 1 seed, {CHANCE})" if 1 in counts else ""
    return f", mean ± standard deviation {over}{single}"


def _by_domain(
    summaries: Sequence[Summary], domains: list[str], like: TableContent
) -> TableContent:
    """The scores in each domain of each test set."""
    headline = summaries[0].headline
    sets = dict.fromkeys(
        name.partition("/")[0]
        for name in sorted(domains, key=lambda name: not name.startswith(MAIN))
    )
    order = [
        name
        for test in sets
        for name in sorted(domains, key=_last)
        if name.partition("/")[0] == test
    ]
    heads = ["method", *(headline.head(name.removeprefix(f"{MAIN}/")) for name in order)]
    rows = [
        [s.method, *(headline.format(*s.tests.get(name, NOTHING)) for name in order)]
        for s in summaries
    ]
    foot = f"The {headline.label} in each domain of the test set, and of others as SET/DOMAIN. {STD}: over the domains."
    return replace(like, rows=[heads, *rows], foot=foot)


def _by_class(summaries: Sequence[Summary], like: TableContent) -> TableContent:
    headline = summaries[0].headline
    names = list(dict.fromkeys(name for summary in summaries for name in summary.classes))
    rows = [
        [s.method, *(headline.format(*s.classes.get(name, NOTHING)) for name in names)]
        for s in summaries
    ]
    heads = ["method", *map(headline.head, names)]
    return replace(like, rows=[heads, *rows], foot="The IoU of each class on the test set.")


def _last(name: str) -> bool:
    return name.endswith(f"/{STD}")


def _csv(summaries: Sequence[Summary]) -> str:
    """The score goes by the headline's name; by "score", with the names in a column, where there
    are several."""
    stream = io.StringIO()
    apart = ("tests", "classes")
    named = [
        (kind, name)
        for kind in apart
        for name in dict.fromkeys(n for s in summaries for n in getattr(s, kind))
    ]
    alike = len({summary.headline for summary in summaries}) == 1
    names = [
        name for name in vars(summaries[0]) if name not in ("headline", "scenario", "notes", *apart)
    ]
    writer = csv.writer(stream, lineterminator="\n")
    heads = [summaries[0].headline.name if name == "score" and alike else name for name in names]
    heads += [head for kind, name in named for head in (f"{kind}.{name}", f"{kind}.{name}.spread")]
    single = len({summary.scenario for summary in summaries}) == 1
    writer.writerow([*heads, *([] if alike else ["headline"]), *([] if single else ["on", "task"])])
    for summary in summaries:
        values = [getattr(summary, name) for name in names]
        values += [
            value
            for kind, name in named
            for value in getattr(summary, kind).get(name, (math.nan, math.nan))
        ]
        values += [] if alike else [summary.headline.name]
        values += [] if single else [summary.scenario.on, summary.scenario.task]
        writer.writerow("" if value is None else value for value in values)
    return stream.getvalue().rstrip("\n")
