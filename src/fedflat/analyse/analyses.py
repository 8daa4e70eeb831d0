"""The analyses: each finds its result on the shelf, or works it out, and can be stopped and taken up again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedflat.analyse.local_global import LocalGlobal, client_models
from fedflat.analyse.shelf import Result, Settings, Shelf
from fedflat.analyse.subject import Subject, one_model
from fedflat.corruptions.evaluate import result as robustness
from fedflat.corruptions.evaluate import source, under_all
from fedflat.corruptions.official import official
from fedflat.data.examples import ClientData
from fedflat.engine.flat import Model
from fedflat.errors import LARGEST_SEED, SettingError, number
from fedflat.flatness.budget import MEMORY, Cost
from fedflat.flatness.curvature import curvature, expected
from fedflat.flatness.line import Line
from fedflat.flatness.plane import Plane
from fedflat.flatness.points import Landscape, losses
from fedflat.flatness.subsample import subset
from fedflat.flatness.surface import Surface
from fedflat.running.crowd import members
from fedflat.tasks.headline import ACCURACY, Headline
from fedflat.topology.topology import SERVER

Tell = Callable[[float, float, str], None]
"""Told how much of how much is done, and of what."""
NOTED = 5.0
"""Seconds between two notes of how far an analysis has come."""
SHOWN = 200
"""Clients in the picture of a partition, at most."""


@dataclass(frozen=True)
class Found:
    """The result of an analysis."""

    kind: str
    result: Result
    fresh: bool
    """Whether it was worked out now."""
    headline: Headline = ACCURACY
    """What its run is judged by."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What to look at, and how closely."""

    model: str | None = None
    where: str = "test"
    examples: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        number("analyse", "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)

    def data(self, subject: Subject) -> ClientData:
        """The examples."""
        data = subject.examples(self.where)
        return data if self.examples is None or self.examples >= len(data) else subset(data, self.examples, self.seed)

    def said(self, subject: Subject, model: str) -> dict[str, Any]:
        """The settings for the shelf."""
        whole = len(subject.examples(self.where))
        examples = None if self.examples is None or self.examples >= whole else self.examples
        said = {"model": model, "set": self.where, "examples": examples, "of": whole, "seed": self.seed}
        return said if subject.standing is None else {**said, "round": subject.standing}


def once(shelf: Shelf, kind: str, settings: Settings, work: Callable[[], Result]) -> Found:
    """What is on the shelf, or what ``work`` finds."""
    known = shelf.result(kind, settings)
    if known is not None:
        return Found(kind, known, fresh=False)
    begun = time.monotonic()
    result = work()
    shelf.save(kind, settings, result, time.monotonic() - begun)
    return Found(kind, result, fresh=True)


@dataclass(frozen=True, kw_only=True)
class Closely:
    """Which parts of the curvature; see `fedflat.flatness.curvature`."""

    k: int = 5
    power: bool = False
    probes: int = 0
    method: str = "hutchinson"
    density: int = 0
    layers: bool = False
    rho: float | None = None

    def __post_init__(self) -> None:
        for name in ("k", "probes", "density"):
            number("analyse", name, getattr(self, name), low=0, whole=True)
        if self.rho is not None:
            number("analyse", "rho", self.rho, low=0, open_low=True)

    def parts(self) -> dict[str, dict[str, Any]]:
        """What can be worked out by itself, and be kept when the rest is interrupted."""
        parts: dict[str, dict[str, Any]] = {
            "spectrum": {"k": self.k, "power": self.power, "probes": self.probes, "method": self.method}
        }
        if self.layers:
            parts["layers"] = {"k": 0, "layers": True}
        if self.rho is not None:
            parts["sharpness"] = {"k": 0, "rho": self.rho}
        if self.density:
            parts["density"] = {"k": 0, "density": self.density}
        return parts


def see_curvature(
    subject: Subject, look: Look, tell: Tell, closely: Closely, *, memory: int = MEMORY,
    warn: Callable[[Cost], object] = lambda cost: None,
) -> Found:  # fmt: skip
    """Eigenvalues, trace, density and the like of one model, in at most ``memory`` bytes.

    ``warn`` is called with the expected cost before anything is worked out.
    """
    name, model = subject.model(look.model)
    settings = {**look.said(subject, name), **asdict(closely)}

    def work() -> Result:
        found: dict[str, Result] = subject.shelf.begun("curvature", settings) or {}
        learner, data, examples = subject.ready.learner, subject.examples(look.where), settings["examples"]
        warn(expected(learner, model, data, examples=examples, memory=memory, **asdict(closely)))
        for part, how in closely.parts().items():
            if part not in found:
                found[part] = curvature(
                    learner, model, data, examples=examples, seed=look.seed, memory=memory, tell=tell, **how
                )
                subject.shelf.note("curvature", settings, found)
        return {key: value for part in reversed(found.values()) for key, value in part.items()}

    return once(subject.shelf, "curvature", settings, work)


def see_surface(subject: Subject, look: Look, tell: Tell, *, points: int, span: float) -> Found:
    """The filter-normalised surface around one model."""
    name, model = subject.model(look.model)
    settings = {**look.said(subject, name), "points": points, "span": span}
    land = Surface(model.params, subject.ready.learner.flat.layout, points=points, span=span, seed=look.seed)
    return _landscape(subject, "surface", settings, land, model, look, tell)


def see_line(a: str, b: str, look: Look, tell: Tell) -> Found:
    """The straight line between two models, each ``RUN`` or ``RUN:MODEL``; kept with the first."""
    (subject, name, model), (other, its_name, its_model) = one_model(a), one_model(b)
    _alike([subject, other])
    settings = {**look.said(subject, name), "a": subject.spelled(name), "b": other.spelled(its_name)}
    return _landscape(subject, "interpolate", settings, Line(model.params, its_model.params), model, look, tell)


def three_models(said: Sequence[str]) -> list[tuple[Subject, str, Model]]:
    """The models of a plane, if there are three that lie in one space."""
    if len(said) != 3:
        raise SettingError(f"a plane goes through three models, found {len(said)}. Name three: RUN or RUN:MODEL.")
    trio = [one_model(text) for text in said]
    _alike([subject for subject, _, _ in trio])
    return trio


def see_plane(said: Sequence[str], look: Look, tell: Tell) -> Found:
    """The plane through three models, each ``RUN`` or ``RUN:MODEL``; kept with the first."""
    trio = three_models(said)
    subject, first, model = trio[0]
    names = [f"{one.name}: {name}" for one, name, _ in trio]
    names = names if len(set(names)) == 3 else [f"{one.folder}: {name}" for one, name, _ in trio]
    settings = {**look.said(subject, first), "models": [one.spelled(name) for one, name, _ in trio]}
    plane = Plane({name: one.params for name, (_, _, one) in zip(names, trio, strict=True)})
    return _landscape(subject, "plane", settings, plane, model, look, tell)


def see_clients_plane(subject: Subject, look: Look, tell: Tell) -> Found:
    """The plane through the models of three clients after one more visit."""
    cohort = _cohort(subject)[:3]
    if len(cohort) < 3:
        raise SettingError(f"{subject.folder}: a plane needs three clients a round, and this run has {len(cohort)}.")
    state, found = subject.state, _client_models(subject)
    settings = {**look.said(subject, "server"), "models": [f"client {client}" for client in cohort]}
    plane = Plane({f"client {client}": found[client].params for client in cohort})
    return _landscape(subject, "plane", settings, plane, state.model, look, tell)


def see_local_global(subject: Subject, look: Look, tell: Tell, *, clients: int | None = None) -> Found:
    """How sharp clients' models are on their own data and on everybody's; those of a round, or the first of them."""
    if clients is not None:
        number("local against global", "clients", clients, low=1, whole=True)
    state, cohort = subject.state, _cohort(subject)[:clients]
    settings = {"round": state.round, "clients": cohort, "examples": look.examples, "seed": look.seed}

    def work() -> Result:
        rows: list[Result] = subject.shelf.begun("local_global", settings) or []
        visited = _client_models(subject)
        both = LocalGlobal(
            ready=subject.ready, round=state.round, models={client: visited[client] for client in cohort},
            examples=look.examples, seed=look.seed,
        )  # fmt: skip
        for row in both.rows({row["client"] for row in rows}, tell):
            rows.append(row)
            subject.shelf.note("local_global", settings, rows)
        return both.result(rows)

    return once(subject.shelf, "local_global", settings, work)


def see_corruptions(subject: Subject, look: Look, tell: Tell, *, kinds: Sequence[str] | None) -> Found:
    """The headline under each kind of corruption; of a whole test set that has published ones, on those if at hand."""
    name, model = subject.model(look.model)
    published = official(subject.experiment.on) if look.where == "test" else None
    reference = subject.ready.fed.tests.get(subject.ready.exp.task.reference)
    settings = {
        **look.said(subject, name), "kinds": None if kinds is None else list(kinds), "images": source(published),
        **({} if reference is None else {"looked up in": len(reference)}),
    }  # fmt: skip

    def work() -> Result:
        found: dict[str, list[float]] = subject.shelf.begun("corruptions", settings) or {}
        data = look.data(subject)
        for kind, scores in under_all(
            subject.ready.learner, model, data, kinds=kinds, seed=look.seed, known=list(found), tell=tell,
            published=published, reference=reference,
        ):  # fmt: skip
            found[kind] = scores
            subject.shelf.note("corruptions", settings, found)
        return robustness(found, published)

    return replace(once(subject.shelf, "corruptions", settings, work), headline=subject.experiment.headline)


def see_partition(subject: Subject, tell: Tell) -> Found:
    """How many examples of each class each client holds."""

    def work() -> Result:
        fed = subject.ready.fed
        shown = min(fed.population, SHOWN)
        counts = [fed.data(client).counts(fed.classes).tolist() for client in range(shown)]
        return {"counts": counts, "clients": fed.population, "shown": shown}

    return once(subject.shelf, "partition", {}, work)


def _landscape(
    subject: Subject, kind: str, settings: Settings, land: Landscape, model: Model, look: Look, tell: Tell
) -> Found:
    def work() -> Result:
        values: list[Any] = subject.shelf.begun(kind, settings) or []
        noted = time.monotonic()
        try:
            for value in losses(
                subject.ready.learner, model.buffers, land, look.data(subject), start=len(values), tell=tell
            ):
                values.append(list(value))
                if time.monotonic() - noted > NOTED:
                    subject.shelf.note(kind, settings, values)
                    noted = time.monotonic()
        except KeyboardInterrupt:
            subject.shelf.note(kind, settings, values)
            raise
        return land.result(values)

    return once(subject.shelf, kind, settings, work)


def _cohort(subject: Subject) -> list[int]:
    """The clients of the round that would come next; of the last one if the rounds were given."""
    ready, round = subject.ready, subject.state.round
    if ready.exp.topology.hands_on or not ready.exp.topology.waits or len(ready.slots) > 1:
        raise SettingError(
            f"{subject.folder}: what is local and what is global is defined where every client is sent the server's "
            f"one model, not with {ready.exp.topology}. Choose a run with a star."
        )
    cohorts = ready.crowd.sampler.cohorts
    return members(ready.asked(round if cohorts is None else min(round, len(cohorts) - 1)))


def _client_models(subject: Subject) -> dict[int, Model]:
    """The models of that round's clients, as the run itself would make them."""
    state, cohort = subject.state, _cohort(subject)
    return client_models(
        subject.ready, state.model, state.round, cohort, desks=state.desks[SERVER], memory=state.clients.memory
    )


def _alike(runs: Sequence[Subject]) -> None:
    """Refuse models that are not points of the same space."""
    shapes = {run.ready.learner.flat.layout.shapes for run in runs}
    if len(shapes) > 1:
        said = [f"{run.folder} ({run.experiment.model}, {run.ready.learner.flat.layout.dim:,} numbers)" for run in runs]
        raise SettingError(
            f"the models have different shapes: {', '.join(said)}. Choose runs with the same model and data."
        )
