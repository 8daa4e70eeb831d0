"""The commands ``fedflat run``, ``compare`` and ``resume``."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import fedflat as ff
from experiments.small import ON, final, rows, timeless
from fedflat.cli import main
from fedflat.cli.training import fresh_folder
from fedflat.execution.in_process import InProcess
from fedflat.experiments.execution_config import ExecutionConfig

QUICK = (
    "--on",
    ON,
    "--clients-per-round",
    "2",
    "--rounds",
    "4",
    "--model",
    "logistic",
    "--threads",
    "1",
    "--eval-last",
    "4",
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written anywhere else."""
    monkeypatch.chdir(tmp_path)


def test_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The table on standard output; everything for people on standard error."""
    words = ["run", "sam(rho=0.05) + feddyn(alpha=0.1)", *QUICK, "--momentum", "0.5"]
    assert main([*words, "--out", "here"]) == 0
    output, messages = capsys.readouterr()
    heads, _, row, *_ = output.splitlines()
    assert heads.split("  ")[0] == "method"
    assert row.startswith("sam(rho=0.05) + feddyn(alpha=0.1) ")
    accuracy = rows(Path("here"))
    mean = sum(r["accuracy"] for r in accuracy) / 4
    assert f" {100 * mean:.2f} " in row
    assert "mean of the evaluations in the last 4 rounds (1 seed)." in output
    assert f"data {ON}, model logistic(), run folder here" in messages
    assert (
        "client: sam(rho=0.05) -> dual(alpha=0.1, by_size=False) -> momentum(mu=0.5, keep=False); "
        "server: dual(alpha=0.1"
    ) in messages
    assert "sam(rho=0.05) + feddyn(alpha=0.1), seed 0" in messages
    assert "round 4/4" in messages
    assert "Results are in here" in messages
    assert "\x1b" not in output + messages


def test_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fedavg", *QUICK, "--out", "here", "--quiet"]) == 0
    output, messages = capsys.readouterr()
    assert "fedavg()" in output
    assert messages == ""


def different(found: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """The values that differ from the default, with the same keys above them."""
    assert found.keys() == default.keys()
    return {
        name: different(value, default[name]) if isinstance(value, Mapping) else value
        for name, value in found.items()
        if value != default[name]
    }


def test_every_option_reaches_the_run(tmp_path: Path) -> None:
    replay = tmp_path / "replay.json"
    replay.write_text(json.dumps({"cohorts": [[3, 1], [0, 2]], "orders": None}))
    assert (
        main(
            [
                "run",
                "fedavg",
                "--on",
                ON,
                "--model",
                "mlp(hidden=[3])",
                "--rounds",
                "2",
                "--clients-per-round",
                "7",
                "--sampler",
                "bernoulli",
                "--sampler-seed",
                "round",
                "--local-steps",
                "3",
                "--batch-size",
                "5",
                "--lr",
                "decay(0.1, 0.5)",
                "--weight-decay",
                "0.01",
                "--momentum",
                "cosine(0.9, 0.1, 5)",
                "--clip",
                "2",
                "--weighting",
                "uniform",
                "--dtype",
                "float64",
                "--eval-every",
                "2",
                "--eval-last",
                "1",
                "--on-bad",
                "stop",
                "--layout",
                "contiguous",
                "--convolutions",
                "quick",
                "--replay",
                str(replay),
                "--seed",
                "5",
                "--threads",
                "1",
                "--device",
                "cpu",
                "--state-memory",
                "2MB",
                "--record",
                "norms",
                "--executor",
                "in-process",
                "--out",
                "here",
                "--quiet",
            ]
        )
        == 0
    )
    saved = json.loads(Path("here/run.json").read_text())
    default = ff.experiment("fedavg", ON, rounds=2, model="mlp(hidden=[3])").as_json()
    assert different(saved["experiment"], json.loads(json.dumps(default))) == {
        "local": {
            "steps": 3,
            "batch_size": 5,
            "lr": "decay(0.1, 0.5)",
            "weight_decay": 0.01,
            "momentum": "cosine(0.9, 0.1, 5)",
            "clip": 2.0,
        },
        "sampler": {
            "clients": 7,
            "kind": "bernoulli",
            "seeding": "round",
            "cohorts": [[3, 1], [0, 2]],
        },
        "evaluate": {"every": 2},
        "seed": 5,
        "weighting": "uniform",
        "dtype": "float64",
        "layout": "contiguous",
        "convolutions": "quick",
        "on_bad": "stop",
    }
    assert different(saved["how"], vars(ExecutionConfig())) == {
        "executor": "in-process",
        "threads": 1,
        "state_memory": 2_000_000,
        "record": "norms",
    }
    assert [row["round"] for row in rows(Path("here"))] == [2]


def test_replayed_batches(tmp_path: Path) -> None:
    """A run replayed from what it drew is the same run."""
    from fedflat.client.local import LocalTraining
    from fedflat.registry.specs import parse
    from fedflat.server.client_selection import ClientSampler

    assert main(["run", "feddyn", *QUICK, "--out", "drawn", "--quiet"]) == 0
    fed = parse(ON, "data set").open(0)
    cohorts = [ClientSampler(clients=2).draw(t, 20, 0) for t in range(4)]
    orders = [
        {
            str(k): [b.tolist() for b in LocalTraining().batches(0, t, k, len(fed.parts[k]))]
            for k in cohort
        }
        for t, cohort in enumerate(cohorts)
    ]
    Path("replay.json").write_text(json.dumps({"cohorts": cohorts, "orders": orders}))
    assert (
        main(["run", "feddyn", *QUICK, "--out", "again", "--quiet", "--replay", "replay.json"]) == 0
    )
    assert final(Path("again")) == final(Path("drawn"))
    assert timeless(rows(Path("again"))) == timeless(rows(Path("drawn")))


def test_several_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["run", "fedavg", *QUICK, "--seeds", "2", "--out", "study", "--csv", "--quiet"]) == 0
    )
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    finals = []
    for seed in (0, 1):
        folder = Path("study/01-fedavg") / f"seed-{seed}"
        finals.append(sum(r["accuracy"] for r in rows(folder)) / 4)
    assert row["seeds"] == "2"
    assert float(row["accuracy"]) == pytest.approx(sum(finals) / 2)
    assert float(row["spread"]) == pytest.approx(abs(finals[0] - finals[1]) / 2**0.5)


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    """The target is the first method's accuracy unless one is given."""
    assert (
        main(
            [
                "compare",
                "fedavg",
                "fedavg() + server_sgd(lr=2.0)",
                *QUICK,
                "--out",
                "study",
                "--markdown",
            ]
        )
        == 0
    )
    output, messages = capsys.readouterr()
    heads, _, one, other, *_ = output.splitlines()
    mean = sum(r["accuracy"] for r in rows(Path("study/01-fedavg/seed-0"))) / 4
    assert f"| rounds to {100 * mean:.1f} % | sent to {100 * mean:.1f} % |" in heads
    assert one.startswith("| `fedavg()` |")
    assert other.startswith("| `fedavg() + server_sgd(lr=2.0)` |")
    assert "[1/2] fedavg(), seed 0" in messages
    assert "[2/2] fedavg() + server_sgd(lr=2.0), seed 0" in messages
    assert main(["resume", "study", "--target", "1%", "--csv", "--quiet"]) == 0
    for name, row in zip(
        ("01-fedavg", "02-fedavg-server-sgd-lr=2.0"),
        csv.DictReader(io.StringIO(capsys.readouterr().out)),
        strict=True,
    ):
        first = next(r for r in rows(Path("study") / name / "seed-0") if r["accuracy"] >= 0.01)
        assert float(row["rounds_to_target"]) == first["round"]
        assert float(row["bytes_to_target"]) == first["down"] + first["up"]


