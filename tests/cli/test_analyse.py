"""``fedflat analyse``: what it costs is printed beforehand, and what it found in a line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fedflat
from fedflat.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "digits"
    quick = {"rounds": 1, "clients_per_round": 2, "threads": 1, "lr": 0.5}
    fedflat.run("fedavg", on="digits(clients=10)", model="logistic", out=folder, **quick)
    return folder


def analysed(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["analyse", str(folder), "--curvature", *words])
    return status, *capsys.readouterr()


def test_memory_and_time_are_printed_beforehand(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = analysed(folder, capsys, "-k", "2", "--examples", "all")
    assert status == 0
    assert f"{folder}: curvature: about " in err
    assert " of memory beside program and data (limit 4.00 GB: --memory) and " in err
    assert "for 42 products with the Hessian of 650 parameters on 355 examples\n" in err
    assert "lambda_1" in out
    assert analysed(folder, capsys, "-k", "3", "--examples", "all", "--quiet")[2] == ""
    assert (
        "products" not in analysed(folder, capsys, "-k", "2", "--examples", "all")[2]
    )  # known already: no work


def test_beyond_the_limit_it_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = analysed(folder, capsys, "-k", "4", "--memory", "10kB", "--quiet")
    assert status == 2
    assert "needs about 0.1 GB of memory" in err
    assert (
        "the limit is 1e-05 GB. Raise the limit (--memory 0.1GB), or use fewer eigenvalues (-k)."
        in err
    )
    assert "lambda_1" not in out


def test_lambda_1_stands_with_its_uncertainty(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = analysed(
        folder, capsys, "-k", "1", "--probes", "4", "--examples", "40", "--quiet"
    )
    assert status == 0
    output = out.splitlines()[0]
    assert re.search(r", lambda_1 [0-9.]+ ± [0-9.]+, trace [0-9.]+ ± [0-9.]+ \(", output)
    assert (
        "(± of lambda_1: standard deviation over disjoint parts of the examples; of the trace: standard "
        in output
    )
    all_examples = analysed(folder, capsys, "-k", "1", "--examples", "all", "--quiet")[
        1
    ].splitlines()[0]
    assert "lambda_1" in all_examples
    assert "±" not in all_examples
