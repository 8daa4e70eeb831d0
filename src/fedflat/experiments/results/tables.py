"""Results as a table: text for people, CSV for programs, Markdown for papers, HTML for
notebooks."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

from fedflat.experiments.results.scenario import Scenario
from fedflat.experiments.results.summary import DROP, MAIN, STD, Summary
from fedflat.tasks.headline import Headline
from fedflat.text_table import aligned, size, span

FORMATS = ("text", "csv", "markdown", "html")
CHANCE = "differences between methods may be due to chance"
"""Printed beside results of one seed."""
Draw = Callable[[list[list[str]]], str]
"""How rows, the first of which are the heads, become a table."""


def table(
    summaries: Sequence[Summary],
    target: float | None,
    last: int,
    style: str = "text",
    room: int | None = None,
) -> str:
    """The table of a comparison; ``last`` is over how many of the last rounds scores are averaged.

    Text that is wider than ``room`` characters comes in parts.

    Methods on different data sets, partitions or tasks, or judged by different scores, have a table
    each, and there is no target for all of them.
    """
    if style == "csv":
        return _csv(summaries)
    draw: Draw = {"text": lambda rows: aligned(rows, room), "markdown": _markdown, "html": _html}[
        style
    ]
    groups: dict[tuple[Scenario, Headline], list[Summary]] = {}
    for summary in summaries:
        groups.setdefault((summary.scenario, summary.headline), []).append(summary)
    if len(groups) == 1:
        return _one(summaries, target, last, draw)
    if len({scenario for scenario, _ in groups}) == 1:
        note = different_scores(headline for _, headline in groups)
        return "\n\n".join([note, *(_one(group, None, last, draw) for group in groups.values())])
    named = (
        f"{scenario.title}\n\n{_one(group, None, last, draw)}"
        for (scenario, _), group in groups.items()
    )
    return "\n\n".join([APART, *named])


APART = "These runs are on different data sets, partitions or tasks. Each has a table; they are not compared."


def different_scores(headlines: Iterable[Headline]) -> str:
    """A sentence about runs that are judged by different scores."""
    *most, final = (headline.label for headline in headlines)
    return f"These runs are judged by different scores ({', '.join(most)} and {final}), and are not compared."


def _one(summaries: Sequence[Summary], target: float | None, last: int, draw: Draw) -> str:
    """The table of methods that are judged by one score."""
    judged = summaries[0].headline
    personal = any(math.isfinite(summary.personal) for summary in summaries)
    named = list(dict.fromkeys(name for summary in summaries for name in summary.tests))
    tests, domains = ([name for name in named if ("/" in name) == apart] for apart in (False, True))
    uneven = len({summary.seeds for summary in summaries}) > 1
    heads = ["method", *(["seeds"] if uneven else []), judged.column]
    heads += map(judged.head, ["last", "best", *tests, *(["personal"] if personal else [])])
    loss = judged.name != "loss"
    heads += ["loss"] if loss else []
    private = any(math.isfinite(summary.epsilon) for summary in summaries)
    heads += ["epsilon"] if private else []
    timed = any(math.isfinite(summary.clock) for summary in summaries)
    spent = ["sent", *(["simulated"] if timed else [])]
    if target is not None:
        heads += [f"{what} to {judged.goal(target)}" for what in ("rounds", *spent)]
    heads += [*(f"{what} in all" for what in spent), "samples/s"]
    rows = [
        _cells(summary, tests, personal, loss, private, target is not None, timed)
        for summary in summaries
    ]
    if uneven:
        rows = [
            [method, str(s.seeds), *rest]
            for s, (method, *rest) in zip(summaries, rows, strict=True)
        ]
    spread = _over_seeds(summaries)
    which = (
        f"mean of the evaluations in the last {last} rounds" if last > 1 else "the last evaluation"
    )
    what = f"{judged.title} and loss" if loss else judged.title
    foot = f"{what} on the test set: {which}{spread}. Last, best: of all evaluations."
    if not judged.higher_is_better:
        foot += f" Less {judged.label} is better."
    if sets := [name for name in tests if name != DROP]:
        which = "a further test set" if len(sets) == 1 else "further test sets"
        foot += f"\n{', '.join(sets)}: the {judged.label} on {which}, likewise."
    if DROP in tests:
        foot += f"\nDrop: how much worse the {judged.label} is than that of the same run without its attack."
    if personal:
        foot += "\nPersonal: the clients' own models, each on its own held-out part; mean over clients, best round."
    if private:
        foot += "\nEpsilon: the privacy budget of the run for the delta of its dp(); - without a guarantee."
    if timed:
        foot += "\nSimulated: the time on the clients' devices, by the run's clock."
    for note in dict.fromkeys(note for summary in summaries for note in summary.notes):
        foot += f"\n{note}"
    if domains:
        foot += f"\n\n{_by_domain(summaries, domains, draw)}"
    if any(summary.classes for summary in summaries):
        foot += f"\n\n{_by_class(summaries, draw)}"
    return f"{draw([heads, *rows])}\n\n{foot}"


def _over_seeds(summaries: Sequence[Summary]) -> str:
    """Over how many seeds scores are averaged, at the end of a sentence."""
    counts = {summary.seeds for summary in summaries}
    if counts == {1}:
        return f" (1 seed: {CHANCE})" if len(summaries) > 1 else " (1 seed)"
    over = "over seeds" if len(counts) > 1 else f"over {summaries[0].seeds} seeds"
    single = f" (with 1 seed, {CHANCE})" if 1 in counts else ""
    return f", mean ± standard deviation {over}{single}"


def _by_domain(summaries: Sequence[Summary], domains: list[str], draw: Draw) -> str:
    """The scores in each domain of each test set."""
    judged = summaries[0].headline
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
    heads = ["method", *(judged.head(name.removeprefix(f"{MAIN}/")) for name in order)]
    nothing = (math.nan, math.nan)
    rows = [
        [s.method, *(judged.format(*s.tests.get(name, nothing)) for name in order)]
        for s in summaries
    ]
    foot = f"The {judged.label} in each domain of the test set, and of others as SET/DOMAIN. {STD}: over the domains."
    return f"{draw([heads, *rows])}\n\n{foot}"


def _by_class(summaries: Sequence[Summary], draw: Draw) -> str:
    """The IoU of each class."""
    judged = summaries[0].headline
    names = list(dict.fromkeys(name for summary in summaries for name in summary.classes))
    nothing = (math.nan, math.nan)
    rows = [
        [s.method, *(judged.format(*s.classes.get(name, nothing)) for name in names)]
        for s in summaries
    ]
    return f"{draw([['method', *map(judged.head, names)], *rows])}\n\nThe IoU of each class on the test set."


def _last(name: str) -> bool:
    return name.endswith(f"/{STD}")


def _cells(
    s: Summary,
    tests: Sequence[str],
    personal: bool,
    loss: bool,
    private: bool,
    target: bool,
    timed: bool,
) -> list[str]:
    text = s.headline.format
    score = text(s.score, s.spread)
    if s.diverged:
        score = "X (diverged)" if s.diverged == s.seeds else f"{score} ({s.diverged} diverged)"
    others = [text(*s.tests.get(name, (math.nan, math.nan))) for name in tests]
    own = [text(s.personal, s.personal_spread)] if personal else []
    cells = [
        s.method,
        score,
        text(s.latest),
        text(s.best),
        *others,
        *own,
        *([f"{s.loss:.4f}"] if loss else []),
        *([f"{s.epsilon:.2f}" if math.isfinite(s.epsilon) else "-"] if private else []),
    ]
    if target:
        cells += [
            "-" if s.rounds_to_target is None else f"{s.rounds_to_target:.0f}",
            "-" if s.bytes_to_target is None else size(s.bytes_to_target),
            *([span(s.clock_to_target)] if timed else []),
        ]
    return [*cells, size(s.bytes), *([span(s.clock)] if timed else []), f"{s.speed:,.0f}"]


def _markdown(rows: list[list[str]]) -> str:
    heads, *others = rows
    rule = ["---", *["---:"] * (len(heads) - 1)]
    cells = [heads, rule, *([f"`{row[0]}`", *row[1:]] for row in others)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def _html(rows: list[list[str]]) -> str:
    def line(row: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"

    heads, *others = rows
    body = "\n".join(line(row, "td") for row in others)
    return f"<table>\n<thead>{line(heads, 'th')}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


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
