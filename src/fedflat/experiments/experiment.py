"""Everything that decides the numbers of a run, as frozen values that print and read as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any, cast

import torch
from torch.nn.functional import cross_entropy

from fedflat.client.learner import DTYPES, Learner, ModelLike
from fedflat.client.local import LocalTraining
from fedflat.client.piece import Piece
from fedflat.composition.method import Method
from fedflat.core.messages import Train
from fedflat.core.schedules import Scalar, Schedule, at, check_end
from fedflat.data.cache import opened
from fedflat.data.domain_inputs import with_known_domains
from fedflat.data.examples import Tensors
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.files.paths import check_data_dir, data_place, remembered
from fedflat.data.info import VALIDATION
from fedflat.data.sets.other_examples import WHY, without_labels
from fedflat.data.sets.with_validation import WithValidation
from fedflat.errors import RunError, SettingError
from fedflat.experiments.evaluation_schedule import EvaluationSchedule
from fedflat.experiments.privacy_check import check_privacy
from fedflat.experiments.run_folder.experiment_texts import ExperimentInfo, ExperimentTexts
from fedflat.experiments.run_folder.plugins_needed import needs_of, refuse_unmet
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from fedflat.server.piece import ServerPiece
from fedflat.settings.groups import CONTIGUOUS, DIRECT, SETTINGS, RunSettings
from fedflat.settings.setting import Setting, settings_of
from fedflat.tasks.headline import Headline
from fedflat.tasks.task import Task
from fedflat.tasks.wrapped import LossFn

TASKS_OWN = "cross_entropy"
"""How run.json writes that no loss was given in Python."""


@dataclass(frozen=True, kw_only=True)
class Experiment(RunSettings):
    """One run, up to where it is computed.

    method
        The method.
    local
        Settings of local training.
    sampler
        Selects the clients of a round.
    evaluate
        When models are evaluated.
    """

    method: Method
    local: LocalTraining = LocalTraining()
    sampler: ClientSampler = ClientSampler()
    evaluate: EvaluationSchedule = EvaluationSchedule()
    loss: LossFn | None = None
    """In place of the task's own: the mean loss of outputs and targets."""

    def __post_init__(self) -> None:
        for one in _REGISTERED:
            object.__setattr__(self, one.name, _read(getattr(self, one.name), one))
        _set_validation_aside(self)
        if self.loss is cross_entropy and self.task.classifies:
            object.__setattr__(self, "loss", None)  # given, but the task's own
        _refuse_strangers(self)
        for one in SETTINGS:
            if one.about.otherwise is not None or one.name in self.method.topology_settings:
                _resolve(self, one)
        super().__post_init__()
        if self.weighting is not None:
            for piece in self.server_pieces():
                if piece.averages and piece.averages != self.weighting:
                    raise SettingError(
                        f"run: weighting={self.weighting!r} would change nothing, since {piece} "
                        f"takes the {piece.averages} mean of the replies itself. Leave it out."
                    )
        if (
            self.clock is not None
            and self.clock.drops_clients
            and self.topology.synchronous
            and self.min_replies is None
        ):
            raise SettingError(
                f"run: with {self.clock} replies may be lost, by a deadline or by clients that are "
                "away. Say with how many a round may go on: --min-replies 1."
            )
        self.topology.refuse(self.method, self.pieces())
        check_privacy(self)
        pieces = (*self.pieces(), *self.server_pieces(), *self.method.averages)
        check_end("run", (self.local, self.topology, *pieces), self.rounds)

    def pieces(self) -> tuple[Piece, ...]:
        """The client's whole stack: the method's pieces and those of the local settings, which
        `LocalTraining.pieces` gives.

        `+` sorts both by stage; in a chain the method's pieces come first. A setting of
        `RunSettings` that adds a client piece adds it here.
        """
        local = Method(client=self.local.pieces(keep=self.method.pooled), text="the local settings")
        if self.method.chained:
            return replace(self.method, client=self.method.client + local.client).client
        return (self.method + local).client

    def server_pieces(self) -> tuple[ServerPiece, ...]:
        """The server's whole stack: the method's pieces.

        A run setting that adds a server piece adds it here, with ``+``, which sorts by stage.
        """
        return self.method.server

    @property
    def headline(self) -> Headline:
        """The headline score."""
        return self.task.headline

    @property
    def instruction(self) -> Train:
        """The instruction that a round sends to its clients."""
        return Train(tests=any(evaluation.evaluates for evaluation in self.method.evaluations))

    def source(self, device: str) -> Callable[..., Federation]:
        """A picklable way to the data, for worker processes too; ``device=`` names another device."""
        blind = any(piece.unsupervised for piece in self.method.client)
        domains = max((piece.known_domains for piece in self.method.client), default=0)
        return partial(
            open_federation,
            self.on,
            self.seed,
            self.method.pooled,
            device=device,
            place=data_place(),
            blind=blind,
            domains=domains,
        )

    def open_learner(self, fed: Federation, device: str) -> Learner:
        """The module and its loss, made for the data."""
        some = torch.arange(2) % max(len(fed.test), 1)
        sample = fed.test.batch(some, DTYPES[self.dtype]).inputs if len(fed.test) else None
        return self.build_learner(fed.shape, self.task.outputs(fed), sample, device)

    def build_learner(
        self, shape: tuple[int, ...], outputs: int, sample: Tensors | None, device: str
    ) -> Learner:
        """The module and its loss, made for examples of this shape; needs no data."""
        return Learner(
            self.model,
            shape,
            outputs,
            seed=self.seed,
            task=self.task,
            loss=self.loss,
            dtype=self.dtype,
            device=device,
            layout=self.layout,
            convolutions=self.convolutions,
            sample=sample,
            pieces=self.method.client,
        )

    def cohort_sampler(self) -> ClientSampler:
        """The sampler of the cohorts.

        A centralised run has cohorts of one client. With a clock, more clients may be selected than
        the server waits for.
        """
        if self.method.pooled:
            return ClientSampler(clients=1)
        return (
            replace(self.sampler, clients=self.clock.selected_for(self.sampler.clients))
            if self.clock
            else self.sampler
        )

    def lr(self, t: int) -> float:
        """The local learning rate of round ``t``."""
        lr = at(self.local.lr, t)
        for average in self.method.averages:
            lr = average.lr(lr, t, self.rounds)
        return lr

    def info(self) -> ExperimentInfo:
        """What reports show about the method and the data."""
        return ExperimentInfo(self.method.info(), self.on.full_info())

    def as_json(self) -> dict[str, Any]:
        """`texts` as a JSON object."""
        return self.texts().as_json()

    def texts(self) -> ExperimentTexts:
        """Texts and numbers from which `from_texts` makes it again; None for what was given in
        Python."""
        local = {
            field.name: _plain(getattr(self.local, field.name)) for field in fields(self.local)
        }
        if self.local.orders is not None:
            local["orders"] = [
                {
                    str(client): [list(map(int, batch)) for batch in batches]
                    for client, batches in given.items()
                }
                for given in self.local.orders
            ]
        run = {
            "on": repr(self.on) if _has_text_form(self.on, "data set") else None,
            "model": repr(self.model) if isinstance(self.model, ModelSpec) else None,
            "rounds": self.rounds,
            **{name: _plain(getattr(self, name)) for name in _OWN},
            **{one.name: _text(getattr(self, one.name)) for one in _REGISTERED},
        }
        named = [run[name] for name in ("on", "model", *(one.name for one in _REGISTERED))]
        return ExperimentTexts(
            repr(self.method),
            TASKS_OWN if self.loss is None else None,
            run,
            local,
            asdict(self.sampler),
            self.evaluate.texts(),
            self.headline,
            needs_of([repr(self.method), *named, *local.values()]),
        )


