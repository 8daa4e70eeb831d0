"""The registry of analyses: one file each, also from a plugin, with a generic drawing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings, analyses
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.cli.main import main
from fedflat.registry.specs import parse_list, register
from fedflat.report import collect
from fedflat.settings.setting import setting
from plugins.forgetting import forget


@pytest.fixture
def quarters() -> Iterator[type[Analysis]]:
    """An analysis that is registered here."""

    @register("analysis", "quarters")
    @dataclass(frozen=True, repr=False)
    class Quarters(Analysis):
        """mean parameter of each quarter of the model"""

        times: int = setting(1, "factor", low=1)

        title = "Quarters"
        position = 45
        subject = "quarters"

        def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
            return {"model": loaded.model(scope.model)[0], "times": self.times}

        def compute(self, job: AnalysisJob) -> Result:
            parts = job.loaded.model(job.scope.model)[1].params.tensor_split(4)
            means = [self.times * float(part.mean()) for part in parts]
            return {"first": means[0], "means": means, "squares": [[m * m] for m in means]}

    yield Quarters
    forget()


def test_an_analysis_from_elsewhere_is_computed_and_shown(
    quarters: type[Analysis], classes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyse", str(classes), "--analyses", "quarters(times=2)", "--quiet"]) == 0
    model = LoadedRun(classes).models["server"].params
    means = [2 * float(part.mean()) for part in model.tensor_split(4)]
    assert f"quarters: first {means[0]:.4g}" in capsys.readouterr().out
    page = collect([classes])
    (shown,) = page["quarters"]
    assert shown["means"] == pytest.approx(means, rel=1e-4)
    assert shown["settings"] == "times 2"
    order = [one["id"] for one in page["kinds"]]
    assert order.index("quarters") == order.index("curvature") + 1
    assert "quarters" not in " ".join(page["missing"])


def test_a_report_says_that_it_is_missing(quarters: type[Analysis], tmp_path: Path) -> None:
    from report.written_runs import write_run

    assert ", quarters," in collect([write_run(tmp_path / "run")])["missing"][0]


def test_options_are_checked() -> None:
    for text, message in (
        ("curvature(k=-1)", "k must be a whole number of at least 0"),
        ("pictures(13)", "each must be a whole number of at least 1 and at most 12"),
        ("surfaces()", "unknown analysis 'surfaces'. Did you mean 'surface'"),
    ):
        with pytest.raises(Exception, match=message.replace(".", r"\.")):
            parse_list(text, "analysis")


def test_every_analysis_has_words_for_the_report() -> None:
    for name, analysis in analyses(plugins=False).items():
        assert analysis.title, name
        assert analysis.subject, name
        assert analysis.summary(), name


def test_listing_analyses_needs_no_torch() -> None:
    code = (
        "import sys; from fedflat.analysis.analysis import analyses; analyses(plugins=False); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
