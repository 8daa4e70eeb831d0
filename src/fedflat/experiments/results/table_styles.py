"""One table as text, Markdown, LaTeX (booktabs) or HTML, and which method is ahead in it.

The content is the same in all of them. Markdown, LaTeX and HTML print the cells in ``bold``, which
`best_in_columns` finds: the best mean of a column, if it is ahead of every other mean of the column
(`best_of`). With one seed nothing is bold.

One method is ahead of another if both have two seeds or more and it is better, in the score both
are judged by, by more than ``t * sqrt(s1^2 / n1 + s2^2 / n2)``, where s is the standard deviation
over the n seeds and t the 97.5 % point of Student's distribution with Welch's degrees of freedom.
With a single seed of either, no method is ahead: consecutive evaluations of one run do not show how
much seeds differ.

A method that is ahead of all others is the most accurate, or leads in another score.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from html import escape
from statistics import mean, stdev
from typing import TYPE_CHECKING
from unicodedata import lookup

from fedflat.errors import choice
from fedflat.tasks.headline import ACCURACY, Headline
from fedflat.text_table import aligned

if TYPE_CHECKING:
    from fedflat.experiments.results.results import Result


CHANCE = "differences between methods may be due to chance"
"""Printed beside results of one seed."""
LEVEL = 0.975
Estimate = tuple[float, float, int]
"""A mean over seeds, its standard deviation, and the number of seeds."""
NAMED = 3
"""How many methods a sentence names."""


@dataclass(frozen=True)
class RankedRun:
    """The headline of a method, and what is known of its spread."""

    method: str
    seeds: tuple[float, ...]
    """The headline of each seed."""
    headline: Headline = ACCURACY
    """The headline score, the same for all methods that are compared."""

    @classmethod
    def of(cls, method: str, results: Sequence[Result]) -> RankedRun:
        headline = results[0].headline if results else ACCURACY
        return cls(method, tuple(result.final() for result in results), headline)

    @property
    def score(self) -> float:
        """The mean over seeds; NaN if one has none."""
        return mean(self.seeds) if self.seeds else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; NaN if there is one only."""
        return stdev(self.seeds) if len(self.seeds) > 1 else math.nan

    @property
    def counted(self) -> str:
        """The number of seeds in words."""
        return "1 seed" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"

    def ahead_of(self, other: RankedRun) -> bool:
        """Whether the difference is more than noise; not if one of the two has a single seed."""
        return self.headline.gain(self.score, other.score) > self._noise(other)

    def _noise(self, other: RankedRun) -> float:
        return least_difference(
            (self.score, self.spread, len(self.seeds)),
            (other.score, other.spread, len(other.seeds)),
        )


def best_of(estimates: Sequence[Estimate], higher_is_better: bool = True) -> int | None:
    """The place of the mean that is ahead of all others; None if there is none, or only one.

    >>> best_of([(0.9, 0.01, 3), (0.8, 0.01, 3)]), best_of([(0.9, 0.1, 3), (0.8, 0.1, 3)])
    (0, None)
    >>> best_of([(0.9, math.nan, 1), (0.1, math.nan, 1)]) is None
    True
    """
    sign = 1 if higher_is_better else -1
    known = [place for place, one in enumerate(estimates) if math.isfinite(one[0])]
    if len(known) < 2:
        return None
    best = max(known, key=lambda place: sign * estimates[place][0])
    ahead = (
        sign * (estimates[best][0] - estimates[place][0])
        > least_difference(estimates[best], estimates[place])
        for place in known
        if place != best
    )
    return best if all(ahead) else None


def least_difference(one: Estimate, other: Estimate) -> float:
    """The least difference of two means that is not chance; infinite if one has a single seed or
    an unknown spread."""
    if min(one[2], other[2]) < 2 or math.isnan(one[1] + other[1]):
        return math.inf
    return _welch(one[1:], other[1:])


