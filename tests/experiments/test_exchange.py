"""Replies that are not finite: named, left out, or the end of the run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.small import SIZES, begin, experiment, rows
from fedflat.client.local import LocalTraining
from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method
from fedflat.core.flat import GradFn
from fedflat.core.stage import Stage
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import FedflatError, NotFinite
from fedflat.experiments.results.results import Result
from fedflat.experiments.results.summary import summarise
from fedflat.experiments.results.tables import table
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler


def poisoned(client: int, value: float) -> Any:
    """The small data, where ``client`` holds an example with a number that is none."""
    rng = torch.Generator().manual_seed(0)
    given = []
    for k, size in enumerate(SIZES):
        y = torch.arange(size) % 3
        x = torch.randn(size, 4, generator=rng) + y.view(-1, 1)
        if k == client:
            x[1, 2] = value
        given.append((x, y))
    return clients_of(given, test=given[(client + 1) % 5], classes=3)


COHORTS = ClientSampler(cohorts=[[0, 1], [2, 4], [3, 1], [0, 2], [1, 4], [2, 0]])
"""Client 3 is asked once, in round 2."""


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_bad_reply_is_named(value: float) -> None:
    exp = experiment("sam(rho=0.05)", on=poisoned(3, value), sampler=COHORTS)
    with pytest.raises(NotFinite) as caught:
        train(exp)
    assert str(caught.value) == (
        "round 3, client 3: the reply is NaN or infinite; the first bad number came out of the batch gradient. Lower "
        "the learning rate or clip gradients; on_bad='skip' leaves such replies out, on_bad='stop' records the run as "
        "diverged."
    )


@dataclass(frozen=True, repr=False)
class Root(Piece):
    """Takes the root of the gradient's first entry, which is not always there."""

    stage, key = Stage.CORRECT, "root"

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Negative numbers have none."""
        g = grad(w)
        return g + (torch.tensor(-1.0).sqrt() if v.client == 3 else 0)


def test_the_guilty_piece_is_named() -> None:
    method = Method(client=(Root(),))
    exp = experiment(sampler=COHORTS)
    with pytest.raises(NotFinite, match=r"round 3, client 3: .* came out of root\(\)\. Lower"):
        train(type(exp)(**{**vars(exp), "method": method}))


def steep(output: Tensor, y: Tensor) -> Tensor:
    return 1e9 * cross_entropy(output, y)


def test_steps_that_add_up_to_infinity() -> None:
    """Every gradient is finite, the model is not."""
    local = LocalTraining(batch_size=4, lr=1e30)
    exp = experiment(local=local, sampler=ClientSampler(cohorts=[[2, 0]] * 6), rounds=6, loss=steep)
    with pytest.raises(NotFinite, match=r"round 1, client 2: the reply is NaN or infinite; "):
        train(exp)


def test_a_model_that_was_already_bad() -> None:
    class Broken(nn.Linear):
        def __init__(self) -> None:
            super().__init__(4, 3)
            nn.init.constant_(self.bias, math.nan)

    with pytest.raises(NotFinite, match="the model it was sent was already not finite"):
        train(experiment(model=Broken()))


def test_skipped_replies_are_left_out() -> None:
    """Round 2 is then client 1's alone, as if it had been the cohort."""
    exp = experiment(
        "feddyn(alpha=0.1)",
        on=poisoned(3, math.nan),
        sampler=COHORTS,
        on_bad="skip",
        weighting="sized",
    )
    skipped = train(exp)
    cohorts = [[1] if t == 2 else cohort for t, cohort in enumerate(COHORTS.cohorts or [])]
    without = train(type(exp)(**{**vars(exp), "sampler": ClientSampler(cohorts=cohorts)}))
    assert skipped.status == "done"
    assert torch.equal(skipped.model.params, without.model.params)
    assert skipped.ledger.up == without.ledger.up + 4 * len(
        skipped.model.params
    )  # it was sent all the same


def test_no_client_left() -> None:
    exp = experiment(
        on=poisoned(3, math.nan), sampler=ClientSampler(cohorts=[[0], [3]] * 3), on_bad="skip"
    )
    with pytest.raises(
        FedflatError, match=r"round 2: no client's reply could be used.*on_bad='raise'"
    ):
        train(exp)


def test_a_run_that_stops_is_recorded_as_diverged(tmp_path: Path) -> None:
    exp = experiment(
        "feddyn(alpha=0.1) + ema()", on=poisoned(3, math.nan), sampler=COHORTS, on_bad="stop"
    )
    result = begin(exp, tmp_path / "run", pause=math.inf)
    assert result.status == "diverged"
    assert result.diverged
    assert read_record(tmp_path / "run").status == "diverged"
    assert [row["round"] for row in rows(tmp_path / "run")] == [1, 2]
    assert Store(tmp_path / "run" / "checkpoint").rounds() == [2]
    two = train(type(exp)(**{**vars(exp), "rounds": 2}))
    assert torch.equal(result.model.params, two.model.params)  # as it was before the bad round
    (summary,) = summarise([Result.read(tmp_path / "run")], None)
    assert "X (diverged)" in table([summary], None, 100)


@pytest.mark.parametrize(("weighting", "equal"), [("sized", False), ("uniform", True)])
def test_weighting(weighting: str, equal: bool) -> None:
    """One round of one step at lr 1: the mean of the clients' gradients, by size or not."""
    local = LocalTraining(batch_size=100, lr=1.0)
    exp = experiment(
        weighting=weighting,
        rounds=1,
        local=local,
        sampler=ClientSampler(cohorts=[[0, 2]]),
        dtype="float64",
    )
    fed = exp.source("cpu")()
    learner = exp.open_learner(fed, "cpu")
    start = learner.initial().params
    moves = []
    for k in (0, 2):
        data = fed.data(k)
        batch = data.batch(torch.arange(len(data)), torch.float64)
        moves.append(learner.oracle(batch, [])(start))
    a, b = (0.5, 0.5) if equal else (6 / 18, 12 / 18)
    expected = start - a * moves[0] - b * moves[1]
    assert torch.allclose(train(exp).model.params, expected, atol=1e-12, rtol=0)
