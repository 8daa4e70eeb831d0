"""A run as texts for clients elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fedflat as ff
from fedflat.client.drift import Clip
from fedflat.client.measures import EpochEnds
from fedflat.errors import FedflatError, SettingError
from fedflat.executors.wire import Order, decode, encode
from fedflat.folder.facts import read_rows
from fedflat.running.order import job_of, order_of
from fedflat.running.prepare import make_ready
from running.small import ON
from running.small import experiment as small
from wired import Wired

RUN: dict[str, Any] = {"rounds": 2, "model": "mlp(hidden=[4])", "clients_per_round": 3, "seed": 2, "local_epochs": 2}


def test_a_job_is_made_again_from_texts() -> None:
    job = make_ready(ff.experiment("feddyn(alpha=0.1) + sam()", ON, weight_decay=0.1, lr="decay(0.1, 0.9)", **RUN)).job
    job = replace(job, pieces=(*job.pieces, EpochEnds(inside=False)), mean_examples=3.25, shows=True)
    got = decode(encode(order_of(job)))
    assert isinstance(got, Order)
    there, fed = job_of(got)
    assert (there.pieces, there.local, there.seed) == (job.pieces, job.local, job.seed)
    assert (there.mean_examples, there.shows) == (3.25, True)
    assert torch.equal(there.learner.initial().params, job.learner.initial().params)
    assert fed.population == 20


def test_what_is_watched_at_clients_is_watched_elsewhere(tmp_path: Path) -> None:
    seen = []
    for name, executor in (("here", ff.InProcess(1)), ("there", Wired())):
        ff.run("fedavg", on=ON, out=tmp_path / name, watch="drift", executor=executor, quiet=True, **RUN)
        seen.append([row["drift"] for row in read_rows(tmp_path / name, "watch")])
    assert seen[0] == seen[1]
    assert len(seen[0]) == 2


@pytest.mark.parametrize(
    ("given", "why"),
    [({"model": nn.Linear(64, 10)}, "its model can"), ({"model": nn.Sequential, "loss": max}, "its model and")],
)
def test_what_only_python_can_say_is_not_ordered(given: dict[str, Any], why: str) -> None:
    said = ff.experiment("fedavg", ON, **{**RUN, **given}).as_json()
    job = make_ready(ff.experiment("fedavg", ON, **RUN)).job
    with pytest.raises(SettingError, match=f"cannot be told to clients elsewhere: {why}.*executor='in-process'"):
        order_of(replace(job, said=said))


def test_data_given_in_python_are_not_ordered() -> None:
    with pytest.raises(SettingError, match="cannot be told to clients elsewhere: its on can"):
        order_of(make_ready(small()).job)


def test_a_stranger_among_the_pieces_is_not_ordered() -> None:
    job = make_ready(ff.experiment("fedavg", ON, **RUN)).job
    for pieces in ((*job.pieces, Clip(1.0)), (Clip(1.0), *job.pieces)):
        with pytest.raises(SettingError, match="do not make its pieces again"):
            order_of(replace(job, pieces=pieces))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"shows": 3}, "shows must be true or false"),
        ({"measures": ["fedavg()"]}, "not all can be measured"),
        ({"measures": ["open('x')"]}, "not all can be measured"),
        ({"experiment": {}}, "method is missing"),
        ({"code": "import os"}, "code is not known"),
    ],
)
def test_an_order_that_cannot_be_followed(change: dict[str, Any], why: str) -> None:
    order = order_of(make_ready(ff.experiment("fedavg", ON, **RUN)).job)
    with pytest.raises(FedflatError, match=why):
        job_of(Order({**order.texts, **change}))
