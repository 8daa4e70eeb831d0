"""The analyses of a run. Each loads its stored result or computes it, and can be interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedflat.analysis.analysis_store import AnalysisStore, Result, Settings
from fedflat.analysis.client_training import next_cohort, trained_client_models
from fedflat.analysis.corruptions.evaluate import evaluate_corruptions, source
from fedflat.analysis.corruptions.evaluate import result as robustness
from fedflat.analysis.corruptions.official import official
from fedflat.analysis.loaded_run import LoadedRun, one_model
from fedflat.analysis.local_global import LocalGlobal
from fedflat.core.flat import Model
from fedflat.data.examples import ClientData
from fedflat.errors import LARGEST_SEED, SettingError, number
from fedflat.flatness.budget import MEMORY, AnalysisCost
from fedflat.flatness.curvature import curvature, estimate_cost
from fedflat.flatness.line import Line
from fedflat.flatness.plane import Plane
from fedflat.flatness.points import Landscape, losses
from fedflat.flatness.subsample import subset
from fedflat.flatness.surface import Surface
from fedflat.tasks.headline import ACCURACY, Headline

Tell = Callable[[float, float, str], None]
"""Called with the amount done, the total amount, and what is being done."""
SAVE_INTERVAL = 5.0
"""Seconds between two saves of a partial result."""
MAX_CLIENTS = 200
"""Largest number of clients in a partition."""


@dataclass(frozen=True)
class AnalysisResult:
    """The result of an analysis."""

    kind: str
    result: Result
    fresh: bool
    """True if it was computed now, False if it was loaded."""
    headline: Headline = ACCURACY
    """The headline score of the run."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Which model and which examples to analyse."""

    model: str | None = None
    where: str = "test"
    examples: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        number("analyse", "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)

    def data(self, loaded: LoadedRun) -> ClientData:
        """Return the examples."""
        data = loaded.examples(self.where)
        return (
            data
            if self.examples is None or self.examples >= len(data)
            else subset(data, self.examples, self.seed)
        )

    def settings(self, loaded: LoadedRun, model: str) -> dict[str, Any]:
        """Return the settings that identify the analysis in the store."""
        whole = len(loaded.examples(self.where))
        examples = None if self.examples is None or self.examples >= whole else self.examples
        values = {
            "model": model,
            "set": self.where,
            "examples": examples,
            "of": whole,
            "seed": self.seed,
        }
        return (
            values
            if loaded.checkpoint_round is None
            else {**values, "round": loaded.checkpoint_round}
        )


def load_or_compute(
    store: AnalysisStore, kind: str, settings: Settings, work: Callable[[], Result]
) -> AnalysisResult:
    """Return the stored result of an analysis, or compute it with `work` and store it."""
    stored = store.result(kind, settings)
    if stored is not None:
        return AnalysisResult(kind, stored, fresh=False)
    start = time.monotonic()
    result = work()
    store.save(kind, settings, result, time.monotonic() - start)
    return AnalysisResult(kind, result, fresh=True)


@dataclass(frozen=True, kw_only=True)
class CurvatureOptions:
    """Which parts of the curvature to compute. See `fedflat.flatness.curvature`."""

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
        """Return the parts that are computed and stored one after the other."""
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
    scope: Scope,
    on_progress: Tell,
    closely: CurvatureOptions,
    *,
    memory: int = MEMORY,
    warn: Callable[[AnalysisCost], object] = lambda cost: None,
) -> AnalysisResult:
    """Analyse eigenvalues, trace, density and sharpness of one model, in at most `memory` bytes.

    `warn` is called with the expected cost before the computation.
    """
    name, model = loaded.model(scope.model)
    settings = {**scope.settings(loaded, name), **asdict(closely)}

    def work() -> Result:
        results: dict[str, Result] = loaded.store.load_partial("curvature", settings) or {}
        learner, data, examples = (
            loaded.prepared.learner,
            loaded.examples(scope.where),
            settings["examples"],
        )
        warn(
            estimate_cost(learner, model, data, examples=examples, memory=memory, **asdict(closely))
        )
        for part, options in closely.parts().items():
            if part not in results:
                results[part] = curvature(
                    learner,
                    model,
                    data,
                    examples=examples,
                    seed=scope.seed,
                    memory=memory,
                    on_progress=on_progress,
                    **options,
                )
                loaded.store.save_partial("curvature", settings, results)
        return {key: value for part in reversed(results.values()) for key, value in part.items()}

    return load_or_compute(loaded.store, "curvature", settings, work)


