"""The methods that are judged by one score: who is ahead of whom, and the target they are measured by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedflat.report.ranking import Standing, lead, leader
from fedflat.report.series import short
from fedflat.running.results import Result, Results, Summary, summarise
from fedflat.tasks.headline import Headline


@dataclass(frozen=True)
class Board:
    """A score, and the methods that are compared by it. Nobody is compared over two boards."""

    headline: Headline
    target: float | None
    target_of_first: bool
    """Whether nobody said the target, and it is what the first method came to."""
    summaries: list[Summary]
    """One for each method."""
    standings: list[Standing]

    @classmethod
    def of(cls, headline: Headline, results: Sequence[Result], target: float | None) -> Board:
        """The board of a headline, from the runs that count."""
        own = Results(result for result in results if result.headline == headline)
        said = target is not None
        target = target if said else own.target_of_first()
        methods = dict.fromkeys(result.method for result in own)
        standings = [Standing.of(name, [result for result in own if result.method == name]) for name in methods]
        return cls(headline, target, not said and target is not None, summarise(own, target), standings)

    @property
    def lead(self) -> str:
        """A sentence about the best method; empty if nothing was measured."""
        return lead(self.standings)

    def as_json(self, kinds: Sequence[tuple[str, Headline]]) -> dict[str, Any]:
        """What the page is told; ``kinds`` are all methods in the order of the page."""
        ahead = leader(self.standings)
        return {
            "headline": {**self.headline.as_json(), "title": self.headline.title},
            "ahead": None if ahead is None else kinds.index((ahead.method, self.headline)),
            "target": short(self.target),
            "target_of_first": self.target_of_first,
        }
