"""The typed record of a run, and what it says for reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import fedflat as ff
from fedflat.experiments.run_folder import record as module
from fedflat.experiments.run_folder.experiment_texts import ExperimentInfo, ExperimentTexts
from fedflat.experiments.run_folder.record import Origin, RunRecord, read_record
from fedflat.registry import specs
from fedflat.report.collect import collect

SETTINGS = {"model": "logistic()", "rounds": 2, "clients_per_round": 2, "threads": 1, "quiet": True}
ON = "digits(lda(0.5), clients=6)"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    ff.run("fedseq(2)", on=ON, out=folder, **SETTINGS)
    return folder


def test_a_record_is_written_as_it_was_read(run: Path) -> None:
    saved = json.loads((run / "run.json").read_text())
    record = read_record(run)
    assert record.as_json() == saved
    assert RunRecord.from_json(saved) == record
    assert record.experiment.as_json() == saved["experiment"]
    assert (record.status, record.experiment.method, record.experiment.on) == (
        "done",
        "fedseq(groups=2)",
        ON,
    )
    assert record.end is not None
    assert record.end.logs["metrics"].lines == 2
    assert record.end.models[record.end.reported].file == "final.safetensors"


def test_what_the_texts_mean_is_recorded(run: Path) -> None:
    """The same as what the texts mean when they are read again."""
    record = read_record(run)
    read = record.experiment.info()
    assert record.recorded_info is not None
    assert record.recorded_info.method == read.method
    assert record.recorded_info.data == replace(read.data, class_names=())
    assert record.info.method.settings["topology"] == "chains(groups=2, draw='share')"
    assert record.info.data is not None
    assert record.info.data.partition == "lda(0.5), 6 clients"
    assert ExperimentInfo.from_json(record.info.as_json()) == record.info


def test_a_report_reads_no_text_of_a_run_that_records_what_they_mean(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = collect([run])

    def refuse(text: str, kind: str) -> None:
        raise AssertionError(f"{text} was read")

    for name in ("fedflat.composition.info", "fedflat.data.info"):
        monkeypatch.setattr(f"{name}.parse", refuse)
    again = collect([run])
    del whole["made"], again["made"]
    assert again == whole
    assert whole["problems"] == []


def test_a_folder_that_lacks_it_has_the_same_report(run: Path, tmp_path: Path) -> None:
    saved = json.loads((run / "run.json").read_text())
    del saved["info"]
    older = tmp_path / "older"
    older.mkdir()
    for path in run.glob("*.jsonl"):
        (older / path.name).write_bytes(path.read_bytes())
    (older / "run.json").write_text(json.dumps(saved))
    reports = [collect([folder]) for folder in (run, older)]
    for report in reports:
        del report["made"], report["runs"][0]["folder"], report["groups"]
    assert reports[0] == reports[1]


def test_an_unchanged_file_is_checked_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = read_record(run)
    monkeypatch.setattr(module, "parse_known", lambda *given: pytest.fail("it was parsed again"))
    assert read_record(run) is record


def test_an_origin_that_is_not_recorded_is_empty() -> None:
    assert Origin().as_json() == {}
    assert Origin.from_json({}) == Origin()
    found = Origin(data="ab", shape=(3,), classes=2, start="cd")
    assert found.as_json()["place"] is None
    assert Origin.from_json(found.as_json()) == found
    assert [one.shape for one in found.module_inputs] == [(3,)]


def test_settings_without_a_text_are_named() -> None:
    exp = ff.experiment("fedavg", "digits()", rounds=1)
    texts = exp.texts()
    assert texts.only_in_python == []
    given = ExperimentTexts.from_json({**exp.as_json(), "model": None, "loss": None})
    assert given.only_in_python == ["model", "loss"]
    assert given.digest_without_attack == ""
    assert texts.digest_without_attack
    assert texts.same_settings(texts)
    assert not texts.same_settings(given)
    assert specs.parse(texts.method, "method") == exp.method