def test_resume_what_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    """Gives its table again and touches nothing."""
    assert main(["run", "fedavg", *QUICK, "--out", "here", "--quiet", "--csv"]) == 0
    first = capsys.readouterr().out
    before = {
        p: p.stat().st_mtime_ns for p in Path("here").rglob("*") if p.is_file() and p.name != "lock"
    }
    assert main(["resume", "here", "--quiet", "--csv"]) == 0
    assert capsys.readouterr().out == first
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_resume_with_another_executor() -> None:
    """A run whose cluster is not there goes on in this process, with the same bits."""
    here = ("--executor", "in_process(threads=1)")
    quick = [word for word in QUICK if word not in ("--threads", "1")]
    words = ("run", "feddyn", *quick, "--quiet")
    assert main([*words, "--out", "whole", *here]) == 0
    assert main([*words, "--out", "cut", "--executor", "ray(address='127.0.0.1:1')"]) == 2
    assert main(["resume", "cut", "--quiet", *here]) == 0
    assert final(Path("cut")) == final(Path("whole"))


def test_a_damaged_checkpoint_is_reported_even_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "feddyn", *QUICK, "--out", "whole", "--quiet"])
    main(["run", "feddyn", *QUICK, "--out", "cut", "--quiet", "--checkpoint-every", "0"])
    record = json.loads(Path("cut/run.json").read_text())
    del record["end"]
    Path("cut/run.json").write_text(json.dumps({**record, "status": "running"}))
    newest = Path("cut/checkpoint/round-0000004.json")
    newest.write_bytes(newest.read_bytes().replace(b"digest", b"digesd"))
    capsys.readouterr()
    assert main(["resume", "cut", "--quiet"]) == 0
    messages = capsys.readouterr().err
    assert messages.startswith("fedflat: the checkpoint of round 4 is damaged (")
    assert "trying the one before it" in messages
    assert final(Path("cut")) == final(Path("whole"))


