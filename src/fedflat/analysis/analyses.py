"""The analyses: each finds its result on the shelf, or works it out, and can be stopped and taken
up again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedflat.analysis.analysis_store import AnalysisStore, Result, Settings
from fedflat.analysis.corruptions.evaluate import result as robustness
from fedflat.analysis.corruptions.evaluate import source, under_all
from fedflat.analysis.corruptions.official import official
from fedflat.analysis.loaded_run import LoadedRun, one_model
from fedflat.analysis.local_global import LocalGlobal, client_models
from fedflat.core.flat import Model
from fedflat.data.examples import ClientData
from fedflat.errors import LARGEST_SEED, SettingError, number
from fedflat.experiments.population import selected_clients
from fedflat.flatness.budget import MEMORY, Cost
from fedflat.flatness.curvature import curvature, expected
from fedflat.flatness.line import Line
from fedflat.flatness.plane import Plane
from fedflat.flatness.points import Landscape, losses
from fedflat.flatness.subsample import subset
from fedflat.flatness.surface import Surface
from fedflat.tasks.headline import ACCURACY, Headline
from fedflat.topologies.topology import SERVER

Tell = Callable[[float, float, str], None]
"""Told how much of how much is done, and of what."""
NOTED = 5.0
"""Seconds between two notes of how far an analysis has come."""
SHOWN = 200
"""Clients in the picture of a partition, at most."""


@dataclass(frozen=True)
class AnalysisResult:
    """The result of an analysis."""

    kind: str
    result: Result
    fresh: bool
    """Whether it was worked out now."""
    headline: Headline = ACCURACY
    """What its run is judged by."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What to look at, and how closely."""

    model: str | None = None
    where: str = "test"
    examples: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        number("analyse", "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)

    def data(self, loaded: LoadedRun) -> ClientData:
        """The examples."""
        data = loaded.examples(self.where)
        return (
            data
            if self.examples is None or self.examples >= len(data)
            else subset(data, self.examples, self.seed)
        )

    def said(self, loaded: LoadedRun, model: str) -> dict[str, Any]:
        """The settings for the shelf."""
        whole = len(loaded.examples(self.where))
        examples = None if self.examples is None or self.examples >= whole else self.examples
        said = {
            "model": model,
            "set": self.where,
            "examples": examples,
            "of": whole,
            "seed": self.seed,
        }
        return said if loaded.standing is None else {**said, "round": loaded.standing}


def once(
    store: AnalysisStore, kind: str, settings: Settings, work: Callable[[], Result]
) -> AnalysisResult:
    """What is on the shelf, or what ``work`` finds."""
    known = store.result(kind, settings)
    if known is not None:
        return AnalysisResult(kind, known, fresh=False)
    begun = time.monotonic()
    result = work()
    store.save(kind, settings, result, time.monotonic() - begun)
    return AnalysisResult(kind, result, fresh=True)


@dataclass(frozen=True, kw_only=True)
class CurvatureOptions:
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
            "spectrum": {
                "k": self.k,
                "power": self.power,
                "probes": self.probes,
                "method": self.method,
            }
        }
        if self.layers:
            parts["layers"] = {"k": 0, "layers": True}
        if self.rho is not None:
            parts["sharpness"] = {"k": 0, "rho": self.rho}
        if self.density:
            parts["density"] = {"k": 0, "density": self.density}
        return parts


def analyse_curvature(
    loaded: LoadedRun,
    look: Scope,
    on_progress: Tell,
    closely: CurvatureOptions,
    *,
    memory: int = MEMORY,
    warn: Callable[[Cost], object] = lambda cost: None,
) -> AnalysisResult:
    """Eigenvalues, trace, density and the like of one model, in at most ``memory`` bytes.

    ``warn`` is called with the expected cost before anything is worked out.
    """
    name, model = loaded.model(look.model)
    settings = {**look.said(loaded, name), **asdict(closely)}

    def work() -> Result:
        found: dict[str, Result] = loaded.shelf.begun("curvature", settings) or {}
        learner, data, examples = (
            loaded.ready.learner,
            loaded.examples(look.where),
            settings["examples"],
        )
        warn(expected(learner, model, data, examples=examples, memory=memory, **asdict(closely)))
        for part, how in closely.parts().items():
            if part not in found:
                found[part] = curvature(
                    learner,
                    model,
                    data,
                    examples=examples,
                    seed=look.seed,
                    memory=memory,
                    on_progress=on_progress,
                    **how,
                )
                loaded.shelf.note("curvature", settings, found)
        return {key: value for part in reversed(found.values()) for key, value in part.items()}

    return once(loaded.shelf, "curvature", settings, work)


