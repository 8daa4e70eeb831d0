"""docs/extending.md, as it is printed, in real processes; and FedExP's step against its formula."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import fedflat as ff
from experiments.recording.record_one import RecordedRun
from experiments.recording.record_one import record as recorded_run
from experiments.small import experiment, final, kill_when_stopped, rows, start, timeless
from experiments.stopping import CHECKPOINT
from fedflat.cli import main
from plugins.forgetting import forget
from plugins.printed import EXECUTOR, NAMES, commands, write_files

EVERYTHING = "sign_sam(rho=0.002) + longer_step(eps=0.01) + feddyn(alpha=0.1)"
ON = "thumbnails('pictures', partition=two_camps(), clients=4)"
PLUGINS = [word for name in NAMES for word in ("--plugin", name)]
RUN = [
    "run",
    EVERYTHING,
    "--on",
    ON,
    "--model",
    "bottleneck(width=3)",
    "--rounds",
    "60",
    "--clients-per-round",
    "3",
    "--eval-every",
    "20",
    "--eval-last",
    "2",
    "--batch-size",
    "4",
    "--quiet",
    *PLUGINS,
]


def test_every_file_and_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each knows only what it names itself."""
    write_files(tmp_path)
    assert {path.name for path in tmp_path.glob("*.py")} == {*NAMES, EXECUTOR}
    assert len(commands()) > 8
    monkeypatch.chdir(tmp_path)
    for words in commands():
        forget()
        assert (
            main([*words, *(["--threads", "1"] if words[0] in ("run", "compare") else [])]) == 0
        ), words
    out = capsys.readouterr().out
    for output in (
        "Local steps that look at the highest corner",
        "two_camps()",
        "bottleneck(width=4)",
        "2 classes",
    ):
        assert output in out


@pytest.mark.slow
def test_all_of_it_killed_and_resumed_ends_in_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed and gone on with in workers; never stopped in one process."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = (*RUN, "--workers", "1", "--checkpoint-every", "0", "--out", "killed")
    kill_when_stopped(start(*words, cwd=tmp_path, stop_after=(CHECKPOINT, 4)))
    assert main(["resume", "killed", "--quiet"]) == 2
    output = capsys.readouterr().err
    assert output.startswith(
        "fedflat: error: the run needs sign_sam of 'sign_sam.py' with the digest "
    )
    resumed = start("resume", "killed", "--quiet", *PLUGINS, cwd=tmp_path)
    assert main([*RUN, "--threads", "1", "--out", "whole"]) == 0
    _, errors = resumed.communicate()
    assert (resumed.returncode, errors) == (0, "")
    assert final(tmp_path / "killed") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "killed")) == timeless(rows(tmp_path / "whole"))
    needs = json.loads((tmp_path / "whole" / "run.json").read_text())["experiment"]["plugins"]
    assert {need["name"]: need["names"] for need in needs} == {
        "sign_sam.py": ["sign_sam"],
        "longer_step.py": ["longer_step"],
        "thumbnails.py": ["thumbnails"],
        "camps.py": ["two_camps", "bottleneck"],
    }


@pytest.mark.parametrize(
    "executor", [ff.InProcess(threads=1), ff.Stacked(threads=1)], ids=["in-process", "stacked"]
)
@pytest.mark.parametrize("weighting", ["sized", "uniform"])
def test_longer_step_steps_as_far_as_its_formula_says(
    tmp_path: Path, executor: object, weighting: str
) -> None:
    """The clients' own pseudo-gradients come from rounds of FedAvg with one client each."""
    write_files(tmp_path)
    ff.load_plugin(str(tmp_path / "longer_step.py"))
    cohort, sizes, eps = [0, 2, 3], [6, 12, 7], 1e-9

    def end(method: str, clients: list[int]) -> torch.Tensor:
        sampler = type(experiment().sampler)(clients=len(clients), cohorts=[clients])
        exp = experiment(method, rounds=1, sampler=sampler, dtype="float64", weighting=weighting)
        model = ff.train(exp, executor=executor).model  # type: ignore[arg-type]
        assert model is not None
        return model.params

    start = ff.train(experiment("server_sgd(lr=0)", rounds=1, dtype="float64")).model
    assert start is not None
    deltas = torch.stack([start.params - end("fedavg", [client]) for client in cohort])
    shares = torch.tensor(sizes if weighting == "sized" else [1, 1, 1], dtype=torch.float64)
    shares /= shares.sum()
    mean = shares @ deltas
    eta = max(1.0, float(shares @ deltas.square().sum(1) / (2 * (mean.square().sum() + eps))))
    torch.testing.assert_close(
        end(f"longer_step(eps={eps})", cohort), start.params - eta * mean, rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize(
    "executor", [ff.InProcess(threads=1), ff.Stacked(threads=1)], ids=["in-process", "stacked"]
)
def test_update_norms_of_each_client(tmp_path: Path, executor: ff.Executor) -> None:
    """A round of one client ends at that client's model. Equal sizes, so that stacks have several
    clients."""
    write_files(tmp_path)
    ff.load_plugin(str(tmp_path / "update_norms.py"))
    rng = torch.Generator().manual_seed(0)
    given = [(torch.randn(8, 4, generator=rng), torch.arange(8) % 3) for _ in range(4)]
    on = ff.clients_of(given, test=given[0], classes=3)

    def one_round(cohort: list[int], record: str | None = None) -> RecordedRun:
        sampler = type(experiment().sampler)(clients=len(cohort), cohorts=[cohort])
        exp = experiment(on=on, rounds=1, sampler=sampler, dtype="float64")
        return recorded_run(exp, record, executor)

    expected = {}
    for client in (0, 2, 3):
        start, end = one_round([client]).models
        expected[str(client)] = float((start - end).norm())
    (row,) = one_round([0, 2, 3], "update_norms").recorded
    assert row["update_norms"] == pytest.approx(expected, rel=1e-9)
