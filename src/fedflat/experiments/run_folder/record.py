"""``run.json``: what made a run, how it is executed, and how it ended.

`read_record` reads the file, checks its schema and its digests, and returns a `RunRecord`. No other
module reads the file. The keys of the file are

    fedflat      the version that made the run
    identity     the digest of what made the run: version, time, machine, experiment, origin
    status       "running", "done" or "diverged"
    experiment   the settings that decide its numbers, see `ExperimentTexts`
    origin       digests of its data and its module, see `Origin`
    how          the settings of execution; they may change when the run is resumed
    made         the time at which the run was created
    machine      Python, PyTorch, system and processor
    info         what the method and the data are, for reports, see `ExperimentInfo`
    recorded     the labels of recorded metrics, for reports
    tried        how many settings of its method a sweep tries, if it belongs to one
    end          the lengths of the logs and the model files, with digests, once the run has ended
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from fedflat.core.json_schema import Schema, check, damaged
from fedflat.errors import RunError, SettingError, printable
from fedflat.experiments.run_folder.checkpoints import Store, TensorFile
from fedflat.experiments.run_folder.experiment_texts import ExperimentInfo, ExperimentTexts
from fedflat.experiments.run_folder.jsonl_log import LOGS, JsonlLog, LogPosition, Row
from fedflat.experiments.run_folder.schema import CHECKPOINT, OF_ANY_VERSION, RUN, sign
from fedflat.files import Damaged, parse_json, read_file, write_file
from fedflat.tasks.headline import Headline
from fedflat.version import __version__

FILE = "run.json"
_MADE = ("fedflat", "made", "machine", "experiment", "origin")
"""Keys that never change; the identity is their digest."""
_ADVICE = "The run cannot be continued; start it anew."
Labels = Mapping[str, Mapping[str, str]]
"""Title, note, entries and unit of recorded metrics, by key."""


@dataclass(frozen=True)
class ModelInput:
    """One input of a module: the shape of an example, and whether it holds whole numbers."""

    shape: tuple[int, ...]
    whole: bool = False


@dataclass(frozen=True)
class Preparation:
    """The normalization of stored inputs to inputs of the module."""

    bytes: bool
    """Whether they are bytes, which are divided by 255."""
    mean: tuple[float, ...] = ()
    """Subtracted afterwards, one number for each channel or column; empty: nothing."""
    std: tuple[float, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"bytes": self.bytes, "mean": list(self.mean), "std": list(self.std)}


@dataclass(frozen=True)
class Origin:
    """The origin of a run besides its texts: digests, versions. None: not recorded."""

    data: str | None = None
    """The digest of the training and test data."""
    place: str | None = None
    """The folder in which the data were found."""
    shape: tuple[int, ...] = ()
    """The shape of an example."""
    classes: int = 0
    outputs: int | None = None
    """Outputs of the module; None: one for each class."""
    inputs: tuple[ModelInput, ...] = ()
    """The inputs of the module; empty: one, with the shape of an example."""
    module: str | None = None
    """The digest of the module without its trained weights."""
    start: str | None = None
    """The digest of the initial weights."""
    server: str | None = None
    """The digest of the server's data, if it has any."""
    clock: str | None = None
    """The digest of the clock's file, if it has one."""
    parameters: int | None = None
    """The number of trained parameters of the model."""
    clients: int | None = None
    """The number of clients."""
    examples: int | None = None
    """The training examples of all clients together; None where clients are made on demand."""
    test_examples: int | None = None
    """The examples of the test set."""
    prepared: Preparation | None = None
    """How stored inputs become those of the module."""

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Origin:
        inputs = (ModelInput(tuple(one["shape"]), one["whole"]) for one in saved.get("inputs", ()))
        shape = tuple(saved.get("shape", ()))
        found = {**saved, "inputs": tuple(inputs), "shape": shape}
        if "prepared" in found:
            kept = found["prepared"]
            found["prepared"] = Preparation(kept["bytes"], tuple(kept["mean"]), tuple(kept["std"]))
        return cls(**found)

    def as_json(self) -> dict[str, Any]:
        """The same as a JSON object, without what is not recorded."""
        if self == Origin():
            return {}
        inputs = [{"shape": list(one.shape), "whole": one.whole} for one in self.inputs]
        prepared = None if self.prepared is None else self.prepared.as_json()
        found = {
            **vars(self),
            "shape": list(self.shape),
            "inputs": inputs,
            "prepared": prepared,
        }
        return {
            name: value for name, value in found.items() if name == "place" or value is not None
        }

    @property
    def module_inputs(self) -> tuple[ModelInput, ...]:
        return self.inputs or (ModelInput(self.shape),)


