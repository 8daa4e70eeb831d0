"""The command that repeats a run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import fedflat as ff
from fedflat.cli import main
from fedflat.composition.info import MethodInfo, method_info
from fedflat.experiments.results.frame import differences, settings
from fedflat.experiments.run_folder.experiment_texts import ExperimentTexts
from fedflat.report.labels import command
from report.written_runs import EXPERIMENT

COMMANDS = {
    "plain": "fedavg --model logistic --rounds 2 --clients-per-round 2",
    "many": "'sam(rho=0.05) + feddyn(alpha=0.1)' --model 'mlp(hidden=[3])' --rounds 2 --clients-per-round 3 "
    "--sampler by_size --sampler-seed round --local-steps 3 --batch-size 5 --lr 'decay(0.1, 0.5)' --weight-decay 0.01 "
    "--momentum 'cosine(0.9, 0.1, 5)' --clip 2 --weighting uniform --dtype float64 --eval-every 2 --eval-last 1 "
    "--on-bad stop --seed 5 --threads 1",
    "epochs": "fedavg --model logistic --rounds 1 --clients-per-round 2 --local-epochs 2 --virtual 8 --drop-last",
    "topology": "'fedseq(groups=4) + sam(0.05)' --model logistic --rounds 1 --clients-per-round 5",
    "virtual clients": "'fedvc(8)' --model logistic --rounds 1 --clients-per-round 2",
}


def typed_again(experiment: dict[str, Any], execution: dict[str, Any]) -> str:
    """The command that repeats a run with these settings."""
    return command(ExperimentTexts.from_json(experiment), execution)


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_the_command_repeats_the_run(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings and the numbers of a run made by the reconstructed command are those of the
    run."""
    monkeypatch.chdir(tmp_path)
    assert (
        main(
            [
                "run",
                *shlex.split(words),
                "--on",
                "digits(lda(0.5), clients=10)",
                "--quiet",
                "--out",
                "once",
            ]
        )
        == 0
    )
    record = json.loads(Path("once/run.json").read_text())
    again = shlex.split(typed_again(record["experiment"], record["how"]))
    assert again[0] == "fedflat"
    assert main([*again[1:], "--quiet", "--out", "twice"]) == 0
    assert json.loads(Path("twice/run.json").read_text())["experiment"] == record["experiment"]
    once, twice = (
        Path(folder, "metrics.jsonl").read_text().splitlines() for folder in ("once", "twice")
    )
    assert [json.loads(row)["loss"] for row in once] == [json.loads(row)["loss"] for row in twice]


@pytest.mark.parametrize(
    ("method", "brought"), [("fedseq(4)", "--topology"), ("fedvc(8)", "--sampler|--virtual")]
)
def test_what_a_method_brings_goes_without_saying(method: str, brought: str) -> None:
    settings = {"rounds": 2, "model": "logistic()"}
    alone, starred = (
        ff.experiment(output, "digits(clients=20)", **settings).as_json()
        for output in (method, "fedavg")
    )
    assert not re.search(brought, typed_again(alone, {}))
    assert re.search(brought, typed_again({**alone, "method": "fedavg()"}, {}))
    assert "--topology" not in typed_again(starred, {})
    assert "--sampler" not in typed_again(starred, {})


def test_what_only_python_can_say_has_no_command() -> None:
    assert typed_again({**EXPERIMENT, "on": None}, {}) == ""
    assert typed_again({**EXPERIMENT, "loss": None}, {}) == ""


def test_a_replayed_run_names_its_file() -> None:
    sampler = {**EXPERIMENT["sampler"], "cohorts": [[1]]}
    assert typed_again({**EXPERIMENT, "sampler": sampler}, {}).endswith("--replay FILE")


def test_quotes_survive_the_shell() -> None:
    words = shlex.split(typed_again({**EXPERIMENT, "method": 'it\'s "<odd>" $HOME'}, {}))
    assert words[2] == 'it\'s "<odd>" $HOME'


def test_stack() -> None:
    assert "sam(rho=0.05)" in method_info("fedavg() + sam(rho=0.05)").stack
    assert method_info("a method of tomorrow") == MethodInfo()


def test_seeds_do_not_set_runs_apart() -> None:
    texts = [ExperimentTexts.from_json({**EXPERIMENT, "seed": seed}) for seed in (0, 1)]
    assert differences([(one.method, settings(one)) for one in texts]) == [{}, {}]


def test_a_task_is_reported_where_the_data_are_for_another() -> None:
    for on, task, output in [
        ("street(clients=4)", "segmentation()", False),
        ("street(clients=4)", "classification()", True),
        ("digits()", "classification()", False),
        ("digits()", "retrieval()", True),
    ]:
        words = typed_again(
            {
                "method": "fedavg()",
                "on": on,
                "model": "mlp()",
                "loss": "cross_entropy",
                "task": task,
            },
            {},
        )
        assert (f"--task '{task}'" in words) == output, words
