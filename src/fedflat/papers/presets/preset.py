"""A preset: the settings of one run of a paper, and the number that the paper reports.

Such a number is a score of the run, or another measure of it:

rounds, cost, speedup             what it took to reach a target score
lambda_1, ratio, trace            curvature of the model that the cell reports
local_lambda_1, global_lambda_1   lambda_1 of the models of a cohort's clients after local
                                  training, on their own data and on everyone's; the mean over
                                  the clients
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fedflat.errors import SettingError, shown
from fedflat.settings.groups import last_tenth
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.experiments.experiment import Experiment


TO_TARGET = {
    "rounds": Headline("rounds_to_target", "rounds to the target", higher_is_better=False),
    "cost": Headline("cost_to_target", "traffic to the target", "B", higher_is_better=False),
    "speedup": Headline("speedup", "speed-up", "x"),
}
"""Numbers about reaching a target, by measure.

B is all that the reference sends and receives in all of its rounds. The speed-up is the number of
rounds of the reference, divided by the rounds to the target.
"""
FLATNESS = {
    "lambda_1": Headline("lambda_1", higher_is_better=False),
    "ratio": Headline("ratio", "lambda_1/lambda_5", higher_is_better=False),
    "trace": Headline("trace", "trace of the Hessian", higher_is_better=False),
    "local_lambda_1": Headline(
        "local_lambda_1", "clients' lambda_1, own data", higher_is_better=False
    ),
    "global_lambda_1": Headline(
        "global_lambda_1", "clients' lambda_1, all data", higher_is_better=False
    ),
}
"""Numbers about curvature, by measure."""
OF_CLIENTS = ("local_lambda_1", "global_lambda_1")
"""Those that belong to clients' models."""
SETS = ("test", "train")
"""Examples on which the curvature of a model can be measured."""


def reference(target: float | str | None) -> tuple[float, str]:
    """Return factor and name of the cell whose score is the target; no name for a number.

    >>> reference("0.7*fedseq/cifar10-alpha0-centralised"), reference("toy/fedavg"), reference(50.0)
    ((0.7, 'fedseq/cifar10-alpha0-centralised'), (1.0, 'toy/fedavg'), (1.0, ''))
    """
    if not isinstance(target, str):
        return 1.0, ""
    factor, star, name = target.partition("*")
    if not star:
        return 1.0, target.strip()
    if not re.fullmatch(r"\s*\d*\.?\d+\s*", factor) or not float(factor) or not name.strip():
        raise SettingError(
            "reproduce: a target is a number, the name of a cell, or a factor and a name such as "
            f"0.7*centralised, found {shown(target)}."
        )
    return float(factor), name.strip()


@dataclass(frozen=True)
class PublishedCell:
    """One entry of a table, such as ``83.9±0.4``, ``52.00±0.36(206)``, ``65.00`` or ``X``.

    ``X`` means no convergence, ``~`` a target that is not reached.
    """

    value: float | None
    spread: float | None = None
    aside: str = ""
    """The text in brackets."""
    unreached: bool = False


def read(text: str) -> PublishedCell:
    """Parse an entry.

    >>> read("52.00±0.36(206)")
    PublishedCell(value=52.0, spread=0.36, aside='206', unreached=False)
    >>> read("X").value, read("~").unreached
    (None, True)
    """
    if text in ("X", "~"):
        return PublishedCell(None, unreached=text == "~")
    match = re.fullmatch(r"([\d.]+)(?:±([\d.]+))?(?:\((.*)\))?", text)
    assert match, text
    return PublishedCell(
        float(match[1]), None if match[2] is None else float(match[2]), match[3] or ""
    )


