"""Instructions run on one client, in a stack and in a worker."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import fedflat
from experiments.small import experiment
from fedflat.client.instructions import Describe, Evaluate, FineTune, Gradient, LabelCounts
from fedflat.client.training import ClientWork, Request, run_client
from fedflat.core.messages import Broadcast, Instruction, Replies, Reply, Train
from fedflat.errors import SettingError
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.open_exchange import open_exchanges
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import parse, register
from fedflat.server.ledger import Ledger

INSTRUCTIONS = (Train(), FineTune(), Gradient(), Evaluate(), Describe(LabelCounts()))


def ready(**more: object) -> RunSetup:
    on = fedflat.digits(fedflat.lda(0.5), clients=6, **{"split": 0.7, **more})
    return prepare(experiment("fedavg", on=on))


def exchanged(what: RunSetup, executor: object, instruction: Instruction) -> tuple[Replies, Ledger]:
    start = what.job.learner.initial()
    with executor.open(what.job, what.fed, what.source) as pool:  # type: ignore[attr-defined]
        exchange = open_exchanges(what, pool).open(0, ClientStates(), {}, Ledger())
        send = exchange.sender("server", [(0,), (2,), (3,), (5,)])
        return send(
            Broadcast(0, start.params, start.buffers, 0.1, instruction=instruction)
        ), exchange.ledger


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=repr)
def test_its_text_makes_it_again(instruction: Instruction) -> None:
    assert parse(repr(instruction), "instruction") == instruction
    assert parse(instruction.full(), "instruction") == instruction


def test_a_broadcast_trains_by_default() -> None:
    assert Broadcast(0, torch.zeros(1), torch.zeros(0), 0.1).instruction == Train()


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize(
    "executor", [InProcess(threads=1), Stacked(), Workers(1)], ids=["here", "stacked", "worker"]
)
def test_clients_tell_how_well_a_model_does_on_their_own_test_parts(executor: object) -> None:
    """The same as by hand, by a plain loop over the held-out images; and a score is all that is
    sent up."""
    what = ready()
    replies, ledger = exchanged(what, executor, Evaluate())
    module = what.job.learner.module().eval()
    shares, sizes = [], []
    for client in (0, 2, 3, 5):
        data = what.fed.data(client).own_test
        assert data is not None
        batch = data.batch(torch.arange(len(data)), torch.float32)
        with torch.no_grad():
            shares.append(float((module(batch.inputs).argmax(1) == batch.targets).double().mean()))
        sizes.append(len(data))
    mean = sum(n * share for n, share in zip(sizes, shares, strict=True)) / sum(sizes)
    assert float(replies.mean("evaluate", "accuracy")) == pytest.approx(sum(shares) / 4, abs=1e-12)
    assert float(replies.mean("evaluate", "accuracy", "sized")) == pytest.approx(mean, abs=1e-12)
    dim = what.job.learner.flat.layout.dim
    assert (ledger.down, ledger.up, ledger.samples) == (4 * 4 * dim, 4 * 2 * 8, 0)


@pytest.mark.parametrize("executor", [InProcess(threads=1), Stacked()], ids=["here", "stacked"])
def test_clients_describe_their_labels_without_a_model(executor: object) -> None:
    what = ready()
    replies, ledger = exchanged(what, executor, Describe(LabelCounts()))
    counts = torch.stack(
        [torch.bincount(what.fed.data(k).labels, minlength=10) for k in (0, 2, 3, 5)]
    ).double()
    torch.testing.assert_close(replies.mean("describe", "vector"), counts.mean(0))
    assert (ledger.down, ledger.up) == (0, 4 * 10 * 8)


def test_a_client_without_a_test_part_says_so() -> None:
    what = ready(split=None)
    start = what.job.learner.initial()
    request = Request(1, Broadcast(0, start.params, start.buffers, 0.1, instruction=Evaluate()), {})
    with pytest.raises(
        SettingError, match=r"client 1 has no test examples of its own .* split=0.7"
    ):
        run_client(what.job, request, what.fed.data(1))


def test_only_what_counts_is_remembered() -> None:
    """A request without training leaves the client's memory as it was, whatever the broadcast
    says."""
    what = prepare(experiment("feddyn", on=fedflat.digits(clients=6, split=0.7)))
    start, clients = what.job.learner.initial(), ClientStates()
    with InProcess(threads=1).open(what.job, what.fed, what.source) as pool:
        exchange = open_exchanges(what, pool).open(0, clients, {}, Ledger())
        send = exchange.sender("server", [(0,), (1,)])
        for instruction in INSTRUCTIONS:
            send(Broadcast(0, start.params, start.buffers, 0.1, instruction=instruction))
            assert (0 in clients) is True, instruction
            clients.commit() if instruction == Train() else clients.discard()
        assert set(clients.state(0)) == {"dual"}


def test_no_module_asks_which_ask_it_is() -> None:
    """The declarations are enough: there is no test of a string or a type of asks in the
    package."""
    home = Path(fedflat.__file__).parent
    kinds = (
        r"isinstance\([^)]*\b(instruction|Instruction|Train|FineTune|Gradient|Evaluate|Describe)\b"
    )
    pattern = re.compile(rf"broadcast\.task|{kinds}|\binstruction (==|!=|is) ")
    found = [path for path in home.rglob("*.py") if pattern.search(path.read_text())]
    assert found == []


def test_anybodys_ask_and_describer() -> None:
    """Registered outside the package, given as text, run in this process and beside a stack."""

    @register("instruction", "count_of_mine")
    @dataclass(frozen=True, repr=False)
    class Count(Instruction):
        times: int

        def run(self, client: ClientWork) -> tuple[Reply, object]:
            number = torch.tensor(float(self.times * len(client.data)))
            return client.answer("count", {"n": number}, examples=1)

    what = ready()
    replies, _ = exchanged(what, Stacked(), parse("count_of_mine(3)", "instruction"))
    assert float(replies.mean("count", "n")) == pytest.approx(
        3 * sum(len(what.fed.data(k)) for k in (0, 2, 3, 5)) / 4
    )


def test_describe_wants_a_describer() -> None:
    with pytest.raises(SettingError, match="must be a describer such as label_counts"):
        parse("describe(3)", "instruction")
