"""The command that repeats a run, and its settings as options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any

from fedflat.experiments.results.frame import OF_A_RUN, settings
from fedflat.experiments.run_folder.experiment_texts import TASK, ExperimentInfo, ExperimentTexts
from fedflat.experiments.run_folder.plugins_needed import missing
from fedflat.settings.execution import MACHINE
from fedflat.settings.setting import as_option

_OMITTED = {one.name: one.omitted_value for one in (*OF_A_RUN, *MACHINE) if one.name != "seed"}


def not_default(found: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from their defaults."""
    found = {
        name: value
        for name, value in found.items()
        if value is not None and value != _OMITTED.get(name)
    }
    if "local_steps" in found:
        found.pop("local_epochs", None)
    return found


def command(
    experiment: ExperimentTexts, execution: Mapping[str, Any], info: ExperimentInfo | None = None
) -> str:
    """The command that repeats a run; empty if only Python can start the run.

    ``info`` is what the run folder records about the experiment. None: its texts are read.

    >>> saved = {"method": "fedavg()", "on": "digits()", "model": "mlp()", "rounds": 5, "loss": "cross_entropy"}
    >>> command(ExperimentTexts.from_json(saved), {})
    "fedflat run 'fedavg()' --on 'digits()' --model 'mlp()' --rounds 5"
    """
    if experiment.only_in_python or execution.get("on_round_end"):
        return ""
    info = info or experiment.info()
    words = ["fedflat", "run", quote(experiment.method)]
    found = not_default({**settings(experiment), **execution})
    for name, decided in info.method.settings.items():
        if found.get(name) == decided:
            del found[name]
    task, usual_task = found.pop("task", TASK), TASK if info.data is None else info.data.usual_task
    words += [as_option(name, value) for name, value in found.items()]
    words += [as_option("task", task)] if task != usual_task else []
    if experiment.replayed:
        words += ["--replay", "FILE"]
    for plugin in (need.plugin for need in experiment.plugins):
        words += ["--plugin", quote(plugin.place or plugin.name)] if plugin.digest else []
    return " ".join(words)


def unread(experiments: Iterable[ExperimentTexts]) -> list[str]:
    """Return a sentence for each plugin that is needed to describe methods and is not loaded."""
    return list(dict.fromkeys(sentence for exp in experiments for sentence in missing(exp.plugins)))
