"""A client behind the wire: what it answers, and what it keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from experiments.small import experiment
from fedflat.client.piece import ClientState
from fedflat.client.state_store import StateStore
from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast
from fedflat.errors import RunError
from fedflat.execution.client_runtime import ClientRuntime
from fedflat.execution.loopback import LoopbackPool
from fedflat.execution.wire_envelope import message_id
from fedflat.execution.wire_format import ClientReply, RequestMessage, WireError, decode, encode
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_setup import RunSetup

STATE: ClientState = {"dual": {"y": torch.tensor([1.0, torch.nan])}, "other": {"n": torch.ones(())}}


@pytest.fixture(scope="module")
def setup() -> RunSetup:
    return prepare(experiment("feddyn(alpha=0.1)"))


def broadcast_of(setup: RunSetup, round: int = 0) -> Broadcast:
    start = setup.job.learner.initial()
    return Broadcast(round, start.params, start.buffers, 0.1)


def handled(runtime: ClientRuntime, request: Request) -> ClientReply | ClientFailure:
    content = encode(request.broadcast)
    answer = decode(
        runtime.handle(content, encode(RequestMessage.of(request, message_id(content))))
    )
    assert isinstance(answer, ClientReply | ClientFailure)
    return answer


def test_a_repeated_request_has_the_same_reply(setup: RunSetup, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "1")
    runtime = ClientRuntime(setup.job, setup.fed.data, lambda client: store)
    handled(runtime, Request(1, broadcast_of(setup), {}, "0/1/1"))
    second = Request(1, broadcast_of(setup, 1), {}, "1/1/1", "0/1/1", ("0/1/1",))
    one, again = handled(runtime, second), handled(runtime, second)
    assert isinstance(one, ClientReply)
    assert isinstance(again, ClientReply)
    assert one.kept
    assert not one.state
    assert torch.equal(one.reply.delta, again.reply.delta)
    fresh = handled(runtime, replace(second, state_id=None))
    assert isinstance(fresh, ClientReply)
    assert not torch.equal(one.reply.delta, fresh.reply.delta)


def test_states_that_no_request_names_are_removed(setup: RunSetup, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "1")
    runtime = ClientRuntime(setup.job, setup.fed.data, lambda client: store)
    for id in ("a", "b", "c"):
        store.put(id, {})
    handled(runtime, Request(1, broadcast_of(setup), {}, "0/1/1", None, ("b",)))
    assert [store.get(id) is not None for id in ("a", "b", "c", "0/1/1")] == [
        False,
        True,
        False,
        True,
    ]


def test_a_probe_keeps_nothing(setup: RunSetup, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "1")
    runtime = ClientRuntime(setup.job, setup.fed.data, lambda client: store)
    probe = replace(broadcast_of(setup), commit=False)
    answer = handled(runtime, Request(1, probe, {}, "0/1/1"))
    assert isinstance(answer, ClientReply)
    assert not answer.kept
    assert store.get("0/1/1") is None


def test_an_error_is_a_failure(setup: RunSetup) -> None:
    runtime = ClientRuntime(setup.job, setup.fed.data)
    answer = handled(runtime, Request(99, broadcast_of(setup), {}, "0/1/99"))
    assert isinstance(answer, ClientFailure)
    assert (answer.client, answer.request, answer.reason) == (99, "0/1/99", "crashed")
    assert "IndexError" in answer.detail


def test_a_request_with_another_broadcast_is_refused(setup: RunSetup) -> None:
    runtime, content = (
        ClientRuntime(setup.job, setup.fed.data),
        encode(broadcast_of(setup)),
    )
    request = encode(RequestMessage("0/1/1", 1, "ab"))
    with pytest.raises(WireError, match=r"names the broadcast 'ab', but .* came with it"):
        runtime.handle(content, request)
    with pytest.raises(WireError, match="expected a request, found Broadcast"):
        runtime.handle(content, content)
    with pytest.raises(WireError, match="expected a broadcast, found RequestMessage"):
        runtime.handle(request, encode(RequestMessage("0/1/1", 1, message_id(request))))


def test_a_broadcast_is_sent_once_and_its_model_is_not_sent_again(setup: RunSetup) -> None:
    pool = LoopbackPool(ClientRuntime(setup.job, setup.fed.data))
    first = broadcast_of(setup)
    model = len(encode(first))

    def sent(broadcast: Broadcast, clients: int) -> int:
        before = pool.bytes_sent
        requests = [Request(k, broadcast, {}, f"0/1/{k}") for k in range(clients)]
        assert all(not isinstance(outcome, ClientFailure) for outcome in pool.run(requests))
        return pool.bytes_sent - before

    two, three = sent(first, 2), sent(replace(first, params=first.params + 1), 3)
    assert 0 < three - two < two
    again = replace(pool._last[0], lr=0.2) if pool._last else first
    assert sent(again, 3) < three - model / 4


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    for id in ("3/1/7", "../../x", "", "a" * 500):
        store = StateStore(tmp_path / "1")
        store.put(id, STATE)
        got = StateStore(tmp_path / "1").get(id)
        assert got is not None
        assert got.keys() == STATE.keys()
        assert got["dual"]["y"].tolist()[0] == 1.0
        assert got["dual"]["y"].isnan().tolist() == [False, True]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "1")
    store.put("x", STATE)
    [file] = store.folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(RunError, match=r"cannot be read: .* Put back the client's own file"):
        store.get("x")