def analyse_surface(
    loaded: LoadedRun, look: Scope, on_progress: Tell, *, points: int, span: float
) -> AnalysisResult:
    """The filter-normalised surface around one model."""
    name, model = loaded.model(look.model)
    settings = {**look.said(loaded, name), "points": points, "span": span}
    land = Surface(
        model.params, loaded.ready.learner.flat.layout, points=points, span=span, seed=look.seed
    )
    return _landscape(loaded, "surface", settings, land, model, look, on_progress)


def analyse_line(a: str, b: str, look: Scope, on_progress: Tell) -> AnalysisResult:
    """The straight line between two models, each ``RUN`` or ``RUN:MODEL``; kept with the first."""
    (loaded, name, model), (other, its_name, its_model) = one_model(a), one_model(b)
    _alike([loaded, other])
    settings = {**look.said(loaded, name), "a": loaded.spelled(name), "b": other.spelled(its_name)}
    return _landscape(
        loaded,
        "interpolate",
        settings,
        Line(model.params, its_model.params),
        model,
        look,
        on_progress,
    )


def three_models(said: Sequence[str]) -> list[tuple[LoadedRun, str, Model]]:
    """The models of a plane, if there are three that lie in one space."""
    if len(said) != 3:
        raise SettingError(
            f"a plane goes through three models, found {len(said)}. Name three: RUN or RUN:MODEL."
        )
    trio = [one_model(text) for text in said]
    _alike([loaded for loaded, _, _ in trio])
    return trio


def analyse_plane(said: Sequence[str], look: Scope, on_progress: Tell) -> AnalysisResult:
    """The plane through three models, each ``RUN`` or ``RUN:MODEL``; kept with the first."""
    trio = three_models(said)
    loaded, first, model = trio[0]
    names = [f"{one.name}: {name}" for one, name, _ in trio]
    names = names if len(set(names)) == 3 else [f"{one.folder}: {name}" for one, name, _ in trio]
    settings = {**look.said(loaded, first), "models": [one.spelled(name) for one, name, _ in trio]}
    plane = Plane({name: one.params for name, (_, _, one) in zip(names, trio, strict=True)})
    return _landscape(loaded, "plane", settings, plane, model, look, on_progress)


def analyse_clients_plane(loaded: LoadedRun, look: Scope, on_progress: Tell) -> AnalysisResult:
    """The plane through the models of three clients after one more visit."""
    cohort = _cohort(loaded)[:3]
    if len(cohort) < 3:
        raise SettingError(
            f"{loaded.folder}: a plane needs three clients a round, and this run has {len(cohort)}."
        )
    state, found = loaded.state, _client_models(loaded)
    settings = {**look.said(loaded, "server"), "models": [f"client {client}" for client in cohort]}
    plane = Plane({f"client {client}": found[client].params for client in cohort})
    return _landscape(loaded, "plane", settings, plane, state.model, look, on_progress)


def analyse_local_global(
    loaded: LoadedRun, look: Scope, on_progress: Tell, *, clients: int | None = None
) -> AnalysisResult:
    """How sharp clients' models are on their own data and on everybody's; those of a round, or the
    first of them."""
    if clients is not None:
        number("local against global", "clients", clients, low=1, whole=True)
    state, cohort = loaded.state, _cohort(loaded)[:clients]
    settings = {
        "round": state.round,
        "clients": cohort,
        "examples": look.examples,
        "seed": look.seed,
    }

    def work() -> Result:
        rows: list[Result] = loaded.shelf.begun("local_global", settings) or []
        outcome = _client_models(loaded)
        both = LocalGlobal(
            prepared=loaded.ready,
            round=state.round,
            models={client: outcome[client] for client in cohort},
            examples=look.examples,
            seed=look.seed,
        )
        for row in both.rows({row["client"] for row in rows}, on_progress):
            rows.append(row)
            loaded.shelf.note("local_global", settings, rows)
        return both.result(rows)

    return once(loaded.shelf, "local_global", settings, work)