@dataclass(frozen=True)
class RunEnd:
    logs: Mapping[str, LogPosition]
    """The ends of its logs by name: "metrics" and "recorded"."""
    models: Mapping[str, TensorFile]
    """The files of its models by name."""
    reported: str
    """The name of the model whose scores the run reports."""

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> RunEnd:
        models = {name: TensorFile(**file) for name, file in saved["models"].items()}
        logs = {name: LogPosition(**saved[name]) for name in LOGS}
        return cls(logs, models, saved["reported"])

    def as_json(self) -> dict[str, Any]:
        return {
            **{name: end._asdict() for name, end in self.logs.items()},
            "models": {name: file._asdict() for name, file in self.models.items()},
            "reported": self.reported,
        }


@dataclass(frozen=True)
class RunRecord:
    """The content of run.json, checked against its schema and its digests."""

    version: str
    """The version of fedflat that made the run."""
    identity: str
    """The digest of what made the run. All other files of the folder are tied to it."""
    status: str
    """"running", "done" or "diverged"."""
    experiment: ExperimentTexts
    origin: Origin
    execution: Mapping[str, Any]
    """The fields of `ExecutionSettings`."""
    made: str
    """The time at which the run was created, such as 2026-01-31T12:00:00+0100."""
    machine: Mapping[str, str | int | None]
    recorded: Labels = field(default_factory=dict)
    end: RunEnd | None = None
    """None as long as the run has not ended."""
    recorded_info: ExperimentInfo | None = None
    """What the texts meant when the run was made; None in folders that lack it."""
    tried: int = 1
    """How many settings of its method a sweep tries; 1 without a sweep."""
    _made: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What never changes, as it was read: it is written back as it is."""

    @classmethod
    def new(
        cls,
        experiment: ExperimentTexts,
        execution: Mapping[str, Any],
        origin: Origin,
        info: ExperimentInfo | None = None,
        tried: int = 1,
    ) -> RunRecord:
        """The record of a run that begins now."""
        made = {
            "fedflat": __version__,
            "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "machine": machine(),
            "experiment": experiment.as_json(),
            "origin": origin.as_json(),
        }
        found = {**made, "status": "running", "how": dict(execution), "identity": identity(made)}
        return replace(cls.from_json(found), recorded_info=info, tried=tried)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> RunRecord:
        """Read a JSON object that matches the schema `RUN`; `read_record` also checks digests."""
        return cls(
            saved["fedflat"],
            saved["identity"],
            saved["status"],
            ExperimentTexts.from_json(saved["experiment"]),
            Origin.from_json(saved["origin"]),
            saved["how"],
            saved["made"],
            saved["machine"],
            saved.get("recorded", {}),
            None if "end" not in saved else RunEnd.from_json(saved["end"]),
            None if "info" not in saved else ExperimentInfo.from_json(saved["info"]),
            saved.get("tried", 1),
            {name: saved[name] for name in _MADE},
        )

    def as_json(self) -> dict[str, Any]:
        saved: dict[str, Any] = {
            **self._made,
            "identity": self.identity,
            "status": self.status,
            "how": dict(self.execution),
        }
        if self.recorded_info is not None:
            saved["info"] = self.recorded_info.as_json()
        if self.recorded:
            saved["recorded"] = {key: dict(labels) for key, labels in self.recorded.items()}
        if self.tried > 1:
            saved["tried"] = self.tried
        if self.end is not None:
            end = self.end.as_json()
            saved["end"] = {**end, "digest": sign([self.identity, self.status, end])}
        return saved

    def write(self, folder: Path) -> None:
        write_file(folder / FILE, json.dumps(self.as_json(), indent=2).encode())

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def headline(self) -> Headline:
        return self.experiment.headline or Headline.from_json(None)

    @property
    def info(self) -> ExperimentInfo:
        """The description of the method and the data, recorded or read from the texts."""
        return self.recorded_info or self.experiment.info()

    def ended(self, status: str, end: RunEnd) -> RunRecord:
        """The record of the same run when it has ended."""
        return replace(self, status=status, end=end)

    def open_log(self, folder: Path, name: str) -> JsonlLog:
        scores = [self.headline.name] if name == "metrics" else []
        return JsonlLog(folder, name, self.identity, scores)


def identity(made: Mapping[str, Any]) -> str:
    """The digest of what made the run."""
    return sign({name: made[name] for name in _MADE})


def read_record(folder: Path) -> RunRecord:
    """Read run.json; an error that says what to do if it is not as it was written.

    A file that has not changed is parsed and checked once per process.
    """
    path = folder / FILE
    if not os.path.lexists(path):
        raise RunError(f"{folder} is not a run folder: it has no {FILE}.")
    return _record(path, read_content(path, _ADVICE))


@lru_cache(maxsize=1024)
def _record(path: Path, content: bytes) -> RunRecord:
    saved = parse_known(path, content, RUN, _ADVICE)
    try:
        record = RunRecord.from_json(saved)
    except SettingError as error:
        raise damaged(path, error, _ADVICE) from None
    if identity(saved) != record.identity:
        raise damaged(
            path,
            "its settings are not those that the run was begun with",
            "Put them back, or start a new run with the new ones.",
        )
    if record.running != (record.end is None):
        raise damaged(path, f"its status is {record.status!r}, but its end says otherwise", _ADVICE)
    if record.end is not None:
        end = dict(saved["end"])
        if end.pop("digest") != sign([record.identity, record.status, end]):
            raise damaged(path, "its end is not the one that was written", _ADVICE)
    return record


def read_content(path: Path, advice: str) -> bytes:
    """The bytes of a file; an error that ends in ``advice`` if it cannot be read."""
    try:
        content = read_file(path)
    except Damaged as error:
        raise damaged(path, error, advice) from None
    if content is None:
        raise damaged(path, "it does not exist", advice)
    return content


def parse_known(path: Path, content: bytes, schema: Schema, advice: str) -> dict[str, Any]:
    """The JSON object in a file of this version of fedflat, checked against a schema."""
    try:
        found: dict[str, Any] = parse_json(content)
        check(found, OF_ANY_VERSION)
        known_format(path.parent, found["fedflat"])
        check(found, schema)
    except Damaged as error:
        raise damaged(path, error, advice) from None
    return found


def read_rows(folder: Path, name: str = "metrics", record: RunRecord | None = None) -> list[Row]:
    """The rows of a log of a run: its evaluations, or its recorded metrics.

    A last line that was cut short is left out.
    """
    record = record or read_record(folder)
    if record.end is not None:
        end = record.end.logs[name]
        return record.open_log(folder, name).read((end.lines, end.chain))
    past = _checkpointed(folder, name, record)  # read before the rows, which may grow meanwhile
    return record.open_log(folder, name).read(past=past)


def _checkpointed(folder: Path, name: str, record: RunRecord) -> LogPosition | None:
    """The end of a log at the newest checkpoint of the run; None if none can be read."""
    found = Store(folder / "checkpoint").newest()
    try:
        check(found, {**CHECKPOINT, "*": object})
    except Damaged:  # or None; `resume` reports it
        return None
    return LogPosition(**found[name]) if found and found["run"] == record.identity else None


def known_format(folder: Path, version: str) -> None:
    """Refuse to read files of a version with another format; the first two numbers count."""
    if version.split(".")[:2] != __version__.split(".")[:2]:
        raise RunError(
            f"{folder} was made by fedflat {printable(version[:20])}, this is {__version__}, which "
            "has another format and may compute other numbers. Use that version of fedflat to "
            "continue, or start anew."
        )


def same_version(folder: Path, version: str) -> None:
    """Refuse to continue what another version began."""
    if version != __version__:
        raise RunError(
            f"{folder} was made by fedflat {printable(version[:20])}, this is {__version__}, and "
            "may compute other numbers. Use that version of fedflat to continue, or start anew."
        )


def machine() -> dict[str, str | int | None]:
    """The machine and the versions that compute the numbers."""
    return {
        "python": platform.python_version(),
        "torch": _version_of_torch(),
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }


@cache
def _version_of_torch() -> str:
    """Read from the files of the installed package; torch is not imported."""
    from importlib import metadata  # slow to import, and tables do not need it

    return metadata.version("torch")