def _welch(*spreads: tuple[float, int]) -> float:
    """Welch's t-test from means, standard deviations and counts."""
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    parts = [spread * spread / count for spread, count in spreads]
    if not sum(parts):
        return 0.0
    freedom = sum(parts) ** 2 / sum(
        part * part / (count - 1) for part, (_, count) in zip(parts, spreads, strict=True)
    )
    return float(stdtrit(freedom, LEVEL)) * math.sqrt(sum(parts))


def leader(standings: Sequence[RankedRun]) -> RankedRun | None:
    """The method that is ahead of all others; None if there is none, or only one."""
    ranked = _ranked(standings)
    return (
        ranked[0]
        if len(ranked) > 1 and all(ranked[0].ahead_of(other) for other in ranked[1:])
        else None
    )


def lead(standings: Sequence[RankedRun]) -> str:
    """A sentence about the best method; empty if nothing was measured."""
    ranked = _ranked(standings)
    if not ranked:
        return ""
    best, others = ranked[0], ranked[1:]
    headline = best.headline
    figure = headline.with_unit(best.score, best.spread)
    best_of = f"the {'highest' if headline.higher_is_better else 'lowest'} {headline.label}"
    if not others:
        return (
            f"{best.method} reaches "
            f"{figure if headline == ACCURACY else f'{headline.label} {figure}'} ({best.counted})."
        )
    if len(best.seeds) == 1:
        return f"{best.method} has {best_of}, {figure} (1 seed: {CHANCE})."
    near = [other for other in others if not best.ahead_of(other)]
    if not near:
        leads = "is the most accurate with" if headline == ACCURACY else f"leads with {best_of},"
        return f"{best.method} {leads} {figure} ({best.counted})."
    single = [other.method for other in near if len(other.seeds) == 1]
    within = [other.method for other in near if len(other.seeds) > 1]
    reasons = [f"within noise of {_listed(within)}"] if within else []
    reasons += [f"with 1 seed only of {_listed(single)}"] if single else []
    return f"{best.method} has {best_of}, {figure} ({best.counted}), but {' and '.join(reasons)}."