def analyse_corruptions(
    loaded: LoadedRun, look: Scope, on_progress: Tell, *, kinds: Sequence[str] | None
) -> AnalysisResult:
    """The headline under each kind of corruption; of a whole test set that has published ones, on
    those if at hand."""
    name, model = loaded.model(look.model)
    published = official(loaded.experiment.on) if look.where == "test" else None
    reference = loaded.ready.fed.tests.get(loaded.ready.exp.task.reference)
    settings = {
        **look.said(loaded, name),
        "kinds": None if kinds is None else list(kinds),
        "images": source(published),
        **({} if reference is None else {"looked up in": len(reference)}),
    }

    def work() -> Result:
        found: dict[str, list[float]] = loaded.shelf.begun("corruptions", settings) or {}
        data = look.data(loaded)
        for kind, scores in under_all(
            loaded.ready.learner,
            model,
            data,
            kinds=kinds,
            seed=look.seed,
            known=list(found),
            on_progress=on_progress,
            published=published,
            reference=reference,
        ):
            found[kind] = scores
            loaded.shelf.note("corruptions", settings, found)
        return robustness(found, published)

    return replace(
        once(loaded.shelf, "corruptions", settings, work), headline=loaded.experiment.headline
    )


def analyse_partition(loaded: LoadedRun, on_progress: Tell) -> AnalysisResult:
    """How many examples of each class each client holds."""

    def work() -> Result:
        fed = loaded.ready.fed
        shown = min(fed.population, SHOWN)
        counts = [fed.data(client).counts(fed.classes).tolist() for client in range(shown)]
        return {"counts": counts, "clients": fed.population, "shown": shown}

    return once(loaded.shelf, "partition", {}, work)


def _landscape(
    loaded: LoadedRun,
    kind: str,
    settings: Settings,
    land: Landscape,
    model: Model,
    look: Scope,
    on_progress: Tell,
) -> AnalysisResult:
    def work() -> Result:
        values: list[Any] = loaded.shelf.begun(kind, settings) or []
        noted = time.monotonic()
        try:
            for value in losses(
                loaded.ready.learner,
                model.buffers,
                land,
                look.data(loaded),
                start=len(values),
                on_progress=on_progress,
            ):
                values.append(list(value))
                if time.monotonic() - noted > NOTED:
                    loaded.shelf.note(kind, settings, values)
                    noted = time.monotonic()
        except KeyboardInterrupt:
            loaded.shelf.note(kind, settings, values)
            raise
        return land.result(values)

    return once(loaded.shelf, kind, settings, work)


def _cohort(loaded: LoadedRun) -> list[int]:
    """The clients of the round that would come next; of the last one if the rounds were given."""
    prepared, round = loaded.ready, loaded.state.round
    if (
        prepared.exp.topology.has_chains
        or not prepared.exp.topology.synchronous
        or len(prepared.slots) > 1
    ):
        raise SettingError(
            f"{loaded.folder}: what is local and what is global is defined where every client is sent the server's "
            f"one model, not with {prepared.exp.topology}. Choose a run with a star."
        )
    cohorts = prepared.clients.sampler.cohorts
    return selected_clients(
        prepared.select(round if cohorts is None else min(round, len(cohorts) - 1))
    )


def _client_models(loaded: LoadedRun) -> dict[int, Model]:
    """The models of that round's clients, as the run itself would make them."""
    state, cohort = loaded.state, _cohort(loaded)
    return client_models(
        loaded.ready,
        state.model,
        state.round,
        cohort,
        states=state.server[SERVER],
        memory=state.clients.state,
    )


def _alike(runs: Sequence[LoadedRun]) -> None:
    """Refuse models that are not points of the same space."""
    shapes = {run.ready.learner.flat.layout.shapes for run in runs}
    if len(shapes) > 1:
        said = [
            f"{run.folder} ({run.experiment.model}, {run.ready.learner.flat.layout.dim:,} numbers)"
            for run in runs
        ]
        raise SettingError(
            f"the models have different shapes: {', '.join(said)}. Choose runs with the same model and data."
        )
