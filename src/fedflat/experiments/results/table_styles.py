"""One table as text, Markdown, LaTeX (booktabs) or HTML.

The content is the same in all of them. Markdown, LaTeX and HTML print the cells in ``bold``, which
`best_in_columns` finds: the best mean of a column, if it is ahead of every other mean of the column
(`ranking.best_of`). With one seed nothing is bold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from html import escape
from unicodedata import lookup

from fedflat.errors import choice
from fedflat.experiments.results.ranking import Estimate, best_of
from fedflat.text_table import aligned

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
