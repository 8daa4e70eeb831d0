"""Largest Hessian eigenvalues, trace, spectral density and sharpness of one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings, text
from fedflat.analysis.shown_values import short, shorts, table
from fedflat.core.json_schema import NUMBER
from fedflat.errors import number
from fedflat.registry.specs import register
from fedflat.settings.setting import setting
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun

_SCHEMA = {
    "loss?": NUMBER,
    "norm?": NUMBER,
    "lambda_1?": NUMBER,
    "ratio?": NUMBER,
    "eigenvalues?": [NUMBER],
    "residuals?": [NUMBER],
    "power?": [NUMBER],
    "examples?": int,
    "of?": int,
    "trace?": {"mean?": NUMBER, "stderr?": NUMBER, "*": object},
    "sharpness?": {"*": object},
    "subsample?": {"lambda_1_spread?": NUMBER, "*": object},
    "density?": {"x": [NUMBER], "y": [NUMBER], "*": object},
    "layers?": {"*": NUMBER},
    "*": object,
}


@register("analysis", "curvature")
@dataclass(frozen=True, repr=False)
class CurvatureAnalysis(Analysis):
    """largest Hessian eigenvalues; see also the options of precision

    The options are those of `fedflat.curvature`.
    """

    k: int = setting(5, "number of eigenvalues", option="k", metavar="K", low=0)
    power: bool = setting(False, "also by power iteration with deflation, as in the papers")
    probes: int = setting(0, "Hessian products for the trace; 0: no trace", low=0)
    method: str = setting(
        "hutchinson", "trace estimator: hutchinson or hutch++", option="trace", metavar="KIND"
    )
    density: int = setting(0, "random vectors for the spectral density; 0: no density", low=0)
    layers: bool = setting(False, "largest eigenvalue of each layer")
    rho: float | None = setting(
        None, "largest loss increase within a ball of radius R", metavar="R"
    )
    memory: int = setting(
        4 * 10**9,
        "memory of curvature, beside program and data; less is slower, too little is refused",
        metavar="SIZE",
        unit="bytes",
        default_text="4GB",
    )

    title = "Curvature"
    position = 40
    subject = "eigenvalues and traces of the Hessian"
    result_schema = _SCHEMA
    partial_schema = {"*": _SCHEMA}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rho is not None:
            number("analyse", "rho", self.rho, low=0, open_low=True)

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return model, examples and all options but the memory."""
        return {**scope.settings(loaded, loaded.model(scope.model)[0]), **self._options()}

    def _options(self) -> dict[str, Any]:
        return {
            "k": self.k,
            "power": self.power,
            "probes": self.probes,
            "method": self.method,
            "density": self.density,
            "layers": self.layers,
            "rho": self.rho,
        }

    def _parts(self) -> dict[str, dict[str, Any]]:
        """Return the options of the parts, which are computed and saved one after the other."""
        names = ("k", "power", "probes", "method")
        parts = {"spectrum": {name: getattr(self, name) for name in names}}
        if self.layers:
            parts["layers"] = {"k": 0, "layers": True}
        if self.rho is not None:
            parts["sharpness"] = {"k": 0, "rho": self.rho}
        if self.density:
            parts["density"] = {"k": 0, "density": self.density}
        return parts

    def compute(self, job: AnalysisJob) -> Result:
        """Compute each part in at most `memory` bytes."""
        from fedflat.flatness.curvature import curvature, estimate_cost

        results: dict[str, Result] = job.load_partial() or {}
        learner, data = job.loaded.setup.job.learner, job.loaded.examples(job.scope.where)
        _, model = job.loaded.model(job.scope.model)
        examples = job.settings["examples"]
        job.on_cost(
            estimate_cost(
                learner, model, data, examples=examples, memory=self.memory, **self._options()
            )
        )
        for part, options in self._parts().items():
            if part not in results:
                results[part] = curvature(
                    learner,
                    model,
                    data,
                    examples=examples,
                    seed=job.scope.seed,
                    memory=self.memory,
                    on_progress=job.on_progress,
                    **options,
                )
                job.save_partial(results)
        return {key: value for part in reversed(results.values()) for key, value in part.items()}

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        """Return loss, largest eigenvalue and trace, and what the numbers behind ± are."""
        trace, subsample = result.get("trace", {}), result.get("subsample", {})
        parts, spreads = [f"loss {text(result.get('loss'), '.4f')}"], []
        if "examples" in result and "of" in result:
            parts[0] += f" on {result['examples']:,} of {result['of']:,} examples"
        if "lambda_1" in result:
            parts.append(f"lambda_1 {text(result['lambda_1'])}")
            if "lambda_1_spread" in subsample:
                parts[-1] += f" ± {text(subsample['lambda_1_spread'], '.2g')}"
                spreads.append(
                    "of lambda_1: standard deviation over disjoint parts of the examples"
                )
        if "ratio" in result:
            parts.append(f"lambda_1/lambda_5 {text(result['ratio'], '.2f')}")
        if trace:
            parts.append(f"trace {text(trace.get('mean'))} ± {text(trace.get('stderr'), '.2g')}")
            spreads.append("of the trace: standard error over random vectors")
        return ", ".join(parts) + (f" (± {'; '.join(spreads)})" if spreads else "")

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return the numbers, with lambda_1 times the squared norm of the parameters."""
        found: Result = {
            name: short(result[name])
            for name in ("loss", "norm", "lambda_1", "ratio")
            if name in result
        }
        for name in ("eigenvalues", "residuals", "power"):
            if name in result:
                found[name] = shorts(result[name])
        if found.get("lambda_1") is None and found.get("eigenvalues"):
            found["lambda_1"] = found["eigenvalues"][0]
        if found.get("lambda_1") is not None and found.get("norm") is not None:
            found["scaled"] = short(found["lambda_1"] * found["norm"] * found["norm"])
        found |= {name: result[name] for name in ("examples", "of") if name in result}
        for name in ("trace", "sharpness", "subsample"):
            if isinstance(result.get(name), dict):
                shown = {key: short(value) for key, value in result[name].items()}
                found[name] = {key: value for key, value in shown.items() if value is not None}
        if "density" in result:
            found["density"] = table({name: result["density"][name] for name in ("x", "y")})
        if "layers" in result:
            found["layers"] = {str(name): short(value) for name, value in result["layers"].items()}
        return found
