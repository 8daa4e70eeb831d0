"""A run as texts for clients elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fedflat as ff
from experiments.small import ON
from experiments.small import experiment as small
from fedflat.client.gradient_transforms import Clip
from fedflat.client.measurements import EpochEnds
from fedflat.errors import FedflatError, SettingError
from fedflat.execution.wire_format import JobSpec, decode, encode
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.job_spec import Loopback, data_of_spec, job_of_spec, spec_of_job
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.record import read_rows

RUN: dict[str, Any] = {
    "rounds": 2,
    "model": "mlp(hidden=[4])",
    "clients_per_round": 3,
    "seed": 2,
    "local_epochs": 2,
}


def test_a_job_is_made_again_from_texts() -> None:
    job = prepare(
        ff.experiment(
            "feddyn(alpha=0.1) + sam()", ON, weight_decay=0.1, lr="decay(0.1, 0.9)", **RUN
        )
    ).job
    job = replace(
        job, pieces=(*job.pieces, EpochEnds(inside=False)), mean_examples=3.25, returns_models=True
    )
    got = decode(encode(spec_of_job(job)))
    assert isinstance(got, JobSpec)
    there = job_of_spec(got)
    assert (there.pieces, there.local, there.seed) == (job.pieces, job.local, job.seed)
    assert (there.mean_examples, there.returns_models) == (3.25, True)
    assert torch.equal(there.learner.initial().params, job.learner.initial().params)
    assert data_of_spec(got).population == 20


def test_what_is_recorded_at_clients_is_recorded_elsewhere(tmp_path: Path) -> None:
    seen = []
    for name, executor in (("here", ff.InProcess(1)), ("there", Loopback())):
        ff.run(
            "fedavg",
            on=ON,
            out=tmp_path / name,
            record="drift",
            executor=executor,
            quiet=True,
            **RUN,
        )
        seen.append([row["drift"] for row in read_rows(tmp_path / name, "recorded")])
    assert seen[0] == seen[1]
    assert len(seen[0]) == 2


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"model": nn.Linear(64, 10)}, "its model can"),
        ({"model": nn.Sequential, "loss": max}, "its model and"),
    ],
)
def test_what_only_python_can_say_is_not_ordered(given: dict[str, Any], why: str) -> None:
    texts = ff.experiment("fedavg", ON, **{**RUN, **given}).as_json()
    job = prepare(ff.experiment("fedavg", ON, **RUN)).job
    with pytest.raises(
        SettingError,
        match=f"cannot be sent to clients on other machines: {why}.*executor='in-process'",
    ):
        spec_of_job(replace(job, experiment=texts))


def test_data_given_in_python_are_not_ordered() -> None:
    with pytest.raises(
        SettingError, match="cannot be sent to clients on other machines: its on can"
    ):
        spec_of_job(prepare(small()).job)


def test_a_stranger_among_the_pieces_is_not_ordered() -> None:
    job = prepare(ff.experiment("fedavg", ON, **RUN)).job
    for pieces in ((*job.pieces, Clip(1.0)), (Clip(1.0), *job.pieces)):
        with pytest.raises(SettingError, match="do not give its pieces again"):
            spec_of_job(replace(job, pieces=pieces))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"shows": 3}, "shows must be true or false"),
        ({"measures": ["fedavg()"]}, "not all can be measured"),
        ({"measures": ["open('x')"]}, "not all can be measured"),
        ({"experiment": {}}, "method is missing"),
        ({"outputs": "ten"}, "outputs must be a whole number"),
        ({"code": "import os"}, "code is not known"),
    ],
)
def test_an_order_that_cannot_be_followed(change: dict[str, Any], why: str) -> None:
    order = spec_of_job(prepare(ff.experiment("fedavg", ON, **RUN)).job)
    with pytest.raises(FedflatError, match=why):
        job_of_spec(replace(order, settings={**order.settings, **change}))


def test_a_client_needs_no_data_of_others_to_build_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of_job(prepare(ff.experiment("fedavg", ON, **RUN)).job)
    monkeypatch.setattr(Experiment, "source", None)
    monkeypatch.setattr(Experiment, "open_learner", None)
    learner = job_of_spec(spec).learner
    assert learner.initial().params.numel() > 0
    assert all(not part.any() for part in spec.sample)  # shapes and dtypes, no example
    with pytest.raises(SettingError, match="it has no sample of the inputs"):
        job_of_spec(replace(spec, sample=()))
