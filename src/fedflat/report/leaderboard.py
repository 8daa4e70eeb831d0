"""The sections of a page: the methods that are compared, which of them is ahead, and the target
they should reach; the same as tables.

A section has one data set, one partition, one task and one score. Nothing is compared across
sections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedflat.analysis.shown_values import short
from fedflat.errors import RunError
from fedflat.experiments.results.results import Result, Results
from fedflat.experiments.results.scenario import Labels, Scenario
from fedflat.experiments.results.summary import Summary, summarise
from fedflat.experiments.results.table_styles import RankedRun, lead, leader
from fedflat.experiments.results.tables import APART, table
from fedflat.report.labels import run_names
from fedflat.report.load import load_runs
from fedflat.tasks.headline import Headline, common_target

Kind = tuple[str, Scenario, Headline]
"""A method within its section."""


LONGEST = 56
"""Most letters of a title that is not shortened."""


def kind_of(result: Result) -> Kind:
    """The method and the section of a run."""
    return result.method, result.scenario, result.headline


@dataclass(frozen=True)
class Leaderboard:
    scenario: Scenario
    headline: Headline
    target: float | None
    target_of_first: bool
    """Whether no target was given, and it is what the first method came to."""
    last: int
    """How many of the last rounds scores are averaged over."""
    summaries: list[Summary]
    """One for each method."""
    standings: list[RankedRun]

    @classmethod
    def of(
        cls, scenario: Scenario, headline: Headline, results: Sequence[Result], target: float | None
    ) -> Leaderboard:
        """The section of a scenario and a headline, from the runs that count."""
        own = Results(result for result in results if kind_of(result)[1:] == (scenario, headline))
        given = target is not None
        target = target if given else own.target_of_first()
        methods = dict.fromkeys(result.method for result in own)
        standings = [
            RankedRun.of(name, [result for result in own if result.method == name])
            for name in methods
        ]
        last = min(min(result.last, result.rounds) for result in own)
        of_first = not given and target is not None
        return cls(scenario, headline, target, of_first, last, summarise(own, target), standings)

    @property
    def lead(self) -> str:
        """A sentence about the best method; empty if nothing was measured."""
        return lead(self.standings)

    @property
    def kinds(self) -> list[Kind]:
        return [(summary.method, self.scenario, self.headline) for summary in self.summaries]

    def as_json(self, kinds: Sequence[Kind], among: Sequence[Leaderboard]) -> dict[str, Any]:
        """The section as the page shows it.

        ``kinds`` are all methods in the order of the page, ``among`` all sections.
        """
        ahead = leader(self.standings)
        return {
            "title": self.title(among),
            "short": self.short_title(among),
            "data_set": self.scenario.data_set,
            "partition": self.scenario.partition,
            "task": self.scenario.task,
            "tested_on": self.scenario.tested_on,
            "lead": self.lead,
            "last": self.last,
            "headline": {**self.headline.as_json(), "title": self.headline.title},
            "ahead": None
            if ahead is None
            else kinds.index((ahead.method, self.scenario, self.headline)),
            "target": short(self.target),
            "target_of_first": self.target_of_first,
        }

    def short_title(self, among: Sequence[Leaderboard]) -> str:
        """The title; if it is long, the data set and the partition, unless others have them."""
        title, words = self.title(among), _words(self)
        alone = sum(_words(board) == words for board in among) == 1
        return words if len(title) > LONGEST and alone and len(words) < len(title) else title

    def title(self, among: Sequence[Leaderboard]) -> str:
        """A name that no other section of the page has."""
        same = [board for board in among if board.scenario == self.scenario]
        return (
            f"{self.scenario.title}, by {self.headline.label}"
            if len(same) > 1
            else self.scenario.title
        )


def _words(board: Leaderboard) -> str:
    return f"{board.scenario.data_set}, {board.scenario.partition}"


def counted(results: Sequence[Result]) -> list[Result]:
    """The seeds a summary is made of: those that ended, or all of a method if none did."""
    ended = {kind_of(result) for result in results if result.status != "running"}
    return [r for r in results if r.status != "running" or kind_of(r) not in ended]


def boards_of(
    results: Sequence[Result],
    counted: Sequence[Result],
    targets: Sequence[float | None],
    target: float | None,
) -> tuple[list[Leaderboard], list[str]]:
    """The sections of these runs, and a sentence about each whose studies have different targets.

    ``targets`` are those of the runs' studies. ``target`` is one for all sections, and replaces
    them.
    """
    boards, problems = [], []
    for scenario, headline in dict.fromkeys(kind_of(result)[1:] for result in results):
        of_runs = zip(results, targets, strict=True)
        own = dict.fromkeys(
            one for result, one in of_runs if kind_of(result)[1:] == (scenario, headline)
        )
        given = [one for one in own if one is not None]
        if target is None and len(given) > 1:
            texts = " and ".join(map(headline.goal, given))
            problems.append(
                f"The studies on {scenario.title} have different targets ({texts}). None of them "
                "is used: --target "
                "sets one for all."
            )
        wanted = given[0] if target is None and len(given) == 1 else target
        boards.append(Leaderboard.of(scenario, headline, counted, wanted))
    return boards, problems


def tables_of(
    folders: Sequence[Path],
    style: str = "text",
    *,
    target: float | str | None = None,
    labels: Labels | None = None,
    columns: Sequence[str] | None = None,
    room: int | None = None,
) -> tuple[str, list[str]]:
    """The tables of these runs and studies, and a sentence for each that could not be read.

    Arguments are those of `table`; ``labels`` are names for methods.
    """
    runs, problems = load_runs(folders)
    if not runs:
        raise RunError(" ".join(["there is no run to print a table of.", *problems]))
    wanted = common_target(target, (run.result.headline for run in runs))
    named = run_names(runs, labels or {})
    results = [replace(run.result, method=one.name) for run, one in zip(runs, named, strict=True)]
    targets = [run.target for run in runs]
    boards, uncertain = boards_of(results, counted(results), targets, wanted)
    sentences = [*problems, *uncertain]
    if style == "csv":
        every = [one for board in boards for one in board.summaries]
        return table(every, None, 1, "csv"), sentences
    prose = [*(labels or {}).values()]
    texts = [
        table(board.summaries, board.target, board.last, style, room, columns, prose)
        for board in boards
    ]
    if len(boards) > 1:
        comment = "% " if style == "latex" else ""
        titles = [f"{comment}{board.title(boards)}" for board in boards]
        texts = [f"{title}\n\n{text}" for title, text in zip(titles, texts, strict=True)]
        texts.insert(0, comment + APART)
    return "\n\n".join(texts), sentences
