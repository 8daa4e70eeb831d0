"""How a run was made: its settings as they are typed, and the command that repeats it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Any

from fedflat.errors import FedflatError
from fedflat.experiments.results.scenario import TASK
from fedflat.experiments.run_folder.plugins_needed import missing
from fedflat.registry.specs import parse
from fedflat.settings.groups import MACHINE, SETTINGS
from fedflat.settings.setting import as_option

_OF_A_RUN = [one for one in SETTINGS if one.name not in ("cohorts", "orders")]
_OMITTED = {one.name: one.omitted_value for one in (*_OF_A_RUN, *MACHINE) if one.name != "seed"}


def settings(experiment: dict[str, Any]) -> dict[str, Any]:
    """The settings that a run has, by the names of their options.

    >>> settings({"rounds": 5, "local": {"lr": 0.1}, "seed": 1})
    {'rounds': 5, 'lr': 0.1, 'seed': 1}
    """
    found = {}
    for one in _OF_A_RUN:
        value = experiment
        try:
            for key in one.path:
                value = value[key]
        except (KeyError, TypeError):
            continue
        found[one.name] = value
    return found


def not_default(found: dict[str, Any]) -> dict[str, Any]:
    """Those settings that differ from what happens when they are not typed."""
    found = {
        name: value
        for name, value in found.items()
        if value is not None and value != _OMITTED.get(name)
    }
    if "local_steps" in found:
        found.pop("local_epochs", None)
    return found


def command(experiment: dict[str, Any], how: dict[str, Any]) -> str:
    """The command that repeats a run; empty if only Python can start the run.

    >>> settings = {"method": "fedavg()", "on": "digits()", "model": "mlp()", "rounds": 5}
    >>> command(settings | {"loss": "cross_entropy"}, {})
    "fedflat run 'fedavg()' --on 'digits()' --model 'mlp()' --rounds 5"
    """
    if not all(isinstance(experiment.get(name), str) for name in ("method", "on", "model", "loss")):
        return ""
    words = ["fedflat", "run", quote(experiment["method"])]
    found = not_default({**settings(experiment), **how})
    for name, brought in _brought(experiment["method"]).items():
        if found.get(name) == brought:
            del found[name]
    task = found.pop("task", TASK)
    words += [as_option(name, value) for name, value in found.items()]
    words += [as_option("task", task)] if task != usual_task(experiment["on"]) else []
    if replayed(experiment):
        words += ["--replay", "FILE"]
    for plugin in experiment.get("plugins", ()):
        words += ["--plugin", quote(plugin["place"] or plugin["name"])] if plugin["digest"] else []
    return " ".join(words)


def _brought(method: str) -> dict[str, Any]:
    """The settings that a method decides by itself, as run.json has them; none if this version
    cannot read it."""
    try:
        found = parse(method, "method").topology_settings
    except (FedflatError, AttributeError):
        return {}
    return {
        name: value if isinstance(value, int | str) else repr(value)
        for name, value in found.items()
    }


def usual_task(on: str) -> str:
    """What data are for, by their text; a classification if this version cannot read it.

    >>> usual_task("digits()"), usual_task("diabetes(clients=8)"), usual_task("somebody_elses()")
    ('classification()', 'regression()', 'classification()')
    """
    try:
        return repr(parse(parse(on, "data set").usual_task, "task"))
    except (FedflatError, AttributeError):
        return TASK


def replayed(experiment: dict[str, Any]) -> bool:
    """True if clients or batches were given in a file."""
    given = [
        experiment.get(part, {}).get(name)
        for part, name in (("sampler", "cohorts"), ("local", "orders"))
    ]
    return any(value is not None for value in given)


def stack(method: str) -> str:
    """The pieces of a method in the order they act; empty if this version cannot read the text."""
    try:
        return str(parse(method, "method").stack())
    except (FedflatError, AttributeError):
        return ""


def unread(experiments: Iterable[dict[str, Any]]) -> list[str]:
    """Return a sentence for each plugin that is needed to describe methods and is not loaded."""
    return list(
        dict.fromkeys(
            sentence for exp in experiments for sentence in missing(exp.get("plugins", ()))
        )
    )


def labels(experiments: Sequence[dict[str, Any]]) -> list[str]:
    """A name for each run: its method, and whatever sets it apart from other runs of that method
    but for the seed.

    >>> labels([{"method": "a"}, {"method": "b", "rounds": 1}, {"method": "b", "rounds": 2}])
    ['a', 'b, rounds=1', 'b, rounds=2']
    """
    values: dict[str, dict[str, set[str]]] = {}
    spelled = [
        {name: json.dumps(value) for name, value in settings(exp).items() if name != "seed"}
        for exp in experiments
    ]
    for exp, own in zip(experiments, spelled, strict=True):
        alike = values.setdefault(str(exp.get("method")), {})
        for one in _OF_A_RUN:
            alike.setdefault(one.name, set()).add(own.get(one.name, "null"))
    names = []
    for exp, own in zip(experiments, spelled, strict=True):
        alike = values[str(exp.get("method"))]
        apart = [f"{name}={settings(exp)[name]}" for name in own if len(alike[name]) > 1]
        names.append(", ".join([str(exp.get("method")), *apart]))
    return names