def analyse_surface(
    loaded: LoadedRun, scope: Scope, on_progress: Tell, *, points: int, span: float
) -> AnalysisResult:
    """Analyse the filter-normalised loss surface around one model."""
    name, model = loaded.model(scope.model)
    settings = {**scope.settings(loaded, name), "points": points, "span": span}
    land = Surface(
        model.params, loaded.prepared.learner.flat.layout, points=points, span=span, seed=scope.seed
    )
    return _landscape(loaded, "surface", settings, land, model, scope, on_progress)


def analyse_line(a: str, b: str, scope: Scope, on_progress: Tell) -> AnalysisResult:
    """Analyse the straight line between two models, each `RUN` or `RUN:MODEL`.

    The result is stored with the first run.
    """
    (loaded, name, model), (other, other_name, other_model) = one_model(a), one_model(b)
    _refuse_different_shapes([loaded, other])
    settings = {
        **scope.settings(loaded, name),
        "a": loaded.model_text(name),
        "b": other.model_text(other_name),
    }
    return _landscape(
        loaded,
        "interpolate",
        settings,
        Line(model.params, other_model.params),
        model,
        scope,
        on_progress,
    )


def three_models(texts: Sequence[str]) -> list[tuple[LoadedRun, str, Model]]:
    """Return the models of a plane. Refuse other than three, or models of different shapes."""
    if len(texts) != 3:
        raise SettingError(
            f"a plane goes through three models, found {len(texts)}. "
            "Give three, each as RUN or RUN:MODEL."
        )
    models = [one_model(text) for text in texts]
    _refuse_different_shapes([loaded for loaded, _, _ in models])
    return models


def analyse_plane(texts: Sequence[str], scope: Scope, on_progress: Tell) -> AnalysisResult:
    """Analyse the plane through three models, each `RUN` or `RUN:MODEL`.

    The result is stored with the first run.
    """
    models = three_models(texts)
    loaded, first, model = models[0]
    names = [f"{one.name}: {name}" for one, name, _ in models]
    names = names if len(set(names)) == 3 else [f"{one.folder}: {name}" for one, name, _ in models]
    settings = {
        **scope.settings(loaded, first),
        "models": [one.model_text(name) for one, name, _ in models],
    }
    plane = Plane({name: one.params for name, (_, _, one) in zip(names, models, strict=True)})
    return _landscape(loaded, "plane", settings, plane, model, scope, on_progress)


def analyse_clients_plane(loaded: LoadedRun, scope: Scope, on_progress: Tell) -> AnalysisResult:
    """Analyse the plane through the models of three clients after local training."""
    cohort = next_cohort(loaded)[:3]
    if len(cohort) < 3:
        raise SettingError(
            f"{loaded.folder}: a plane needs three clients per round, and this run has "
            f"{len(cohort)}. Choose another run."
        )
    state, models = loaded.state, trained_client_models(loaded)
    settings = {
        **scope.settings(loaded, "server"),
        "models": [f"client {client}" for client in cohort],
    }
    plane = Plane({f"client {client}": models[client].params for client in cohort})
    return _landscape(loaded, "plane", settings, plane, state.model, scope, on_progress)


