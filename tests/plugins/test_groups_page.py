"""The commands, the describer and the piece that docs/groups.md prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch

import fedflat as ff
from fedflat.cli import main
from fedflat.cli.parser import build
from fedflat.execution.in_process import InProcess
from fedflat.experiments.descriptions import collect_descriptions
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_cost import remarks
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.train import train

DOC = (Path(__file__).parents[2] / "docs" / "groups.md").read_text()


def commands() -> list[list[str]]:
    [block] = re.findall(r"```sh\n(.*?)```", DOC, re.DOTALL)
    return [shlex.split(line)[1:] for line in block.splitlines()]


def test_commands_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both drawings and the first run really, in small; of the others the words are read."""
    monkeypatch.chdir(tmp_path)
    by_labels, by_confidence, greedy, *others = commands()
    assert main(by_labels) == 0
    assert main([*by_confidence, "--quiet", "--threads", "1"]) == 0
    assert (
        main([*greedy[:-4], "--rounds", "1", "--out", "runs/greedy", "--quiet", "--threads", "1"])
        == 0
    )
    assert (tmp_path / "runs/greedy/groups.json").exists()
    for words in others:
        build().parse_args(words)


def test_a_describer_of_ones_own(tmp_path: Path) -> None:
    """Every client is sent the mean over all clients."""
    [block] = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    (tmp_path / "brightness.py").write_text(block)
    ff.load_plugin(str(tmp_path / "brightness.py"))
    [topology] = re.findall(r'`--topology "(clusters.*?)"`', DOC)
    settings = {"rounds": 1, "clients_per_round": 2, "model": "logistic", "dtype": "float64"}
    exp = ff.experiment("level()", "digits(lda(0), clients=6)", topology=topology, **settings)  # type: ignore[arg-type]
    assert "how bright" in " ".join(remarks(prepare(exp)))
    setup = collect_descriptions(
        prepare(exp), RunFolder(), InProcess(threads=1), lambda exp, place: {}
    )
    fed = setup.fed
    means = [
        float(fed.data(k).batch(torch.arange(fed.size(k)), torch.float32).inputs.mean())
        for k in range(6)
    ]
    assert float(setup.job.shared["level"]["mean"]) == pytest.approx(sum(means) / 6, rel=1e-6)
    assert len(setup.server.slots) == 3
    assert train(exp).status == "done"
