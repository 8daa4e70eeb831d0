"""Requests without a reply: which failures a round tolerates, its numbers, and its record."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from experiments.small import begin, experiment, go_on
from fedflat.client.piece import ClientContext, Piece
from fedflat.client.training import ClientJob, Request
from fedflat.composition.method import Method
from fedflat.core.failures import LATE, ClientFailure
from fedflat.core.flat import GradFn, Model
from fedflat.core.messages import Reply
from fedflat.core.stage import Stage
from fedflat.data.federation import Federation
from fedflat.errors import FedflatError, NotFinite, SettingError
from fedflat.execution.client_pool import ClientPool, Executor, PoolOutcome, Source
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.evaluator import client_tests
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.run_folder.record import read_rows
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.train import train
from fedflat.server.client_evaluation import nanmean
from fedflat.server.client_registry import ClientRegistry
from fedflat.server.client_selection import ClientSampler

COHORTS = [[0, 1, 2], [3, 1, 4], [0, 2, 4], [1, 3, 4], [2, 0, 1], [3, 4, 2]]
BAD = {(1, 3), (3, 3), (3, 4)}
"""Rounds and clients of requests that end badly."""


@dataclass(frozen=True, repr=False)
class Trouble(Piece):
    """In some requests something happens before the first step."""

    what: str

    stage, key = Stage.CORRECT, "trouble"
    stackable = True

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Kill the process, once, or raise."""
        if (v.round, v.client) == (1, 3) and self.what == "kill":
            assert multiprocessing.parent_process() is not None, "that would be us"
            os.kill(os.getpid(), signal.SIGKILL)
        if (v.round, v.client) in BAD and self.what in ("raise", "kill"):
            raise ZeroDivisionError("out of luck")
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Not a number."""
        return grad(w) * (math.nan if (v.round, v.client) in BAD and self.what == "spoil" else 1.0)


def troubled(what: str, method: str = "feddyn(alpha=0.1)", **more: Any) -> Experiment:
    exp = experiment(method, sampler=ClientSampler(cohorts=COHORTS), **{"min_replies": 1, **more})
    bad = Method(client=(Trouble(what),), text="trouble")
    return replace(exp, method=exp.method + bad)


def without() -> Experiment:
    """The same run where those clients were never asked."""
    cohorts = [[k for k in cohort if (t, k) not in BAD] for t, cohort in enumerate(COHORTS)]
    return replace(troubled("nothing"), sampler=ClientSampler(cohorts=cohorts))


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize(
    ("what", "executor", "reason", "why"),
    [
        ("raise", InProcess(1), "crashed", "ZeroDivisionError: out of luck"),
        (
            "kill",
            Workers(1),
            "crashed",
            "A worker process died unexpectedly, probably out of memory",
        ),
        ("spoil", InProcess(1), "not finite", ""),
    ],
)
def test_a_round_goes_on_with_those_who_came(
    what: str, executor: Executor, reason: str, why: str
) -> None:
    """As if the others had not been asked: weights, states and all; dead workers are replaced."""
    run_folder = RunFolder()
    result = train(troubled(what, on_bad="skip"), executor=executor, run_folder=run_folder)
    expected = train(without(), executor=InProcess(1))
    assert result.status == "done"
    assert torch.equal(result.model.params, expected.model.params)
    missing = [(row["round"], one) for row in run_folder.recorded for one in row["missing"]]
    named = [(round, one["client"], one["request"], one["reason"]) for round, one in missing]
    assert named == [(2, 3, "1/1/3", reason), (4, 3, "3/1/3", reason), (4, 4, "3/1/4", reason)]
    assert missing[0][1]["why"] == why
    assert result.ledger.missing == 3
    assert [row.get("missing", 0) for row in result.rows] == [0, 1, 1, 3, 3, 3]
    assert not multiprocessing.active_children()
    sent = 4 * len(result.model.params)
    assert (
        result.ledger.down == expected.ledger.down + 3 * sent
    )  # their requests were sent all the same
    assert result.ledger.up == expected.ledger.up + (3 * sent if what == "spoil" else 0)


@pytest.mark.parametrize(
    ("what", "executor", "error"),
    [
        ("raise", InProcess(1), ZeroDivisionError),
        ("raise", Stacked(), ZeroDivisionError),
        ("spoil", InProcess(1), NotFinite),
    ],
)
def test_by_default_no_client_may_fail(
    what: str, executor: Executor, error: type[Exception]
) -> None:
    with pytest.raises(error):
        train(troubled(what, min_replies=None), executor=executor)


def test_numbers_that_are_none_are_a_matter_of_their_own() -> None:
    with pytest.raises(
        NotFinite,
        match="round 2, client 3: the reply is NaN or infinite; the first bad number came",
    ):
        train(troubled("spoil", min_replies=1, on_bad="raise"))


@pytest.mark.parametrize("what", ["raise", "spoil"])
def test_too_few(what: str) -> None:
    train(replace(troubled(what, min_replies=2, on_bad="skip"), rounds=3))
    with pytest.raises(FedflatError) as caught:
        train(troubled(what, min_replies=2, on_bad="skip"))
    output = (
        "crashed (ZeroDivisionError: out of luck)" if what == "raise" else "sent NaN or infinity"
    )
    assert str(caught.value) == (
        f"round 4: 1 replies came that could be used, and min_replies asks for 2 at least: client 3 {output}; client 4 "
        f"{output}. See what went wrong there, ask more clients a round, or ask for fewer replies."
    )


@pytest.mark.parametrize(("rule", "least"), [("krum(attackers=0)", 3), ("trimmed_mean(trim=1)", 3)])
def test_rules_are_held_to_the_replies_that_came(rule: str, least: int) -> None:
    with pytest.raises(
        FedflatError,
        match=rf"round 2: {rule[:4]}.* needs at least {least} replies, but only 2 came",
    ):
        train(troubled("raise", rule))
    assert train(troubled("raise", "median()")).status == "done"


def test_a_resumed_run_is_the_same(tmp_path: Path) -> None:
    exp = troubled("raise")
    whole = begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "cut", stop=3)
    cut = go_on(exp, tmp_path / "cut")
    assert torch.equal(whole.model.params, cut.model.params)
    assert whole.ledger.missing == cut.ledger.missing == 3
    rows = [read_rows(tmp_path / name, "recorded") for name in ("whole", "cut")]
    seen = [[(row["round"], row["missing"]) for row in some] for some in rows]
    assert seen[0] == seen[1]
    assert [round for round, _ in seen[0]] == [2, 4]


def test_clients_of_a_failed_stack_are_missing() -> None:
    """Clients 3 and 4 alone in their rows: one fails, the others of the cohort have other sizes."""
    run_folder = RunFolder()
    result = train(troubled("raise"), executor=Stacked(), run_folder=run_folder)
    assert result.status == "done"
    assert {one["client"] for row in run_folder.recorded for one in row["missing"]} >= {3, 4}


@dataclass
class Meddling:
    """Runs clients in this process, and changes the outcomes."""

    meddle: Callable[[Request, PoolOutcome], list[PoolOutcome]]

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        with InProcess(1).open(job, fed, source) as self.pool:
            yield self

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        for request in requests:
            for outcome in self.pool.run([request]):
                yield from self.meddle(request, outcome)


def bad(request: Request) -> bool:
    return (request.broadcast.round, request.client) in BAD


def late(request: Request, outcome: PoolOutcome) -> list[PoolOutcome]:
    """The reply to a request of an earlier exchange, twice; the others answer twice too."""
    assert isinstance(outcome, tuple)
    reply, memory = outcome
    wrong = replace(reply, request=f"0/1/{request.client}")  # type: ignore[arg-type]
    return [(wrong, memory), (wrong, memory)] if bad(request) else [outcome, outcome]


def shortened(request: Request, outcome: PoolOutcome) -> list[PoolOutcome]:
    assert isinstance(outcome, tuple)
    reply, memory = outcome
    return [(replace(reply, delta=reply.delta[1:]), memory)] if bad(request) else [outcome]


def silent(request: Request, outcome: PoolOutcome) -> list[PoolOutcome]:
    return [] if bad(request) else [outcome]


def unwilling(request: Request, outcome: PoolOutcome) -> list[PoolOutcome]:
    return [
        ClientFailure(request.client, request.id, "refused", "not today")
        if bad(request)
        else outcome
    ]


@pytest.mark.parametrize(
    ("meddle", "reason", "why"),
    [
        (late, "too late", "no answer came"),
        (silent, "too late", "no answer came"),
        (shortened, "refused", "the reply does not fit the model"),
        (unwilling, "refused", "not today"),
    ],
)
def test_answers_that_do_not_count(meddle: Any, reason: str, why: str) -> None:
    run_folder = RunFolder()
    result = train(troubled("nothing"), executor=Meddling(meddle), run_folder=run_folder)
    assert torch.equal(result.model.params, train(without(), executor=InProcess(1)).model.params)
    assert [
        (one["reason"], one["why"]) for row in run_folder.recorded for one in row["missing"]
    ] == [(reason, why)] * 3
    with pytest.raises(FedflatError, match=r"round 2: client 3 was .*set min_replies"):
        train(troubled("nothing", min_replies=None), executor=Meddling(meddle))


def test_a_client_that_missed_the_model_is_sent_it_again() -> None:
    """Mime asks for a gradient first, then sends its second request without the model."""
    requests: list[Request] = []

    def first_lost(request: Request, outcome: PoolOutcome) -> list[PoolOutcome]:
        requests.append(request)
        return [] if request.id == "0/1/1" else [outcome]

    exp = experiment(
        "mime(b=0.5)", sampler=ClientSampler(cohorts=[[0, 1, 2]]), rounds=1, min_replies=2
    )
    result = train(exp, executor=Meddling(first_lost))
    assert [(request.id, request.broadcast.repeat) for request in requests[3:]] == [
        ("0/2/0", True),
        ("0/2/1", False),
        ("0/2/2", True),
    ]
    model = 4 * len(result.model.params)
    assert (
        result.ledger.down == 3 * model + 3 * 2 * model + model
    )  # c and m go to all, the model again to one


def test_more_than_there_are() -> None:
    with pytest.raises(
        SettingError,
        match=r"min_replies=3 asks for more replies than there are clients in a round, 2",
    ):
        train(experiment(min_replies=3))
    with pytest.raises(SettingError, match="min replies"):
        experiment(min_replies=0)


def test_only_known_reasons() -> None:
    with pytest.raises(SettingError, match="reason"):
        ClientFailure(1, "0/1/1", "bored")


def test_own_tests_are_reported_by_client_when_some_fail() -> None:
    """In which order answers come says nothing of whose they are."""

    class Backwards:
        def run(self, requests: Sequence[Request]) -> Iterator[Any]:
            for request in reversed(requests):
                if request.client == 1:
                    yield ClientFailure(1, request.id, LATE)
                    continue
                score = {"evaluate": {"accuracy": torch.tensor(request.client / 10)}}
                none = request.broadcast.params
                yield (
                    Reply(
                        request.client, none, none, 1, 0, score, {"loss": 0.0}, request=request.id
                    ),
                    {},
                )

    registry = ClientRegistry(4, lambda client: 1, lambda: [1] * 4, clients_have_tests=True)
    own = client_tests(Backwards(), registry, "accuracy", "evaluate/1/server", may_miss=True)  # type: ignore[arg-type]
    assert own is not None
    found = own(Model(torch.zeros(0), torch.zeros(0)))
    assert found[[0, 2, 3]].tolist() == pytest.approx([0.0, 0.2, 0.3])
    assert bool(found[1].isnan())
    assert nanmean(found) == pytest.approx(0.5 / 3)