def analyse_local_global(
    loaded: LoadedRun, scope: Scope, on_progress: Tell, *, clients: int | None = None
) -> AnalysisResult:
    """Analyse how sharp client models are on their own data and on the data of all clients.

    `clients` is the number of clients of the cohort to use, None for all.
    """
    if clients is not None:
        number("local against global", "clients", clients, low=1, whole=True)
    state, cohort = loaded.state, next_cohort(loaded)[:clients]
    settings = {
        "round": state.round,
        "clients": cohort,
        "examples": scope.examples,
        "seed": scope.seed,
    }

    def work() -> Result:
        rows: list[Result] = loaded.store.load_partial("local_global", settings) or []
        cohort_models = trained_client_models(loaded)
        analysis = LocalGlobal(
            prepared=loaded.prepared,
            round=state.round,
            models={client: cohort_models[client] for client in cohort},
            examples=scope.examples,
            seed=scope.seed,
        )
        for row in analysis.rows({row["client"] for row in rows}, on_progress):
            rows.append(row)
            loaded.store.save_partial("local_global", settings, rows)
        return analysis.result(rows)

    return load_or_compute(loaded.store, "local_global", settings, work)


def analyse_corruptions(
    loaded: LoadedRun, scope: Scope, on_progress: Tell, *, kinds: Sequence[str] | None
) -> AnalysisResult:
    """Analyse the headline under each kind of corruption.

    The published images are used if they exist for the test set and were downloaded.
    """
    name, model = loaded.model(scope.model)
    published = official(loaded.experiment.on) if scope.where == "test" else None
    reference = loaded.prepared.fed.tests.get(loaded.prepared.exp.task.reference)
    settings = {
        **scope.settings(loaded, name),
        "kinds": None if kinds is None else list(kinds),
        "images": source(published),
        **({} if reference is None else {"looked up in": len(reference)}),
    }

    def work() -> Result:
        scores_of_kinds: dict[str, list[float]] = (
            loaded.store.load_partial("corruptions", settings) or {}
        )
        data = scope.data(loaded)
        for kind, scores in evaluate_corruptions(
            loaded.prepared.learner,
            model,
            data,
            kinds=kinds,
            seed=scope.seed,
            known=list(scores_of_kinds),
            on_progress=on_progress,
            published=published,
            reference=reference,
        ):
            scores_of_kinds[kind] = scores
            loaded.store.save_partial("corruptions", settings, scores_of_kinds)
        return robustness(scores_of_kinds, published)

    return replace(
        load_or_compute(loaded.store, "corruptions", settings, work),
        headline=loaded.experiment.headline,
    )


def analyse_partition(loaded: LoadedRun, on_progress: Tell) -> AnalysisResult:
    """Count the examples of each class at each client."""

    def work() -> Result:
        fed = loaded.prepared.fed
        shown = min(fed.population, MAX_CLIENTS)
        counts = [fed.data(client).counts(fed.classes).tolist() for client in range(shown)]
        return {"counts": counts, "clients": fed.population, "shown": shown}

    return load_or_compute(loaded.store, "partition", {}, work)


def _landscape(
    loaded: LoadedRun,
    kind: str,
    settings: Settings,
    land: Landscape,
    model: Model,
    scope: Scope,
    on_progress: Tell,
) -> AnalysisResult:
    def work() -> Result:
        values: list[Any] = loaded.store.load_partial(kind, settings) or []
        saved = time.monotonic()
        try:
            for value in losses(
                loaded.prepared.learner,
                model.buffers,
                land,
                scope.data(loaded),
                start=len(values),
                on_progress=on_progress,
            ):
                values.append(list(value))
                if time.monotonic() - saved > SAVE_INTERVAL:
                    loaded.store.save_partial(kind, settings, values)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            loaded.store.save_partial(kind, settings, values)
            raise
        return land.result(values)

    return load_or_compute(loaded.store, kind, settings, work)


def _refuse_different_shapes(runs: Sequence[LoadedRun]) -> None:
    """Raise `SettingError` for models whose parameters have different shapes."""
    shapes = {run.prepared.learner.flat.layout.shapes for run in runs}
    if len(shapes) > 1:
        texts = [
            f"{run.folder} ({run.experiment.model}, "
            f"{run.prepared.learner.flat.layout.dim:,} parameters)"
            for run in runs
        ]
        raise SettingError(
            f"the models have different shapes: {', '.join(texts)}. "
            "Choose runs with the same model and data."
        )