def test_a_diverged_run_is_an_x_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    wild = ["--lr", "1e30", "--weight-decay", "1", "--batch-size", "4"]
    words = ["run", "fedavg", *QUICK, *wild, "--out", "here", "--quiet"]
    assert main([*words, "--on-bad", "stop"]) == 0
    assert " X (diverged) " in capsys.readouterr().out
    assert json.loads(Path("here/run.json").read_text())["status"] == "diverged"
    assert main(["resume", "here", "--quiet"]) == 0
    assert " X (diverged) " in capsys.readouterr().out
    assert main([*words[:-2], "there", "--quiet"]) == 2
    assert re.search(
        r"error: round 1, client \d+: the reply is NaN or infinite; ", capsys.readouterr().err
    )
    assert json.loads(Path("there/run.json").read_text())["status"] == "running"


def test_folders_that_are_chosen_for_you(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.strftime", lambda *_: "20300102-030405")
    assert fresh_folder(["feddyn(alpha=0.1) + sam()"]) == Path("runs/20300102-030405-feddyn")
    assert fresh_folder(["fedavg", "sam"]) == Path("runs/20300102-030405-fedavg-and-others")
    assert main(["run", "fedavg", *QUICK, "--quiet"]) == 0
    assert main(["run", "fedavg", *QUICK, "--quiet"]) == 0
    assert sorted(p.name for p in Path("runs").iterdir()) == [
        "20300102-030405-fedavg",
        "20300102-030405-fedavg-2",
    ]


def test_ctrl_c_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a space is quoted, so that the line can be copied."""
    from fedflat.cli import training
    from fedflat.experiments import train

    def press(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(training, "run_one", press)
        assert main(["run", "fedavg", *QUICK, "--out", "my run"]) == 130
    assert capsys.readouterr().err.endswith("\nNothing was written.\nfedflat: stopped.\n")
    with monkeypatch.context() as patched:
        patched.setattr(train.Stopwatch, "progress", press)
        assert main(["run", "fedavg", *QUICK, "--out", "my run"]) == 130
    messages = capsys.readouterr().err
    assert "A checkpoint was written. Continue with: fedflat resume 'my run'\n" in messages
    with monkeypatch.context() as patched:
        patched.setattr(InProcess, "open", press)
        assert main(["resume", "my run"]) == 130
        assert (
            "No new checkpoint was written. Continue with: fedflat resume 'my run'\n"
            in capsys.readouterr().err
        )
        assert main(["compare", "fedavg", "fedsam", *QUICK, "--out", "study"]) == 130
        assert (
            "No checkpoint was written. Continue with: fedflat resume study\n"
            in capsys.readouterr().err
        )
    assert main(["resume", "my run", "--quiet"]) == 0
    assert len(rows(Path("my run"))) == 4


def test_what_alpha_is_stands_in_the_first_lines_and_below_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    on, short = (
        "digits(lda(0.5), clients=8)",
        ("--rounds", "1", "--model", "logistic", "--clients-per-round", "2"),
    )
    note = "lda(0.5): alpha is the total concentration, divided among the classes"
    for words, folder in ((("run", "fedavg"), "a"), (("compare", "fedavg", "fedprox"), "b")):
        assert main([*words, "--on", on, *short, "--out", folder]) == 0
        output, messages = capsys.readouterr()
        assert messages.count(note) == 1
        assert (
            messages.index(f"data {on}")
            < messages.index(f"  {note} (")
            < messages.index("fedavg(), seed 0")
        )
        assert (
            "classes a client on average). NIID-Bench, PFLlib and FedLab draw dirichlet(0.5), Flower"
            in messages
        )
        assert output.count(f"\n{note}. NIID-Bench") == 1
    for other in ("lda(0)", "lda(0.5, concentration='component')", "dirichlet(0.5, min_size=1)"):
        assert (
            main(["run", "fedavg", "--on", f"digits({other}, clients=8)", *short, "--out", other])
            == 0
        )
        assert "alpha is" not in "".join(capsys.readouterr())


def test_the_table_of_run_folders_with_labels(capsys: pytest.CaptureFixture[str]) -> None:
    """The same command prints LaTeX, and refuses labels and columns that fit nothing."""
    assert main(["compare", "fedavg", "fedsam", *QUICK, "--out", "both", "--quiet"]) == 0
    capsys.readouterr()
    words = ["table", "both", "--label", "fedsam(...)=FedSAM", "--label", "fedavg=FedAvg"]
    assert main([*words, "--latex", "--columns", "accuracy"]) == 0
    out = capsys.readouterr().out
    assert r"    Method & Accuracy \% \\" in out.splitlines()
    assert "    FedSAM & " in out
    assert "fedsam" not in out
    assert main(["table", "both", "--label", "fedprox=FedProx"]) == 2
    assert "no run has the method 'fedprox'" in capsys.readouterr().err
    assert main(["report", "both", "--label", "fedprox=FedProx"]) == 2
    assert main(["table", "both", "--columns", "acuracy"]) == 2
    assert "Did you mean 'accuracy'" in capsys.readouterr().err
    assert main(["run", "fedavg", *QUICK, "--out", "no", "--label", "fedsam=FedSAM"]) == 2
    assert not Path("no").exists()
