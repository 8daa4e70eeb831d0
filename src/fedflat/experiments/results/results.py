"""Results as the papers define them: means over the last rounds, spread over seeds, rounds, bytes
and simulated seconds to a target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from fedflat.data.info import VALIDATION
from fedflat.errors import SettingError, choice
from fedflat.experiments.results.frame import (
    data_frame,
    differences,
    flat_row,
    plot_curves,
    settings,
)
from fedflat.experiments.results.scenario import Labels, Scenario, labelled
from fedflat.experiments.results.summary import summarise
from fedflat.experiments.results.tables import FORMATS, table
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.record import RunRecord, read_record, read_rows
from fedflat.plot_style import ShownFigure
from fedflat.server.ledger import Ledger
from fedflat.tasks.headline import ACCURACY, Headline

if TYPE_CHECKING:
    from torch import nn

    from fedflat.core.flat import Model
    from fedflat.experiments.experiment import Experiment
    from fedflat.experiments.predictions import Predictions, RunModels
    from fedflat.experiments.run_folder.export import ModelCard
    from fedflat.experiments.state import RunState

LOSS = Headline("loss", higher_is_better=False)


@dataclass(frozen=True, repr=False)
class Result:
    """The result of one run, finished or not. It prints as a line, and as a table in a notebook.

    method
        The text of the method.
    seed
        The seed.
    rounds
        Number of rounds of the run.
    rows
        Its evaluations, in order.
    ledger
        Bytes, examples and seconds of the run.
    """

    method: str
    seed: int
    status: str
    """"done", "early" (it ended before its last round), "diverged" or "running"."""
    rounds: int
    last: int
    """How many of the last rounds count."""
    rows: Sequence[Row]
    ledger: Ledger
    model: Model | None = None
    """The server's model, or the one that stands for all it has."""
    models: RunModels | None = field(default=None, compare=False)
    """Its models; None if only the numbers were read."""
    headline: Headline = ACCURACY
    """The headline score."""
    attack: str = field(default="", compare=False)
    """The text of its attack, if there was one."""
    twin: str = field(default="", compare=False)
    """What it shares with the same run without an attack, a digest of its settings."""
    scenario: Scenario = field(default=Scenario(), compare=False)
    """Its data, their partition, and its task: results are compared within one scenario only."""
    by_validation: bool = field(default=False, compare=False)
    """Whether the validation set chooses the evaluation that counts."""
    folder: Path | None = field(default=None, compare=False)
    """Its run folder; None if the results are kept in memory only."""
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Its settings, by the names of their options."""
    tried: int = field(default=1, compare=False)
    """How many settings of its method a sweep tries; 1 without a sweep."""

    @classmethod
    def of(
        cls,
        exp: Experiment,
        status: str,
        run: RunState,
        rows: Sequence[Row],
        models: RunModels | None = None,
        model: Model | None = None,
    ) -> Result:
        """The result of a run just ended."""
        texts = exp.texts()
        return cls(
            repr(exp.method),
            exp.seed,
            status,
            exp.rounds,
            exp.evaluate.last,
            list(rows),
            run.ledger,
            model,
            models,
            exp.headline,
            repr(exp.attack) if exp.attack else "",
            texts.digest_without_attack,
            Scenario.of(texts, info=exp.info().data),
            exp.evaluate.by_validation,
            settings=settings(texts),
        )

    @classmethod
    def read(cls, folder: Path) -> Result:
        """The result a run folder holds."""
        record = read_record(folder)
        found = cls.from_record(record, read_rows(folder, record=record))
        return replace(found, folder=Path(folder))

    def module(self, model: str | None = None) -> nn.Module:
        """The model the run reports, or another one by name, as a module in evaluation mode."""
        return self._models("load(folder)").module(model)

    def export(self, to: str | Path, *, model: str | None = None, raw: bool = False) -> ModelCard:
        """Write a model of the run to a file: .safetensors, .pt, .pt2 or .onnx.

        Returns what the file takes and gives. With ``raw`` it normalizes its inputs itself.
        """
        return self._models("export(folder, ...)").export(Path(to), model, raw)

    def predict(self, data: Any, *, model: str | None = None) -> Predictions:
        """Predict examples with a model of the run, with names and confidence.

        ``data`` is a table, an array of inputs, or paths, as in `fedflat.predict`.
        """
        return self._models("predict(folder, ...)").predict(data, model)

    def _models(self, instead: str) -> RunModels:
        if self.models is None:
            raise SettingError(
                f"this result holds no model. Load one from its folder: fedflat.{instead}."
            )
        return self.models

    @classmethod
    def from_record(cls, record: RunRecord, rows: Sequence[Row]) -> Result:
        """The result of a run folder with this record and these evaluations."""
        exp = record.experiment
        spent = (
            {name: rows[-1][name] for name in vars(Ledger()) if name in rows[-1]} if rows else {}
        )
        return cls(
            exp.method,
            exp.seed,
            record.status,
            exp.rounds,
            exp.last,
            rows,
            Ledger(**spent),
            headline=record.headline,
            attack=exp.attack,
            twin=exp.digest_without_attack,
            scenario=Scenario.of(
                exp, record.origin.data, record.recorded_info.data if record.recorded_info else None
            ),
            by_validation=exp.by_validation,
            settings=settings(exp),
            tried=record.tried,
        )

    @property
    def on(self) -> str:
        """The text of its data; empty if they were given in Python."""
        return self.scenario.on

    @property
    def last_rows(self) -> list[Row]:
        """The evaluations that count: those of the last rounds, or the one that the validation set
        chooses."""
        if self.by_validation:
            chosen = self.chosen_row()
            return [] if chosen is None or self.status == "running" else [chosen]
        early = self.status == "early" and self.rows
        end = self.rows[-1]["round"] if early else self.rounds
        return [row for row in self.rows if row["round"] > end - self.last]

    def chosen_row(self) -> Row | None:
        """The first evaluation with the best headline on the validation set; None if there is
        none."""
        place, chosen, best = f"tests.{VALIDATION}.{self.headline.name}", None, math.nan
        for row in self.rows:
            score = flat_row(row).get(place, math.nan)
            if self.headline.better(score, best):
                chosen, best = row, score
        return chosen

    def chosen(self, name: str | None = None) -> float:
        """A measurement, or the headline, at the evaluation that the validation set chooses; NaN if
        there is none."""
        row = self.chosen_row()
        return next(iter(self._values(name, [] if row is None else [row])), math.nan)

    def final(self, name: str | None = None) -> float:
        """The mean of a measurement over the evaluations of the last rounds; NaN if there is none.
        With ``select_by="validation"``, the measurement at the evaluation that the validation set
        chooses.

        Without a name it is the headline; ``tests.NAME.SCORE`` and ``models.NAME.SCORE`` are those
        that lie deeper.
        """
        values = self._values(name, self.last_rows)
        return mean(values) if values else math.nan

    def _values(self, name: str | None, rows: Sequence[Row]) -> list[float]:
        name = name or self.headline.name
        if "." in name:
            rows = [flat_row(row) for row in rows]
        return [row[name] for row in rows if name in row]

    def __repr__(self) -> str:
        headline = self.headline
        scores = (
            f"{headline.label} {headline.with_unit(self.final())}, last "
            f"{headline.format(self.latest())}, best {headline.format(self.best())}"
        )
        at = self.rows[-1]["round"] if self.rows else 0
        reached = f"{self.status}, evaluated at {at} of {self.rounds}"
        return f"<Result of {self.method}, seed {self.seed}: {scores}; {reached}>"

    def _repr_html_(self) -> str:
        return Results([self])._repr_html_()

    def frame(self) -> Any:
        """Every evaluation as a row of a pandas DataFrame, if pandas is there."""
        return Results([self]).frame()

    def plot(self, measure: str | None = None) -> ShownFigure:
        """The curve of a measurement over the rounds; a notebook shows it.

        measure
            Name of the measurement, such as ``"loss"``; None: the headline.
        """
        return plot_curves([self], measure)

    def analyse(self, **wanted: Any) -> dict[str, Any]:
        """Analyse the models of this run: ``result.analyse(curvature=True)``; see
        `fedflat.analyse`.

        wanted
            Arguments of `fedflat.analyse`: analyses by name, and which model and examples.
        """
        return dict(import_module("fedflat").analyse(self, **wanted))

    @property
    def diverged(self) -> bool:
        """Whether it was stopped as diverged, or its last loss is not a number."""
        return self.status == "diverged" or not all(
            map(math.isfinite, self._values("loss", self.rows)[-1:])
        )

    def latest(self, name: str | None = None) -> float:
        """A measurement, or the headline, at the last evaluation that has it; NaN if there is
        none."""
        return next(iter(reversed(self._values(name, self.rows))), math.nan)

    def best(self, name: str | None = None) -> float:
        """The best value of the headline or of another measurement over all evaluations; NaN if
        there is none. It is optimistic: the test set chooses the evaluation and scores it.

        The best loss is the least, and of anything else what would be best as a headline.
        """
        values = self._values(name, self.rows)
        return LOSS.best(values) if (name or "").endswith("loss") else self.headline.best(values)

    def reached(self, target: float) -> Row | None:
        """The first evaluation whose headline is at least as good."""
        headline = self.headline
        return next(
            (
                row
                for row in self.rows
                if headline.reaches(row.get(headline.name, math.nan), target)
            ),
            None,
        )

    @property
    def speed(self) -> float:
        """Examples trained on in a second of exchanges."""
        return self.ledger.samples / self.ledger.training if self.ledger.training else math.nan


class ShownTable(str):
    """A table as text, which a notebook shows as a table."""

    def __new__(cls, text: str, html: str = "") -> ShownTable:
        """The text, and what a notebook shows; empty: the text itself."""
        made = super().__new__(cls, text)
        made.html = html or f"<pre>{escape(text)}</pre>"
        return made

    html: str

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.html


class Results(list[Result]):
    """Several runs: a list that prints as its table, and shows as one in a notebook."""

    def __repr__(self) -> str:
        return self._table("text") if self else "no results"

    def _repr_html_(self) -> str:
        return self._table("html") if self else "no results"

    def _table(self, style: str) -> str:
        own = summarise(self.labelled({}), None)
        return table(own, None, min(self[0].last, self[0].rounds), style)

    def table(
        self,
        style: str = "text",
        *,
        labels: Labels | None = None,
        columns: Sequence[str] | None = None,
        target: float | None = None,
    ) -> ShownTable:
        """The table of these runs, one row a method. It prints as it is, and a notebook shows it.

        style
            ``"text"``, ``"markdown"``, ``"latex"`` (needs the LaTeX package booktabs), ``"html"``
            or ``"csv"``. In Markdown, LaTeX and HTML the best mean of a column is bold if it is
            ahead of every other by Welch's t-test over seeds; with one seed nothing is bold.
        labels
            Names for methods, such as ``{"fedgloss(...)": "FedGloSS"}``.
        columns
            Which columns, such as ``["accuracy", "rounds_to_target"]``; None: all, in LaTeX those
            that papers print.
        target
            The headline score to reach, for the columns of costs; None: no such columns.
        """
        choice("table", "style", style, FORMATS)
        if not self:
            raise SettingError("table: there are no results.")
        named = self.labelled(labels or {})
        last = min(self[0].last, self[0].rounds)
        prose = [*(labels or {}).values()]
        own = summarise(named, target)
        html = table(own, target, last, "html", columns=columns, prose=prose)
        text = table(own, target, last, style, columns=columns, prose=prose)
        return ShownTable(text, html if style in ("text", "html") else "")

    def plot(self, measure: str | None = None, *, labels: Labels | None = None) -> ShownFigure:
        """The curves of all methods: the mean over seeds, from the least to the largest. A notebook
        shows them.

        measure
            Name of the measurement, such as ``"loss"``; None: the headline.
        labels
            Names for methods, such as ``{"fedgloss(...)": "FedGloSS"}``.
        """
        return plot_curves(self.labelled(labels or {}), measure)

    def labelled(self, labels: Labels) -> Results:
        """The same runs under other names of their methods, such as ``{"fedsam(...)": "FedSAM"}``.
        Runs of one method with different settings get these settings in their names.

        labels
            Names by the texts of methods; ``...`` stands for any arguments.
        """
        names = labelled([result.method for result in self], labels)
        for scenario in dict.fromkeys(result.scenario for result in self):
            own = [place for place, one in enumerate(self) if one.scenario == scenario]
            apart = differences([(self[place].method, self[place].settings) for place in own])
            for place, differing in zip(own, apart, strict=True):
                named = (f"{name}={value}" for name, value in differing.items())
                names[place] = ", ".join([names[place], *named])
        return Results(
            replace(result, method=name) for result, name in zip(self, names, strict=True)
        )

    @property
    def headline(self) -> Headline | None:
        """The headline score that all have in common, or None."""
        found = {result.headline for result in self}
        return found.pop() if len(found) == 1 else None

    def target_of_first(self) -> float | None:
        """The final score of the first of several methods, as a target for the others.

        None if it is no useful target, as for several settings of one method.
        """
        if any(result.tried > 1 for result in self):
            return None
        if any(differences([(result.method, result.settings) for result in self])):
            return None
        if self.headline is None or len({result.scenario for result in self}) > 1:
            return None
        if len({result.method for result in self}) < 2:
            return None
        first = mean(result.final() for result in self if result.method == self[0].method)
        sensible = 0 < first <= 1 if self.headline.share else math.isfinite(first)
        return first if sensible else None

    def frame(self) -> Any:
        """Every evaluation of every run as a row of a pandas DataFrame, if pandas is there.

        There is a column for each setting of the runs, such as ``lr``, and for each argument of a
        method, such as ``rho``. A column of the evaluations keeps its name.
        """
        return data_frame(self)
