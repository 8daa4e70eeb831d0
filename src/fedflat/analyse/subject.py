"""A run folder opened to be looked at: its data, its task, its models. Nothing in it is changed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load

from fedflat.analyse.shelf import Shelf
from fedflat.client.states import ClientStates
from fedflat.data.examples import ClientData
from fedflat.errors import RunError, SettingError
from fedflat.files import Damaged
from fedflat.flat import Model
from fedflat.runs.book import read_facts
from fedflat.runs.experiment import Experiment, from_json
from fedflat.runs.plan import runs_in
from fedflat.runs.ready import Ready, make_ready
from fedflat.runs.state import CLIENTS, Run, run_of
from fedflat.runs.store import Store


@dataclass(frozen=True)
class Subject:
    """One run."""

    folder: Path

    @cached_property
    def experiment(self) -> Experiment:
        """What was run."""
        return from_json(read_facts(self.folder)["experiment"])

    @property
    def name(self) -> str:
        """The run for people."""
        return f"{self.experiment.method}, seed {self.experiment.seed}"

    @cached_property
    def ready(self) -> Ready:
        """Its data and task."""
        return make_ready(self.experiment)

    @property
    def shelf(self) -> Shelf:
        """Where its analyses are kept."""
        return Shelf(self.folder / "analysis")

    @cached_property
    def models(self) -> dict[str, Model]:
        """Its last models by name: those of the end, or of the last checkpoint if it has not ended."""
        path = self.folder / "final.safetensors"
        if not path.exists():
            return {"server": self.state.model}
        try:
            tensors = load(path.read_bytes())
            names = list(dict.fromkeys(key.rpartition("/")[0] for key in sorted(tensors)))
            return {name: Model(tensors[f"{name}/params"], tensors[f"{name}/buffers"]) for name in names}
        except (OSError, KeyError, SafetensorError) as error:
            raise RunError(
                f"{path} is damaged ({error}). Delete it and `fedflat resume {self.folder}` writes it again."
            ) from None

    @property
    def standing(self) -> int | None:
        """The round of its last checkpoint, whose model is used, if it has not ended."""
        return None if (self.folder / "final.safetensors").exists() else self.state.round

    @property
    def unfinished(self) -> str:
        """A sentence if the run has not ended."""
        if self.standing is None:
            return ""
        return f"{self.folder} has not ended: its model of round {self.standing} is used."

    def spelled(self, model: str) -> str:
        """One of its models as ``RUN:MODEL``; of a run that goes on, with the round."""
        return f"{self.folder}:{model}" + ("" if self.standing is None else f" in round {self.standing}")

    @cached_property
    def state(self) -> Run:
        """Where the run stands, by its newest checkpoint that is whole."""
        store = Store(self.folder / "checkpoint")
        for round in store.rounds():
            clients = ClientStates(folder=store.folder)
            try:
                groups, facts = store.read(round)
                clients.restore({known: store.group(known, CLIENTS) for known in store.rounds()})
                return run_of(round, groups, facts, clients)
            except (Damaged, KeyError, TypeError):
                continue
        raise RunError(
            f"{self.folder} has no checkpoint that can be read: there is no model to look at. Run it again, or "
            f"`fedflat resume {self.folder}`."
        )

    def model(self, name: str | None) -> tuple[str, Model]:
        """A model by name; None: the one the run reports, that of its last shadow if it has one."""
        said = name or ["server", *self._shadows][-1]
        if said not in self.models:
            raise SettingError(f"{self.folder} has no model {said!r}, only {', '.join(self.models)}. Name one of them.")
        return said, self.models[said]

    @property
    def _shadows(self) -> list[str]:
        return [shadow.key for shadow in self.experiment.method.shadows if shadow.key in self.models]

    def examples(self, where: str) -> ClientData:
        """The set "test", "train" (of all clients together), or "client:3"."""
        fed = self.ready.fed
        if where == "test":
            return fed.test
        if where == "train":
            return fed.pooled().data(0)
        kind, _, place = where.partition(":")
        if kind == "client" and re.fullmatch("[0-9]{1,12}", place) and int(place) < fed.population:
            return fed.data(int(place))
        raise SettingError(
            f"the set must be test, train, or client:K with K from 0 to {fed.population - 1}, found {where!r}."
        )


def subjects(folders: list[Path]) -> list[Subject]:
    """The runs in these folders; a study is all its runs that have begun."""
    found: list[Subject] = []
    for folder in folders:
        begun, _ = runs_in(folder)
        if not begun:
            raise RunError(f"no run of {folder} has begun. Run it with: fedflat resume {folder}")
        found += [Subject(run) for run in begun]
    return found


def one_model(said: str) -> tuple[Subject, str, Model]:
    """The run, the name and the model of a text ``RUN`` or ``RUN:MODEL``."""
    folder, name = Path(said), None
    if not folder.exists() and ":" in said:
        folder, name = Path(said.rpartition(":")[0]), said.rpartition(":")[2]
    if not (folder / "run.json").exists():
        raise RunError(
            f"{folder} is not a run folder: it has no run.json. Name a run, or RUN:MODEL for one of its models."
        )
    subject = Subject(folder)
    return subject, *subject.model(name)
