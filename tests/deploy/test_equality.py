"""A federation of processes with TLS gives the same bits as a simulation."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from deploy.real_clients import PATIENCE, processes
from fedflat.cli import main
from fedflat.deploy.transport import missing_packages

pytestmark = pytest.mark.skipif(
    bool(missing_packages()), reason="needs the extra fedflat[deploy], which is not installed"
)
CLOCKS = ("training", "seconds", "evaluation", "chain")


def rows(folder: Path) -> list[dict[str, Any]]:
    """The evaluations in a run folder, without what a clock says."""
    read = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in CLOCKS} for row in read]


def compare(
    at: Path,
    method: str,
    on: str,
    clients: int,
    rounds: int,
    *options: str,
    per_round: int,
    executor: str = "workers",
    served_here: bool = False,
) -> None:
    """Run both, and compare models and rows; the server may be this process, which starts
    sooner."""
    common = ("--rounds", str(rounds), "--clients-per-round", str(per_round), "--seed", "3")
    with processes(at, [f"site-{k:02d}" for k in range(clients)]) as made:
        made.join_all(on)
        words = ["deploy", "serve", method, "--test", on, "--out", "there", *common, *options]
        if served_here:
            with chdir(at):
                assert main([*words, "--quiet"]) == 0
        else:
            assert made.start("serve", *words).wait(PATIENCE) == 0, made.log("serve")
        for name in made.clients:
            assert made.running[name].wait(PATIENCE) == 0, made.log(name)
    words = [*common, *options, "--executor", executor, "--quiet"]
    with chdir(at):
        assert main(["run", method, "--on", on, "--out", "here", *words]) == 0
    for model in sorted((at / "here").glob("*.safetensors")):
        assert (at / "there" / model.name).read_bytes() == model.read_bytes(), model.name
    assert rows(at / "there") == rows(at / "here")


@pytest.mark.usefixtures("warm_processes")
def test_two_processes_with_tls_give_the_bits_of_a_simulation(tmp_path: Path) -> None:
    """SAM and duals: each client keeps a state on its own disk."""
    method = "fedgloss(rho_s=0.05, rho_l=0.05, beta=10)"
    compare(
        tmp_path,
        method,
        "digits(lda(0.5), clients=2)",
        2,
        3,
        per_round=2,
        executor="in_process(threads=1)",
        served_here=True,
    )


METHODS = {
    "fedavg": ("fedavg", "digits(lda(0.5), clients=4)", ()),
    "fedgloss": (
        "fedgloss(rho_s=0.05, rho_l=0.05, beta=10) + wima(window=3)",
        "digits(lda(0), clients=4)",
        (),
    ),
    "scaffold": ("scaffold", "digits(lda(0.5), clients=4)", ()),
    "fedseq": ("fedseq(groups=2)", "digits(lda(0.5), clients=4)", ()),
    "fedfsa": ("fedfsa + personal()", "digits(lda(0.5), clients=4, split=0.7)", ()),
    "fedbn": (
        "fedbn",
        "digits(lda(0.5), clients=4, split=0.7)",
        ("--model", "resnet20(norm='batch')"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_methods_give_the_bits_of_a_simulation(tmp_path: Path, name: str) -> None:
    method, on, options = METHODS[name]
    compare(tmp_path, method, on, 4, 5, *options, per_round=2)