def require_text_form(exp: Experiment) -> None:
    """Refuse to record a run whose method cannot be made again from its text."""
    if not _has_text_form(exp.method, "method"):
        raise SettingError(
            f"the method {str(exp.method)[:100]!r} was made by hand, and its text does not make it "
            "again: the run could be neither resumed nor analysed. Register it with "
            "@fedflat.method, or run it without a folder."
        )


def data_set(given: object) -> DataSpec:
    """The data set that was given, or the one that its text names."""
    on = parse(given, "data set") if isinstance(given, str) else given
    _must_be(
        "the data", "a data set or its text, such as 'digits(lda(0))'", on, isinstance(on, DataSpec)
    )
    return cast(DataSpec, on)


def task_of(given: object) -> Task:
    """The task that was given, or the one that its text names."""
    task = parse(given, "task") if isinstance(given, str) else given
    _must_be(
        "the task",
        "a task or its text, such as 'segmentation(ignore=255)'",
        task,
        isinstance(task, Task),
    )
    return cast(Task, task)


def _refuse_strangers(exp: Experiment) -> None:
    model = "a text such as 'mlp(hidden=[64])', a torch.nn.Module, or a function that makes one"
    _must_be(
        "the method",
        "a method or its text, such as 'fedavg'",
        exp.method,
        isinstance(exp.method, Method),
    )
    _must_be("the model", model, exp.model, isinstance(exp.model, ModelSpec) or callable(exp.model))
    loss = exp.loss is None or callable(exp.loss)
    _must_be("the loss", "a function of the model's output and the labels", exp.loss, loss)
    data_set(exp.on)


def _read(given: object, one: Setting) -> Any:
    """The value of a setting of a registered kind, or the one that its text names."""
    value = parse(given, one.about.registered) if isinstance(given, str) else given
    if value is None and one.default is None:
        return None
    if not _has_text_form(value, one.about.registered):
        raise SettingError(
            f"run: {one.name} must be a registered {one.about.registered} or its text, found "
            f"{given!r:.200}."
        )
    return value


def _set_validation_aside(exp: Experiment) -> None:
    """Take the validation share from the data, unless the data have set it aside already."""
    if isinstance(exp.on, WithValidation):
        given, named = exp.validation, (exp.on.share, exp.on.by)
        if given is not None and (given, exp.validation_by) != named:
            raise SettingError(
                f"run: validation={given:g} by {exp.validation_by} contradicts the data {exp.on}. "
                "Leave one of them out."
            )
        object.__setattr__(exp, "validation", exp.on.share)
        object.__setattr__(exp, "validation_by", exp.on.by)
    elif exp.validation is not None:
        on = WithValidation(data_set(exp.on), exp.validation, exp.validation_by)
        object.__setattr__(exp, "on", on)


