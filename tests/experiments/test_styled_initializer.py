"""A start from images in the clients' styles: what is trained on, what is kept, and what a kill
leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import fedflat as ff
from experiments.killing import newest
from experiments.small import begin, final, go_on, kill_when_stopped, rows, start, timeless
from experiments.stopping import CHECKPOINT
from fedflat.data.derived import InStyles, Restyled, in_styles
from fedflat.data.examples import ClientData, Examples
from fedflat.data.styles import amplitudes
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import describers_of, prepare
from topologies.test_style_clusters import S, T

GAME = "street(style='game', clients=4, examples=3, tests=2, width=32, height=16)"
REAL = "street(clients=6, examples=3, tests=4, width=32, height=16)"
METHOD = "ladd(kd=1.0, sure=0.3, t_start=2, groups=by_style(fewest=2, most=3))"
START = f"pretrained({GAME}, rounds=3, batch_size=4, styles=True)"


def experiment(init: str = START, method: str = METHOD) -> Experiment:
    return ff.experiment(
        method,
        REAL,
        rounds=4,
        clients_per_round=3,
        batch_size=2,
        lr=0.05,
        momentum=0.9,
        init=init,
        eval_every=2,
        model="small_unet(width=4)",
        seed=3,
    )


def test_an_exchange_in_numbers() -> None:
    """s in the style of t, rounded and clipped; its own style changes nothing."""
    style = amplitudes(T[None, None].double())
    rows_of = in_styles(S[None, None], style, None)[0, 0]
    assert rows_of[0].tolist() == [59, 170, 0, 115]
    assert rows_of[3].tolist() == [3, 54, 184, 123]
    assert torch.equal(in_styles(S[None, None], amplitudes(S[None, None].double()), None)[0, 0], S)
    floats = in_styles(S[None, None] / 255, style, None)[0, 0]
    assert floats[0].mul(255).round().tolist() == [59, 170, 0, 115]


def test_every_image_is_given_one_of_the_styles_anew() -> None:
    """With two styles of one number, the mean of an image is one or the other; in evaluation it is
    its own."""
    images = torch.randint(
        90, 110, (6, 1, 4, 4), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    plain = Examples(images, torch.zeros(6, 4, 4, dtype=torch.uint8), 2)
    some = Restyled(plain, 16 * torch.tensor([60.0, 190.0]).view(2, 1, 1, 1))
    rng, seen = torch.Generator().manual_seed(0), set()
    for _ in range(4):
        means = 255 * some.batch(torch.arange(6), torch.float32, rng).inputs.mean((1, 2, 3))
        assert all(min(abs(mean - 60), abs(mean - 190)) < 0.5 for mean in means.tolist())
        seen.add(tuple((means > 100).tolist()))
    assert len(seen) > 1
    inputs = [one.batch(torch.arange(6), torch.float32).inputs for one in (some, plain)]
    assert torch.equal(*inputs)
    assert torch.equal(some.plain().inputs, images)
    data = ClientData(some, torch.arange(6))
    assert torch.equal(data.targets, plain.targets)


def test_the_images_of_a_batch_are_given_different_styles() -> None:
    """Each of forty images draws one of two styles. Both occur in every batch, in other places each
    time."""
    images = torch.full((40, 1, 4, 4), 100, dtype=torch.uint8)
    plain = Examples(images, torch.zeros(40, 4, 4, dtype=torch.uint8), 2)
    some = Restyled(plain, 16 * torch.tensor([60.0, 190.0]).view(2, 1, 1, 1))
    rng = torch.Generator().manual_seed(0)
    bright = [
        some.batch(torch.arange(40), torch.float32, rng).inputs.mean((1, 2, 3)) > 0.5
        for _ in range(3)
    ]
    assert all(0 < int(one.sum()) < 40 for one in bright)
    assert len({tuple(one.tolist()) for one in bright}) == 3


def test_the_servers_images_are_trained_on_in_the_styles_of_all_clients(tmp_path: Path) -> None:
    exp = experiment()
    begin(replace(exp, rounds=1), tmp_path / "run")
    assert (tmp_path / "run/start/final.safetensors").exists()
    assert rows(tmp_path / "run/start")[-1]["round"] == 3
    other = experiment(START.replace(", styles=True", ""))
    begin(replace(other, rounds=1), tmp_path / "other")
    assert final(tmp_path / "run/start") != final(tmp_path / "other/start")
    setup = prepare(exp)
    assert [repr(one) for one in describers_of(setup.exp, setup.job)] == ["mean_style()"], (
        "asked once, for clusters and start"
    )


def test_stopped_anywhere_it_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    """While it is trained before the rounds."""
    exp = experiment()
    begin(exp, tmp_path / "through")
    folder = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        begin(exp, folder, stop=2)  # of the start
    assert not (folder / "metrics.jsonl").exists()
    go_on(exp, folder)
    assert final(folder) == final(tmp_path / "through")
    assert timeless(rows(folder)) == timeless(rows(tmp_path / "through"))


@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path) -> None:
    """Real processes, kill -9: in the start, then in the rounds."""
    words = (
        "--on",
        REAL,
        "--rounds",
        "12",
        "--clients-per-round",
        "3",
        "--batch-size",
        "2",
        "--lr",
        "0.05",
        "--model",
        "small_unet(width=4)",
        "--init",
        START.replace("rounds=3", "rounds=12"),
        "--threads",
        "1",
        "--executor",
        "in-process",
        "--quiet",
        "--checkpoint-every",
        "0",
        "--eval-every",
        "6",
    )
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    kill_when_stopped(
        start("run", METHOD, *words, "--out", str(folder), stop_after=(CHECKPOINT, 5))
    )
    assert newest(folder / "start") == 5
    more = ("--quiet", "--checkpoint-every", "0")
    kill_when_stopped(start("resume", str(folder), *more, stop_after=(CHECKPOINT, 12 - 5 + 4)))
    assert 0 < newest(folder) < 12
    end = start("resume", str(folder), "--quiet")
    assert end.communicate()[1] == ""
    end = start("run", METHOD, *words, "--out", str(whole))
    assert end.communicate()[1] == ""
    assert final(folder) == final(whole)
    assert timeless(rows(folder)) == timeless(rows(whole))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingError, match=r"styles must be True or a mean_style\(...\), found 3"):
        ff.parse("pretrained(digits(), styles=3)", "initializer")
    on = ff.parse(GAME, "data set")
    assert isinstance(on, ff.DataSpec)
    styled = InStyles(on, torch.ones(2, 3, 3, 3))
    exp = replace(experiment("fresh()", "fedavg()"), on=styled)
    assert exp.as_json()["on"] is None, "it can only be made in the course of a run"
    assert len(exp.source("cpu")().data(0)) == 12
