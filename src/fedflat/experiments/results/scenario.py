"""Scenarios: runs are compared if they share the data set, its partition over clients, the task,
and the number of test examples."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedflat.data.info import DataInfo, class_names, data_info
from fedflat.experiments.run_folder.experiment_texts import TASK, ExperimentTexts

PYTHON = "data given in Python"


@dataclass(frozen=True)
class Scenario:
    """The data and the task of a run, by their texts."""

    on: str = ""
    """The text of the data set and its partition; empty if they were given in Python."""
    task: str = TASK
    digest: str = ""
    """The digest of data that were given in Python."""
    examples: int | None = None
    """Test examples that models are evaluated on; None: all."""
    recorded_info: DataInfo | None = field(default=None, compare=False)
    """The run folder's description of the data; None: the text is read when it is needed."""

    @classmethod
    def of(
        cls, experiment: ExperimentTexts, data: str | None = None, info: DataInfo | None = None
    ) -> Scenario:
        """The scenario of an experiment.

        ``data`` is the digest of its data and ``info`` what is known about them, if available.
        """
        on = experiment.on or ""
        examples = experiment.evaluate.get("examples")
        return cls(on, experiment.task, "" if on else data or "", examples, info)

    @property
    def info(self) -> DataInfo | None:
        """The description of the data; None if they were given in Python, or if this version cannot
        read their text."""
        return self.recorded_info or (data_info(self.on) if self.on else None)

    @property
    def title(self) -> str:
        """A name that no other scenario has.

        >>> Scenario("digits(lda(0))").title, Scenario(digest="12345678abc").title
        ('digits(lda(0)), classification()', 'data given in Python (12345678), classification()')
        """
        fewer = f", {self.examples:,} test examples" if self.examples else ""
        return f"{self.on or self.data_set}, {self.task}{fewer}"

    @property
    def tested_on(self) -> str:
        """The examples that models are evaluated on, in words.

        >>> Scenario().tested_on, Scenario(examples=1000).tested_on
        ('the test set', '1,000 random examples of the test set')
        """
        return (
            f"{self.examples:,} random examples of the test set"
            if self.examples
            else "the test set"
        )

    @property
    def data_set(self) -> str:
        """The name of the data set.

        >>> Scenario("digits(lda(0), clients=10)").data_set, Scenario().data_set
        ('digits', 'data given in Python')
        """
        if not self.on:
            return f"{PYTHON} ({self.digest[:8]})" if self.digest else PYTHON
        info = self.info
        return self.on if info is None else info.name

    @property
    def partition(self) -> str:
        """The partition and the number of clients, in words.

        >>> Scenario("digits(lda(0), clients=10)").partition, Scenario("digits()").partition
        ('lda(0), 10 clients', 'iid(), 100 clients')
        >>> Scenario("tested_on(digits(lda(0.5)), digits())").partition
        'lda(0.5), 100 clients'
        >>> Scenario("street(clients=4)").partition, Scenario().partition
        ("the data set's own, 4 clients", 'given in Python')
        """
        if not self.on:
            return "given in Python"
        info = self.info
        return "not readable without the plugin of the data set" if info is None else info.partition

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the partition to print beside results."""
        info = self.info
        return () if info is None else info.notes

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes; empty if they are not known."""
        if self.recorded_info is not None and self.recorded_info.class_names is not None:
            return self.recorded_info.class_names
        return class_names(self.on) if self.on else ()