def rows(table: str, *heads: str) -> Iterator[tuple[str, dict[str, PublishedCell]]]:
    """Iterate over the first word of each line and its entries by column. ``-`` is no entry.

    >>> list(rows("fedavg 1.5 -", "one", "two"))
    [('fedavg', {'one': PublishedCell(value=1.5, spread=None, aside='', unreached=False)})]
    """
    for line in table.strip().splitlines():
        name, *cells = line.split()
        assert len(cells) == len(heads), line
        yield (
            name,
            {head: read(cell) for head, cell in zip(heads, cells, strict=True) if cell != "-"},
        )


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One run with the settings of its authors."""

    name: str
    """``paper/column-method``."""
    method: str
    on: str
    model: str
    rounds: int
    settings: Mapping[str, Any]
    """The other arguments of `fedflat.experiment` that the paper gives."""
    reported: float | None
    """The number that the paper prints, e.g. an accuracy or mean IoU in per cent. None if the paper
    says that the run does not converge or does not reach its target (``unreached``), or prints
    nothing (``not_printed``).
    """
    not_printed: bool = False
    """True if there is no number to compare with."""
    spread: float | None = None
    """The printed standard deviation."""
    table: str
    note: str = ""
    column: str = ""
    """The shorter name of the main run of a column."""
    seeds: tuple[int, ...] = ()
    """The authors' seeds, if they are known. The first one is the default."""
    measure: str = "accuracy"
    """The reported score: "accuracy", or another headline, over the last rounds; the headline on
    a further test set, as in "tests.unseen"; "personal", the personalized score of the best round;
    or a name in `fedflat.papers.presets.preset`.
    """
    target: float | str | None = None
    """The score to reach, for "rounds", "cost" and "speedup": see `TableCell.target`."""
    at: float = 1.0
    """The share of the rounds after which the score is reported."""
    where: str = "test"
    """The examples on which curvature is measured, "test" or "train"."""
    unreached: bool = False
    """True if the paper says that the target is not reached."""

    @property
    def scored(self) -> bool:
        """True if the number is a score at the end of the run."""
        return self.measure not in (*TO_TARGET, *FLATNESS) and self.at == 1

    def measuring(self, ending: str, measure: str, cell: PublishedCell, **changed: Any) -> Preset:
        """Return the preset of the same run that reports another measure of it."""
        value = cell.value
        if value is not None and measure == "rounds":
            value = int(value)
        return replace(
            self,
            **{
                "name": f"{self.name}-{ending}",
                "measure": measure,
                "reported": value,
                "spread": cell.spread,
                "unreached": cell.unreached,
                "not_printed": False,
                "note": "",
                "column": "",
                **changed,
            },
        )

    def arguments(self, **changed: Any) -> dict[str, Any]:
        """Return the arguments of `fedflat.experiment`, or of `fedflat.run`, with some replaced.

        In a run with fewer rounds than in the paper, at most the last tenth of them counts, unless
        `eval_last` is given.
        """
        merged: dict[str, Any] = {
            "method": self.method,
            "on": self.on,
            "rounds": self.rounds,
            "model": self.model,
        }
        merged |= ({"seed": self.seeds[0]} if self.seeds else {}) | dict(self.settings) | changed
        if "eval_last" not in changed and merged["rounds"] != self.rounds:
            merged["eval_last"] = min(merged["eval_last"], last_tenth(merged["rounds"]))
        return merged

    def experiment(self, **overrides: Any) -> Experiment:
        """Return the experiment, with some of its settings replaced.

        >>> from fedflat.papers.presets import find
        >>> exp = find("fedgloss/cifar10-cnn-alpha0").experiment(rounds=50, seed=42)
        >>> exp.method
        fedgloss(rho_s=0.15, rho_l=0.15, beta=10, T_s=2000)
        >>> exp.rounds, exp.seed, exp.local.weight_decay
        (50, 42, 0.0004)
        """
        from fedflat.experiments.api import experiment

        return experiment(**self.arguments(**overrides))

    @property
    def figure(self) -> str:
        """The paper's number as text.

        >>> from fedflat.papers.presets import find
        >>> find("fedgloss/cifar10-cnn-alpha0").figure
        '83.9 ± 0.4'
        >>> find("fedgloss/cifar100-cnn-alpha0-feddyn").figure
        'X'
        """
        if self.reported is None:
            return "-" if self.not_printed or self.unreached else "X"
        return f"{self.reported}" + (f" ± {self.spread}" if self.spread is not None else "")