def _resolve(exp: Experiment, one: Setting) -> None:
    """Set a setting to the given value, or to the method's, which must be equal; else to its
    default."""
    *group, name = one.path
    holder = getattr(exp, group[0]) if group else exp
    given, brought = getattr(holder, name), exp.method.topology_settings.get(one.name)
    if given is not None and brought is not None and given != brought:
        raise SettingError(
            f"run: {one.name}={given!r} contradicts the method {exp.method}, which brings "
            f"{brought!r}. Leave it out, or take another method."
        )
    known = [value for value in (given, brought, one.about.otherwise) if value is not None]
    value = _read(known[0], one) if one.about.registered else known[0]
    if group:
        object.__setattr__(exp, group[0], replace(holder, **{name: value}))
    else:
        object.__setattr__(exp, name, value)


def _must_be(what: str, needed: str, value: object, fits: bool) -> None:
    if not fits:
        raise SettingError(f"run: {what} must be {needed}, found {value!r}.")


def open_federation(
    on: DataSpec,
    seed: int,
    pooled: bool,
    device: str,
    place: str | None = None,
    blind: bool = False,
    domains: int = 0,
) -> Federation:
    """The federation on its device; one client with everything if ``pooled``. ``place`` is where to
    look for files; ``blind`` clients hold no targets. With ``domains``, the number of known
    domains, inputs have the number of their domain."""
    check_data_dir()
    with remembered(place):
        fed = opened(on, seed)
    fed = fed.pooled() if pooled else fed
    if blind and VALIDATION in fed.tests:
        raise SettingError(f"a validation share needs labels. {WHY}")
    fed = without_labels(fed) if blind else fed
    fed = with_known_domains(fed, domains) if domains else fed
    return fed if device == "cpu" else fed.to(device)


def from_json(saved: Mapping[str, Any], **given: Any) -> Experiment:
    """The experiment that `Experiment.as_json` has written; ``given`` as in `from_texts`."""
    return from_texts(ExperimentTexts.from_json(saved), **given)


def from_texts(
    texts: ExperimentTexts,
    *,
    on: DataSpec | None = None,
    model: ModelLike | None = None,
    loss: LossFn | None = None,
    exact: bool = True,
) -> Experiment:
    """The experiment that a run folder describes.

    ``on``, ``model`` and ``loss`` must be given again if they were given in Python. Plugins that it
    needs must be loaded; if ``exact``, in the version that the run was begun with.
    """
    refuse_unmet(texts.plugins, exact=exact)
    given = {"on": on, "model": model, "loss": loss}
    for name in texts.only_in_python:
        if given[name] is None:
            raise RunError(
                f"the run's {name!r} was given in Python and cannot be read from its folder. "
                f"Resume it in Python: fedflat.resume(folder, {name}=...)."
            )
    run = {"layout": CONTIGUOUS, "convolutions": DIRECT, **texts.run}  # before they were settings
    local = {
        name: parse(value, "schedule") if isinstance(value, str) else value
        for name, value in texts.local.items()
    }
    if local["orders"] is not None:
        local["orders"] = [
            {int(k): batches for k, batches in order.items()} for order in local["orders"]
        ]
    return Experiment(
        method=parse(texts.method, "method"),
        on=on or parse(run["on"], "data set"),
        model=model or parse(run["model"], "model"),
        rounds=texts.rounds,
        local=LocalTraining(**local),
        sampler=ClientSampler(**texts.sampler),
        evaluate=EvaluationSchedule(**texts.evaluate),
        **{name: _value(run[name], kind) for name, kind in _OWN.items() if name in run},
        **{one.name: run.get(one.name, one.default) for one in _REGISTERED},
        loss=loss,
    )


_REGISTERED = tuple(one for one in settings_of(RunSettings) if one.about.registered)
"""Settings that are given as registered names; a folder written before a setting existed has its
default."""
_OWN = {
    one.name: one.kind
    for one in settings_of(RunSettings)
    if one.name not in ("on", "model", "rounds") and one not in _REGISTERED
}
"""Settings that run.json keeps as plain values beside its groups, and their kinds."""


def _plain(value: Scalar | Any) -> Any:
    return repr(value) if isinstance(value, Schedule) else value


def _value(saved: Any, kind: str) -> Any:
    return parse(saved, "schedule") if kind == "Scalar" and isinstance(saved, str) else saved


def _text(value: object) -> str | None:
    return None if value is None else repr(value)


def _has_text_form(value: object, kind: str) -> bool:
    try:
        return bool(parse(repr(value), kind) == value)
    except Exception:
        return False


def default_model(task: Task, shape: tuple[int, ...]) -> ModelSpec:
    """The model that a task takes for inputs of that shape."""
    spec = parse(task.model_for(shape), "model")
    assert isinstance(spec, ModelSpec)
    return spec
