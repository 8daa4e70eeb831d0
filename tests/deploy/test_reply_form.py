"""Replies that a client must not send: they are refused, and the run goes on without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedflat.client.instructions import Evaluate
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.messages import Broadcast, Reply
from fedflat.deploy.envelope import ReplyForm
from fedflat.execution.wire_format import WireError
from fedflat.experiments.api import experiment
from fedflat.experiments.prepare import prepare

Change = Callable[[Reply], Reply]
ON = "digits(lda(0.5), clients=2)"


@pytest.fixture(scope="module")
def trained() -> tuple[ClientJob, Broadcast, Reply]:
    """A reply to SCAFFOLD's request, and what it answers."""
    setup = prepare(experiment("scaffold", ON, rounds=1, clients_per_round=2))
    model = setup.job.learner.flat.model()
    control = {"scaffold": {"c": torch.zeros_like(model.params)}}
    broadcast = Broadcast(0, model.params, model.buffers, 0.1, control)
    reply, _ = run_client(setup.job, Request(0, broadcast, {}, "0/1/0"), setup.fed.data(0))
    return setup.job, broadcast, reply


def test_a_right_reply(trained: tuple[ClientJob, Broadcast, Reply]) -> None:
    job, broadcast, reply = trained
    form = ReplyForm.of(job)
    form.check(reply, broadcast, "a")
    form.check(replace(reply, delta=-reply.delta), broadcast, "b")


def _extras(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda reply: replace(
        reply,
        extras={
            key: {name: change(tensor) for name, tensor in named.items()}
            for key, named in reply.extras.items()
        },
    )


def _metrics(**more: float) -> Change:
    return lambda reply: replace(reply, metrics={**reply.metrics, **more})


WRONG: list[tuple[Change, str]] = [
    (lambda reply: replace(reply, delta=reply.delta[:-1]), "does not fit the model: its update"),
    (lambda reply: replace(reply, delta=reply.delta[None]), "does not fit the model: its update"),
    (lambda reply: replace(reply, delta=reply.delta.double()), "float64"),
    (lambda reply: replace(reply, delta=reply.delta.long()), "int64"),
    (lambda reply: replace(reply, delta=torch.tensor(1.0)), "does not fit the model: its update"),
    (lambda reply: replace(reply, buffers=torch.ones(7)), "its running statistics"),
    (lambda reply: replace(reply, steps=0), "it took 0 steps"),
    (lambda reply: replace(reply, samples=-5), "with -5 examples"),
    (lambda reply: replace(reply, metrics={}), "has no training loss"),
    (lambda reply: replace(reply, extras={}), "lacks tensors of scaffold"),
    (_extras(lambda t: t[:-1]), "lacks tensors of scaffold"),
    (_metrics(weight=-1.0), "weighs itself as -1"),
    (_metrics(weight=float("nan")), "weighs itself as nan"),
]


@pytest.mark.parametrize(("change", "why"), WRONG)
def test_wrong_replies(
    trained: tuple[ClientJob, Broadcast, Reply], change: Change, why: str
) -> None:
    job, broadcast, reply = trained
    with pytest.raises(WireError, match=why):
        ReplyForm.of(job).check(change(reply), broadcast, "a")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_extras(lambda t: t.double()), r"has scaffold/\w+ \[\d+\] beside the update"),
        (lambda r: replace(r, extras={**r.extras, "x": {"y": torch.ones(2)}}), r"x/y \[2\]"),
        (_metrics(weight=1e9), r"has scaffold.*, weight \[\] beside .*, of a, had"),
    ],
)
def test_other_tensors_than_the_first_reply(
    trained: tuple[ClientJob, Broadcast, Reply], change: Change, why: str
) -> None:
    job, broadcast, reply = trained
    form = ReplyForm.of(job)
    form.check(reply, broadcast, "a")
    with pytest.raises(WireError, match=why):
        form.check(change(reply), broadcast, "b")


def test_scores_and_descriptions(trained: tuple[ClientJob, Broadcast, Reply]) -> None:
    """Descriptions of clients may have any length; their names must agree."""
    job, broadcast, reply = trained
    asked = replace(broadcast, instruction=Evaluate())
    empty = replace(reply, delta=torch.empty(0), buffers=torch.empty(0))
    form = ReplyForm.of(job)

    def check(found: dict[str, Any]) -> None:
        form.check(replace(empty, extras={"evaluate": found}), asked, "a")

    check({"accuracy": torch.ones(3, 2)})
    check({"accuracy": torch.ones(5, 2)})
    for other in ({}, {"loss": torch.ones(3, 2)}, {"accuracy": torch.ones(3)}):
        with pytest.raises(WireError, match="beside the update"):
            check(other)


def test_a_run_goes_on_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nvflare", reason="needs the extra fedflat[deploy]")
    from deploy.in_memory import Federation
    from deploy.test_session import begin, train
    from fedflat.deploy import node
    from fedflat.execution.wire_format import ClientReply, decode, encode

    monkeypatch.setattr(node, "BEAT", 0.05)
    monkeypatch.setattr(node, "STEP", 0.05)

    class Broken(node.Node):
        """Sends numbers of another type."""

        def _answer(self, *arguments: Any) -> tuple[bytes, bool]:
            answer, afresh = super()._answer(*arguments)
            found = decode(answer)
            assert isinstance(found, ClientReply)
            wrong = replace(found.reply, delta=found.reply.delta.double())
            return encode(replace(found, reply=wrong)), afresh

    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0, Broken)
    fed.join("b", ON, 1)
    server = begin(fed)
    result = train(fed, min_replies=1, out=tmp_path / "run")
    server.end()
    server.close()
    assert result.ledger.missing == 2
    log = (tmp_path / "run" / "recorded.jsonl").read_text()
    assert log.count("its update have the form") == 2
