"""Scenarios and labels of methods: runs are compared if they share the data set, its partition over
clients, the task, and the number of test examples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedflat.data.info import DataInfo, class_names, data_info
from fedflat.errors import SettingError, printable
from fedflat.experiments.results.frame import arguments
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


ANYTHING = "..."
Labels = Mapping[str, str]
"""Names by methods. A method is its text, its text with ``...`` for any arguments, or its text
without arguments."""


def read_labels(texts: Sequence[str]) -> dict[str, str]:
    """Labels that were typed as METHOD=NAME.

    >>> read_labels(["fedgloss(...)=FedGloSS", "fedsam(rho=0.1)=FedSAM (rho=0.1)"])
    {'fedgloss(...)': 'FedGloSS', 'fedsam(rho=0.1)': 'FedSAM (rho=0.1)'}
    """
    found = {}
    for text in texts:
        method, name = _halves(text)
        if not method or not name or not name.isprintable():
            raise SettingError(
                f"--label {printable(text)!r}: it must be METHOD=NAME, such as "
                "'fedgloss(...)=FedGloSS'."
            )
        found[method] = name
    return found


def _halves(text: str) -> tuple[str, str]:
    """The parts before and after the first ``=`` outside parentheses."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "=" and depth <= 0:
            return text[:place].strip(), text[place + 1 :].strip()
    return text.strip(), ""


def labelled(methods: Sequence[str], labels: Labels) -> list[str]:
    """The names of these methods: their labels, or their texts where no label fits.

    An exact text counts before one with ``...``, and both before a text without arguments. If one
    text means several methods, the arguments in which they differ follow the name. A label that fits
    no method is an error, and so is one that two texts give.

    >>> labelled(["fedavg()", "fedsam(rho=0.1) + swa()"], {"fedsam + swa": "FedSAM+SWA"})
    ['fedavg()', 'FedSAM+SWA']
    >>> labelled(["fedsam(rho=0.1)", "fedsam(rho=0.2)"], {"fedsam(...)": "FedSAM"})
    ['FedSAM (rho=0.1)', 'FedSAM (rho=0.2)']
    """
    distinct = list(dict.fromkeys(methods))
    names = {method: _label(method, labels) or method for method in distinct}
    for name in dict.fromkeys(labels.values()):
        sharing = [method for method in distinct if names[method] == name]
        if len(sharing) > 1 and len({without_arguments(method) for method in sharing}) == 1:
            for method in sharing:
                own = differing_arguments(method, sharing).items()
                names[method] = f"{name} ({', '.join(f'{key}={value}' for key, value in own)})"
    for text, name in labels.items():
        if not any(_fits(method, text) for method in distinct):
            raise SettingError(
                f"label: no run has the method {printable(text)!r}. "
                f"There are: {', '.join(distinct)}."
            )
        sharing = [method for method in distinct if names[method] == name]
        if len(sharing) > 1:
            raise SettingError(
                f"label: {name!r} would name {len(sharing)} methods: {', '.join(sharing)}. "
                "Give each its own name, by its whole text."
            )
    return [names[method] for method in methods]


def _label(method: str, labels: Labels) -> str | None:
    def rank(text: str) -> int:
        return 0 if _packed(text) == _packed(method) else 1 if ANYTHING in text else 2

    fitting = sorted((text for text in labels if _fits(method, text)), key=rank)
    return labels[fitting[0]] if fitting else None


def _fits(method: str, text: str) -> bool:
    """Whether a text means this method.

    >>> [_fits("fedsam(rho=0.1) + swa()", text) for text in ("fedsam + swa", "fedsam(...) + swa()")]
    [True, True]
    >>> [_fits("fedsam(rho=0.1)", text) for text in ("fedsam(rho=0.2)", "fedavg", "fedsam()")]
    [False, False, False]
    """
    packed, wanted = _packed(method), _packed(text)
    pattern = ".*".join(map(re.escape, wanted.split(ANYTHING)))
    bare = "(" not in wanted and wanted == without_arguments(packed)
    return bare or re.fullmatch(pattern, packed) is not None


def _packed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def without_arguments(text: str) -> str:
    """The text of a method without arguments.

    >>> without_arguments("fedasam(rho=warmup(0.1, 0.5, 9)) + swa()")
    'fedasam + swa'
    """
    shorter = re.sub(r"\([^()]*\)", "", text)
    return text if shorter == text else without_arguments(shorter)


def differing_arguments(method: str, among: Sequence[str]) -> dict[str, str]:
    """The arguments in which methods of the same name differ.

    >>> methods = ["fedavg()", "fedsam(rho=0.1) + swa()", "fedsam(rho=0.2) + swa()"]
    >>> [differing_arguments(one, methods) for one in methods]
    [{}, {'rho': '0.1'}, {'rho': '0.2'}]
    """
    bare = without_arguments(method)
    same = [one for one in among if without_arguments(one) == bare]
    if len(same) < 2:
        return {}
    try:
        own, others = arguments(method), [arguments(one) for one in same]
    except (SyntaxError, ValueError):  # no sum of calls: the whole text tells them apart
        return {"method": method}
    keys = dict.fromkeys(key for one in others for key in one)
    kept = [key for key in keys if len({one.get(key) for one in others}) > 1]
    pieces = bare.split(" + ")
    twice = {name for _, name in kept if sum(other == name for _, other in kept) > 1}
    return {
        f"{pieces[at]}.{name}" if name in twice else name: own.get((at, name), "default")
        for at, name in kept
    }