def _ranked(standings: Sequence[RankedRun]) -> list[RankedRun]:
    known = [one for one in standings if math.isfinite(one.score)]
    return sorted(known, key=lambda one: one.headline.gain(0.0, one.score))


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> _listed(["a"]), _listed(["a", "b"]), _listed(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 others')
    """
    named = (
        list(names) if len(names) <= NAMED + 1 else [*names[:NAMED], f"{len(names) - NAMED} others"]
    )
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


BOLD = (
    "Bold: the best mean, ahead of every other by more than chance explains (Welch's t-test of each "
    "pair over seeds, two-sided, 5 %, no correction for several methods)."
)
STYLES = ("text", "markdown", "latex", "html")


@dataclass(frozen=True)
class TableContent:
    """A table of texts.

    rows
        The rows; the first one holds the heads, and the first cell of each row its name.
    foot
        Sentences about the table, one paragraph a line; LaTeX has them in the caption.
    bold
        The places (row, column) of cells in bold; the heads are row 0.
    title
        What the table is about; LaTeX begins the caption with it.
    prose
        Names of rows that are prose, such as labels. Other names are code, such as the texts of
        methods. None: all are prose.
    """

    rows: Sequence[Sequence[str]]
    foot: str = ""
    bold: frozenset[tuple[int, int]] = frozenset()
    title: str = ""
    prose: Collection[str] | None = ()

    def code(self, name: str) -> bool:
        return self.prose is not None and not any(
            name == one or name.startswith((f"{one}, ", f"{one} (")) for one in self.prose
        )


def format_table(content: TableContent, style: str = "text", room: int | None = None) -> str:
    """The table in a style; text that is wider than ``room`` characters comes in parts.

    >>> rows = [["method", "accuracy %"], ["FedAvg", "90.03 ± 0.95"], ["FedSAM", "94.57 ± 0.25"]]
    >>> one = TableContent(rows, "Mean over 3 seeds.", frozenset({(2, 1)}), prose=None)
    >>> print(format_table(one, "markdown"))
    | method | accuracy % |
    | --- | ---: |
    | FedAvg | 90.03 ± 0.95 |
    | FedSAM | **94.57 ± 0.25** |
    <BLANKLINE>
    Mean over 3 seeds.
    """
    choice("table", "style", style, STYLES)
    if style == "text":
        return _with_foot(aligned(content.rows, room), content.foot)
    draw: dict[str, Callable[[TableContent], str]] = {
        "markdown": _markdown,
        "latex": _latex,
        "html": _html,
    }
    return draw[style](content)


def best_in_columns(
    columns: Sequence[tuple[int, Sequence[Estimate], bool]],
) -> frozenset[tuple[int, int]]:
    """The places of the best cells.

    Each column is its number in the table, the estimates of its rows in their order, and whether
    higher is better.
    """
    found = [(best_of(estimates, higher), column) for column, estimates, higher in columns]
    return frozenset((place + 1, column) for place, column in found if place is not None)


def _with_foot(table: str, foot: str) -> str:
    return f"{table}\n\n{foot}" if foot else table


def _markdown(content: TableContent) -> str:
    rule = ["---", *["---:"] * (len(content.rows[0]) - 1)]
    lines = []
    for place, row in enumerate(content.rows):
        cells = [_markdown_text(cell) for cell in row]
        if place and content.code(row[0]):
            cells[0] = f"`{row[0]}`".replace("|", r"\|")
        cells = [f"**{c}**" if (place, i) in content.bold else c for i, c in enumerate(cells)]
        lines += [cells, *([rule] if place == 0 else [])]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return _with_foot(table, content.foot)


def _markdown_text(text: str) -> str:
    """Text without Markdown in it.

    >>> _markdown_text("FedSAM*"), _markdown_text("a|b")
    ('FedSAM\\\\*', 'a\\\\|b')
    """
    return re.sub(r"([\\`*|<\[])", r"\\\1", text)


def _html(content: TableContent) -> str:
    def line(place: int, row: Sequence[str]) -> str:
        tag = "th" if place == 0 else "td"
        cells = (
            f"<b>{escape(cell)}</b>" if (place, i) in content.bold else escape(cell)
            for i, cell in enumerate(row)
        )
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    heads, *others = content.rows
    body = "\n".join(line(place, row) for place, row in enumerate(others, 1))
    table = f"<table>\n<thead>{line(0, heads)}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    foot = "\n".join(f"<p>{escape(line)}</p>" for line in content.foot.split("\n") if line)
    return _with_foot(table, foot)


def _latex(content: TableContent) -> str:
    """A table environment; it needs the package booktabs."""
    title = f"{content.title.rstrip('.')}. " if content.title else ""
    caption = latex_text(f"{title}{' '.join(content.foot.split())}")
    heads = [latex_text(head[:1].upper() + head[1:]) for head in content.rows[0]]
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}[t]",
        r"  \centering",
        rf"  \caption{{{caption}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
        r"    \toprule",
        rf"    {' & '.join(heads)} \\",
        r"    \midrule",
    ]
    for place, (name, *cells) in enumerate(content.rows[1:], 1):
        first = rf"\texttt{{{latex_text(name)}}}" if content.code(name) else latex_text(name)
        texts = [
            rf"\textbf{{{latex_text(cell)}}}" if (place, i) in content.bold else latex_text(cell)
            for i, cell in enumerate(cells, 1)
        ]
        lines.append(rf"    {' & '.join([first, *texts])} \\")
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}"])


_GREEK = "alpha beta gamma delta epsilon zeta eta lambda mu rho sigma tau".split()
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "±": r"$\pm$",
    "‖": r"$\|$",
    "²": "$^2$",
    "₁": "$_1$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "∞": r"$\infty$",
    **{lookup(f"GREEK SMALL LETTER {'LAMDA' if n == 'lambda' else n}"): f"$\\{n}$" for n in _GREEK},
}


def latex_text(text: str) -> str:
    """Text as LaTeX prints it: no character is a command.

    >>> print(latex_text("fedgloss(rho_s=0.1), 5 % ± 1, λ"))
    fedgloss(rho\\_s=0.1), 5 \\% $\\pm$ 1, $\\lambda$
    """
    return "".join(_LATEX.get(sign, sign) for sign in text)
