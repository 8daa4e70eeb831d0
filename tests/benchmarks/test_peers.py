"""The comparison with other simulators, through its real processes, but only with what needs no
other environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"


@pytest.fixture(scope="module", params=["tiny", "tiny-sam"])
def compared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict]:
    """What two repeats of one tiny round print and write."""
    out = tmp_path_factory.mktemp("peers") / "out.json"
    command = [
        sys.executable,
        str(PEERS / "compare.py"),
        "--workload",
        request.param,
        "--repeats",
        "2",
        "--seconds",
        "0",
    ]
    done = subprocess.run(
        [*command, "--peers", "--json", str(out)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(out.read_text())


@pytest.mark.slow
def test_every_client_does_the_same_work(compared: tuple[str, dict]) -> None:
    three_clients_of_eight = 24
    for it in compared[1]["participants"].values():
        assert [turn["samples"] for turn in it["turns"]] == [three_clients_of_eight] * 2
        assert (
            it["rounds"] == 2 + 1 + 2
        )  # to warm up, to see how long one takes, one in each repeat


@pytest.mark.slow
def test_every_client_learns(compared: tuple[str, dict]) -> None:
    for it in compared[1]["participants"].values():
        after_warm_up, at_the_end = it["losses"]
        assert at_the_end < after_warm_up


@pytest.mark.slow
def test_ratios_are_within_a_repeat(compared: tuple[str, dict]) -> None:
    found = compared[1]["participants"]
    bare, ours = (found[name]["samples_per_second"] for name in ("bare", "fedflat"))
    for repeat, turn in enumerate(found["fedflat"]["turns"]):
        assert ours[repeat] == turn["samples"] / turn["seconds"]
        assert (
            found["fedflat"]["of_bare"][repeat]
            == ours[repeat] / bare[repeat]
            == found["bare"]["fedflat_is"][repeat]
        )


@pytest.mark.slow
def test_the_table_has_a_row_for_each(compared: tuple[str, dict]) -> None:
    printed, figures = compared
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    assert (
        [row[0] for row in rows[2:]]
        == ["| bare", "| fedflat"]
        == [f"| {name}" for name in figures["participants"]]
    )
    assert {len(row) for row in rows} == {7}
    for it in figures["participants"].values():
        assert it["peak_bytes"] > 50e6
        assert it["start_up"] > 0
        assert it["versions"]["torch"].startswith("2.")


def test_a_peer_without_an_environment_is_named(tmp_path: Path) -> None:
    code = (
        f"import pathlib, scripts; scripts.HERE = pathlib.Path({str(tmp_path)!r}); import compare"
    )
    output = _python(f"{code}; print(compare.begin(['flower'], 'tiny'))")
    assert output.stdout == "{}\n"
    assert output.stderr.startswith("flower is left out: it has no environment.")


def test_another_amount_of_work_is_refused() -> None:
    answer = json.dumps({"rounds": 2, "seconds": 0.1, "samples": 46, "loss": 2.3})
    lazy = [sys.executable, "-c", f"print({answer!r})"]
    output = _python(
        "import compare; from process import Failed, Participant\n"
        f"try: Participant('lazy', {lazy!r}, samples=24)\n"
        "except Failed as error: print(error)"
    )
    assert output.stdout.startswith("lazy trained on 46 examples, not on 48."), output.stderr


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=PEERS, capture_output=True, text=True)
