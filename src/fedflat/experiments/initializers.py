"""Initializers: the weights of a run before round 0.

    fresh()                                     random weights by the seed, or those of a given module
    from_weights("weights.safetensors")         by the module's own names
    from_run("runs/mine")                       the final model of another run
    pretrained(cifar10(), rounds=20)            trained first, in a run of its own beside this one
    pretrained(gta5(), rounds=10, styles=True)  on images that look like the clients' (LADD)

run.json stores the digest of the file or model, so a later change of it is detected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from fedflat.client.describers.mean_style import MeanStyle
from fedflat.client.instructions import Describer, Descriptions
from fedflat.client.learner import Learner
from fedflat.core.flat import Model
from fedflat.core.schedules import Scalar, scalar
from fedflat.core.weight_files import named_weights
from fedflat.data.derived import InStyles
from fedflat.data.federation import DataSpec
from fedflat.errors import RunError, SettingError, choice, number
from fedflat.experiments.run_folder.model_files import Named, choose_model, read_model
from fedflat.experiments.run_folder.record import RunEnd, read_record
from fedflat.files import Damaged, digest, read_file
from fedflat.registry.specs import TextSpec, parse, register
from fedflat.server.client_selection import ClientSampler
from fedflat.topologies.topology import Star

if TYPE_CHECKING:
    from fedflat.experiments.experiment import Experiment

First = Callable[["Experiment"], Named]
"""Trains or resumes a run that must come first; returns its final model, by the names in its
module."""
OpenLearner = Callable[["Experiment"], Learner]
"""Prepares a run that must come first, and returns its learner."""
ALL, MATCHING = KEPT = ("all", "matching")
KINDS_OF_FILES = "a safetensors file, or a state dict saved by torch"


class Initializer(TextSpec, ABC):
    """Base class of initializers: a frozen dataclass."""

    @abstractmethod
    def model(
        self, exp: Experiment, learner: Learner, descriptions: Descriptions, first: First
    ) -> Model:
        """Return parameters and buffers before round 0, given the descriptions of its
        `describers`."""

    @property
    def describers(self) -> tuple[Describer, ...]:
        """The descriptions that every client must compute first."""
        return ()

    def check(self, exp: Experiment, learner: Learner, opened: OpenLearner) -> None:
        """Raise an error before round 0 if the run cannot start from these weights."""

    def digest(self) -> str:
        """Return the digest of the file that the weights come from; empty if there is none."""
        return ""


@dataclass(frozen=True, repr=False)
class Fresh(Initializer):
    """Random weights by the run's seed; a module that was given in Python keeps its own."""

    def model(
        self, exp: Experiment, learner: Learner, descriptions: Descriptions, first: First
    ) -> Model:
        """Return the initial weights of the module."""
        return learner.initial()


class LoadedWeights(Initializer):
    keep: str

    @abstractmethod
    def weights(self) -> Named:
        """Return the weights, by the names in their module."""

    def check(self, exp: Experiment, learner: Learner, opened: OpenLearner) -> None:
        """Read the weights, and check that they fit the module."""
        fit_weights(self.weights(), learner, self)

    def model(
        self, exp: Experiment, learner: Learner, descriptions: Descriptions, first: First
    ) -> Model:
        """Return the weights of the file."""
        return fit_weights(self.weights(), learner, self)


@dataclass(frozen=True, repr=False)
class FromWeights(LoadedWeights):
    """Weights of a safetensors file, or of a state dict saved by torch, by the module's own names.

    ``keep="matching"`` loads weights of the same name and shape and leaves the others random, such
    as a last layer for another number of classes.

    path
        Path of the file.
    """

    path: str
    keep: str = ALL

    def __post_init__(self) -> None:
        _check("from_weights", "path", self.path, self.keep)

    def weights(self) -> Named:
        content = self._content()
        try:
            return named_weights(content)
        except Damaged as error:
            raise RunError(
                f"from_weights: {self.path} is neither a safetensors file nor a state dict saved "
                f"by torch ({error}). Name one."
            ) from None

    def digest(self) -> str:
        return digest(self._content()).hex()

    def _content(self) -> bytes:
        try:
            content = read_file(Path(self.path), None)
        except Damaged as error:
            raise RunError(
                f"from_weights: {self.path} cannot be read ({error}). Name {KINDS_OF_FILES}."
            ) from None
        if content is None:
            raise RunError(f"from_weights: there is no file {self.path}. Name {KINDS_OF_FILES}.")
        return content


@dataclass(frozen=True, repr=False)
class FromRun(LoadedWeights):
    """The final model of a run: the one that it reports, or another one by name.

    ``keep`` is that of `FromWeights`.

    folder
        The run folder.
    which
        Name of the model, such as ``swa``; None: the reported one.
    """

    folder: str
    which: str | None = None
    keep: str = ALL

    def __post_init__(self) -> None:
        _check("from_run", "folder", self.folder, self.keep)

    def weights(self) -> Named:
        end, name = self._found()
        return read_model(Path(self.folder), end, name)

    def digest(self) -> str:
        """Return the digest of the model's file."""
        end, name = self._found()
        return end.models[name].digest

    def _found(self) -> tuple[RunEnd, str]:
        record = read_record(Path(self.folder))
        if record.end is None or record.status not in ("done", "early"):
            raise SettingError(
                f"from_run: the run in {self.folder} has not ended, it is {record.status!r}. Let "
                f"it end first: `fedflat resume {self.folder}`."
            )
        end = record.end
        return end, choose_model(end.models, self.which or end.reported, self.folder)


