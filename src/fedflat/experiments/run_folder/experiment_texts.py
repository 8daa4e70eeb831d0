"""The settings of an experiment as run.json and study.json hold them: texts and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedflat.composition.info import MethodInfo, method_info
from fedflat.data.info import DataInfo, data_info
from fedflat.experiments.run_folder.plugins_needed import PluginNeed
from fedflat.experiments.run_folder.schema import sign
from fedflat.settings.setting import Setting
from fedflat.tasks.headline import Headline

TASK = "classification()"
"""The task of runs that do not name one."""
_OTHERS = ("method", "loss", "local", "sampler", "evaluate", "headline", "plugins")
"""Keys that are not settings of a run by themselves."""


def selects_by_validation(select_by: str | None, patience: int | None) -> bool:
    """Whether the validation set chooses: if that is said, or if there is a patience.

    >>> selects_by_validation(None, None), selects_by_validation(None, 20)
    (False, True)
    """
    return (select_by or ("last" if patience is None else "validation")) == "validation"


@dataclass(frozen=True)
class ExperimentInfo:
    """The description of an experiment's method and data, for reports."""

    method: MethodInfo
    data: DataInfo | None
    """None if the data were given in Python, or if this version cannot read their text."""

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> ExperimentInfo:
        data = saved["data"]
        return cls(
            MethodInfo.from_json(saved["method"]),
            None if data is None else DataInfo.from_json(data),
        )

    def as_json(self) -> dict[str, Any]:
        data = None if self.data is None else self.data.as_json()
        return {"method": self.method.as_json(), "data": data}


@dataclass(frozen=True)
class ExperimentTexts:
    """An experiment in texts, as `Experiment.texts` makes it and `from_texts` reads it.

    >>> texts = ExperimentTexts.from_json({"method": "fedavg()", "rounds": 5, "local": {"lr": 0.1}})
    >>> texts.method, texts.rounds, texts.local["lr"], texts.on
    ('fedavg()', 5, 0.1, None)
    """

    method: str
    loss: str | None
    """None if the loss was given in Python."""
    run: Mapping[str, Any]
    """The fields of `RunSettings`. Folders of older versions may lack some."""
    local: Mapping[str, Any]
    """The fields of `LocalSettings`."""
    sampler: Mapping[str, Any]
    """The fields of `SamplerSettings`."""
    evaluate: Mapping[str, Any]
    """The fields of `EvaluateSettings`."""
    headline: Headline | None = None
    """The headline score of the run; None if the folder does not name it."""
    plugins: tuple[PluginNeed, ...] = ()
    """The plugins that the texts need."""

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> ExperimentTexts:
        """Read the object that `as_json` returns. It must match the schema `EXPERIMENT`."""
        return cls(
            saved["method"],
            saved.get("loss"),
            {name: value for name, value in saved.items() if name not in _OTHERS},
            saved.get("local", {}),
            saved.get("sampler", {}),
            saved.get("evaluate", {}),
            Headline.from_json(saved["headline"]) if "headline" in saved else None,
            tuple(map(PluginNeed.from_json, saved.get("plugins", ()))),
        )

    def as_json(self) -> dict[str, Any]:
        saved: dict[str, Any] = {
            "method": self.method,
            **self.run,
            "local": dict(self.local),
            "sampler": dict(self.sampler),
            "evaluate": dict(self.evaluate),
            "loss": self.loss,
        }
        if self.headline is not None:
            saved["headline"] = self.headline.as_json()
        if self.plugins:
            saved["plugins"] = [need.as_json() for need in self.plugins]
        return saved

    @property
    def on(self) -> str | None:
        """The data set; None if it was given in Python."""
        return self.run.get("on")

    @property
    def model(self) -> str | None:
        """The model; None if it was given in Python."""
        return self.run.get("model")

    @property
    def rounds(self) -> int:
        rounds: int = self.run["rounds"]
        return rounds

    @property
    def seed(self) -> int:
        """The seed of all random numbers."""
        seed: int = self.run["seed"]
        return seed

    @property
    def dtype(self) -> str:
        """The number type."""
        return str(self.run["dtype"])

    @property
    def task(self) -> str:
        return str(self.run.get("task", TASK))

    @property
    def attack(self) -> str:
        """The attack; empty without one."""
        return self.run.get("attack") or ""

    @property
    def last(self) -> int:
        """The number of last rounds that the reported score is averaged over."""
        last: int = self.evaluate["last"]
        return last

    @property
    def by_validation(self) -> bool:
        """Whether the validation set chooses the model that the run reports."""
        return selects_by_validation(self.evaluate.get("select_by"), self.evaluate.get("patience"))

    @property
    def only_in_python(self) -> list[str]:
        """The names of the settings that were given in Python and have no text."""
        given = {"on": self.on, "model": self.model, "loss": self.loss}
        return [name for name, text in given.items() if text is None]

    def info(self) -> ExperimentInfo:
        """The description by this version, which imports methods and data sets to read the
        texts."""
        return ExperimentInfo(method_info(self.method), data_info(self.on) if self.on else None)

    @property
    def replayed(self) -> bool:
        """Whether the clients or the batches of each round were given."""
        given = (self.sampler.get("cohorts"), self.local.get("orders"))
        return any(value is not None for value in given)

    def group(self, one: Setting) -> Mapping[str, Any]:
        groups = {"local": self.local, "sampler": self.sampler, "evaluate": self.evaluate}
        return groups[one.path[0]] if len(one.path) > 1 else self.run

    def same_settings(self, other: ExperimentTexts) -> bool:
        """Whether both are the same experiment; their plugins may have been moved in between."""
        return self._digest("plugins") == other._digest("plugins")

    @property
    def digest_without_attack(self) -> str:
        """A digest of all settings except the attack; empty if some were given in Python."""
        return "" if self.only_in_python else self._digest("attack", "plugins")

    def _digest(self, *without: str) -> str:
        return sign({name: value for name, value in self.as_json().items() if name not in without})