@dataclass(frozen=True, repr=False)
class Pretrained(Initializer):
    """Weights from centralised training first: ``rounds`` rounds on all examples of ``on``, or of
    the server's data.

    Training uses the settings of the run, except for those given here. With ``styles`` every image
    gets the style of a client that is drawn anew each time: ``True`` or a ``mean_style(...)``,
    which every client then computes. It is a run of its own in the folder ``start`` of the run
    folder: it can be stopped, resumed and analysed.

    lr, batch_size
        As in local training; None: those of the run.
    epochs
        Local epochs per round.
    keep
        "all", or "matching": only weights with the same name and shape.
    """

    on: DataSpec | None = None
    rounds: int = 10
    lr: Scalar | None = None
    batch_size: int | None = None
    epochs: int = 1
    keep: str = ALL
    styles: bool | MeanStyle = False

    def __post_init__(self) -> None:
        if not isinstance(self.styles, bool | MeanStyle):
            raise SettingError(
                f"pretrained: styles must be True or a mean_style(...), found {self.styles!r}."
            )
        if not isinstance(self.on, DataSpec | None):
            raise SettingError(
                f"pretrained: on must be a data set, such as digits(), found {self.on!r}."
            )
        number("pretrained", "rounds", self.rounds, low=1, whole=True)
        number("pretrained", "epochs", self.epochs, low=1, whole=True)
        if self.batch_size is not None:
            number("pretrained", "batch_size", self.batch_size, low=1, whole=True)
        if self.lr is not None:
            scalar("pretrained", "lr", self.lr, low=0)
        choice("pretrained", "keep", self.keep, KEPT)

    def model(
        self, exp: Experiment, learner: Learner, descriptions: Descriptions, first: First
    ) -> Model:
        """Train or resume the first run, and return its final model."""
        before = self.experiment(exp)
        for style in self.describers:
            before = replace(
                before,
                on=InStyles(before.on, torch.stack([*descriptions[style]]), style.size),
            )
        return fit_weights(first(before), learner, self)

    @property
    def describers(self) -> tuple[MeanStyle, ...]:
        if isinstance(self.styles, MeanStyle):
            return (self.styles,)
        return (MeanStyle(),) if self.styles else ()

    def check(self, exp: Experiment, learner: Learner, opened: OpenLearner) -> None:
        """Prepare the first run, and check that its module fits."""
        fresh = opened(self.experiment(exp)).copy()
        fit_weights(fresh.state_dict_of(fresh.model()), learner, self)

    def experiment(self, exp: Experiment) -> Experiment:
        """The experiment of the first run."""
        on = self.on or exp.server_data
        if on is None:
            raise SettingError(
                f"init: {self} has no data. Name some, as in pretrained(digits()), or "
                "--server-data."
            )
        changes = {"lr": self.lr, "batch_size": self.batch_size}
        given = {name: value for name, value in changes.items() if value is not None}
        local = exp.local.optimizer_only(self.epochs, **given)
        method = parse("centralised()", "method")
        return replace(
            exp,
            method=method,
            on=on,
            server_data=None,
            rounds=self.rounds,
            local=local,
            sampler=ClientSampler(),
            init=Fresh(),
            topology=Star(),
            clock=None,
            min_replies=exp.min_replies and 1,
            weighting=None,
            evaluate=replace(exp.evaluate, every=self.rounds, last=1),
        )


def fit_weights(named: Named, learner: Learner, start: LoadedWeights | Pretrained) -> Model:
    """Return the named weights as a model of this run's module.

    With ``keep="matching"`` weights that do not fit stay random.
    """
    fresh = learner.copy()
    ours = fresh.state_dict_of(fresh.model())
    alike = {
        name: t.to(ours[name].dtype)
        for name, t in named.items()
        if name in ours and t.shape == ours[name].shape
    }
    other = sorted({*named, *ours} - {*alike})
    if not alike or (other and start.keep == ALL):
        shown = ", ".join(other[:3]) + (", ..." if len(other) > 3 else "")
        what = (
            f"{len(other)} of its weights do not fit ({shown})"
            if alike
            else "none of its weights fits"
        )
        raise SettingError(
            f"init: {start} is not a model of this run's module: {what}. Take the same model and "
            "data with as many "
            "classes" + (", or keep='matching', which leaves those fresh." if alike else ".")
        )
    return fresh.from_state_dict(ours | alike)


def _check(owner: str, name: str, path: object, keep: str) -> None:
    if not isinstance(path, str) or not path:
        raise SettingError(f"{owner}: {name} must be a text, found {path!r}.")
    choice(owner, "keep", keep, KEPT)


fresh = register("initializer", "fresh")(Fresh)
from_weights = register("initializer", "from_weights")(FromWeights)
from_run = register("initializer", "from_run")(FromRun)
pretrained = register("initializer", "pretrained")(Pretrained)
