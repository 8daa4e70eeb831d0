"""The messages between server and clients, with queues in place of a network."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflat.deploy.transport import missing_packages

if missing_packages():
    pytest.skip("needs the extra fedflat[deploy]", allow_module_level=True)

from deploy.in_memory import Federation
from fedflat.client.state_store import StateStore
from fedflat.data.sets.remote_clients import RemoteClients, check_fits, form_of_test
from fedflat.deploy import executor, node, session
from fedflat.deploy.certificates import Identity, issue
from fedflat.deploy.envelope import SignedMessage, Signer
from fedflat.deploy.executor import Deployed
from fedflat.deploy.node import NodeSettings
from fedflat.deploy.status import status_text
from fedflat.errors import FedflatError, RunError, SettingError
from fedflat.execution.wire_format import encode
from fedflat.experiments.api import experiment, run
from fedflat.experiments.experiment import data_set
from fedflat.experiments.job_spec import spec_of_job
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result
from fedflat.server.privacy_accountant import epsilon

ON = "digits(lda(0.5), clients=2)"
METHOD = "fedgloss(rho_s=0.05, rho_l=0.05, beta=10)"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hellos often enough that nothing waits for the next one."""
    monkeypatch.setattr(node, "BEAT", 0.05)
    monkeypatch.setattr(node, "STEP", 0.05)
    monkeypatch.setattr(session, "AGAIN", 0.2)


def begin(fed: Federation, **more: Any) -> session.Session:
    """A session whose clients are all there."""
    found = fed.session(**more)
    count = len(found.clients)
    fed.until(found, lambda: len(found.online()) == count)
    found.begin(found.online())
    found.write_clients()
    return found


def train(fed: Federation, rounds: int = 2, method: str = METHOD, **more: Any) -> Result:
    """A run of the federation; ``executor`` may have further settings."""
    deployed = Deployed(str(fed.folder.path), run="r", **more.pop("executor", {}))
    on = RemoteClients(str(fed.folder.path), "r", data_set(ON))
    settings = {"clients_per_round": 2, "local_epochs": 1, "quiet": True, **more}
    return run(method, on=on, rounds=rounds, executor=deployed, **settings)


def test_a_run_has_the_bits_of_a_simulation(tmp_path: Path) -> None:
    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0)
    fed.join("b", ON, 1)
    server = begin(fed)
    there = train(fed, out=tmp_path / "run")
    server.end()
    for client in fed.clients:
        client.join()
        assert client.error is None
    server.close()
    here = run(METHOD, on=ON, rounds=2, clients_per_round=2, local_epochs=1, threads=1, quiet=True)
    assert there.model is not None
    assert here.model is not None
    assert there.model.params.equal(here.model.params)
    assert there.rows[-1]["accuracy"] == here.rows[-1]["accuracy"]


def test_another_version_is_refused_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "__version__", "0.0.1")
    fed = Federation(tmp_path, ["a"])
    client, server = fed.join("a", ON, 0), fed.session()
    fed.until(server, lambda: not client.thread.is_alive())
    assert isinstance(client.error, SettingError)
    assert "a has 0.0.1. Use the same version on both sides" in str(client.error)
    assert "a has 0.0.1" in server.clients["a"].refusal
    server.close()


def test_data_with_several_clients_need_a_part(tmp_path: Path) -> None:
    fed = Federation(tmp_path, ["a"])
    client, server = fed.join("a", ON), fed.session()
    fed.until(server, lambda: not client.thread.is_alive() and bool(server.clients["a"].refusal))
    assert "has 2 clients, and this is one" in str(client.error)
    assert "has 2 clients, and this is one" in server.clients["a"].refusal
    server.close()


def test_data_that_do_not_fit_are_refused_before_the_first_round(tmp_path: Path) -> None:
    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0)
    fed.join("b", "diabetes(iid(), clients=1)")
    server = begin(fed)
    with pytest.raises(SettingError, match="the data of b do not fit: their inputs are"):
        train(fed)
    server.end()
    server.close()


def test_data_that_do_not_fit_are_refused_on_both_sides(tmp_path: Path) -> None:
    """The server goes on waiting: the client may come back with other data."""
    fed = Federation(tmp_path, ["a"])
    client, server = fed.join("a", "diabetes(iid(), clients=1)"), fed.session()
    needed = form_of_test(data_set(ON), data_set(ON).open(0).test)
    server.check_profile = lambda profile: check_fits(profile, needed)
    fed.until(server, lambda: not client.thread.is_alive())
    assert "the data of a do not fit: their inputs are" in str(client.error)
    assert "the data of a do not fit: their inputs are" in server.clients["a"].refusal
    again = fed.join("a", ON, 0)
    fed.until(server, lambda: server.online() == ["a"])
    server.end()
    again.join()
    server.close()


def test_an_end_that_is_lost_is_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that misses it would wait for the server to come back."""
    fed = Federation(tmp_path, ["a"])
    client = fed.join("a", ON, 0)
    server = begin(fed)
    push, sent = fed.network.push, []

    def lose_the_first(name: str, content: bytes) -> bool:
        sent.append(name)
        return len(sent) == 1 or push(name, content)

    monkeypatch.setattr(fed.network, "push", lose_the_first)
    server.end()
    assert sent == ["a", "a"]
    client.join()
    assert client.error is None
    server.close()


def test_a_client_that_comes_back_with_other_data_is_refused(tmp_path: Path) -> None:
    fed = Federation(tmp_path, ["a"])
    fed.join("a", ON, 0)
    server = begin(fed)
    server.push("a", "end")
    fed.clients[0].join()
    size = data_set(ON).open(0).size(0)
    other = fed.join("a", "digits(iid(), clients=4)", 1)
    fed.until(server, lambda: not other.thread.is_alive())
    assert f"a began this run with examples {size}, and has examples" in str(other.error)
    server.close()


def test_messages_larger_than_the_server_reads(tmp_path: Path) -> None:
    """The server refuses to begin; a client does not send a reply that would not be read."""
    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0)
    fed.join("b", ON, 1)
    server = begin(fed)
    server.most = 10_000
    with pytest.raises(SettingError, match=r"and messages may have 10,000. Allow more: --max-mess"):
        train(fed)
    server.most = session.MOST_MESSAGE
    for client in fed.clients:
        client.node.most_reply = 10_000
    with pytest.raises(FedflatError, match=r"reads at most 10,000. It can allow more: --max-mess"):
        train(fed, min_replies=1)
    server.end()
    server.close()


def test_a_lost_state_is_begun_afresh_and_both_say_so(tmp_path: Path) -> None:
    class Forgetful(node.Node):
        """Loses its states after its second answer."""

        def _request(self, content: bytes) -> None:
            super()._request(content)
            if (self.settings.folder / "run-r").exists() and len(self.broadcasts) == 2:
                shutil.rmtree(self.settings.folder / "run-r", ignore_errors=True)

    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0, Forgetful)
    fed.join("b", ON, 1)
    server = begin(fed)
    result = train(fed, rounds=3)
    server.end()
    server.close()
    assert result.status == "done"
    assert "  a had lost its state and has begun a new one" in fed.lines
    assert "a: the state 1/1/0 was lost, and a new one is begun" in fed.lines
    entries = [json.loads(line) for line in server._log.read_text().splitlines()]
    assert [e["request"] for e in entries if e.get("afresh")] == ["2/1/0"]


def test_a_full_disk_fails_the_request_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = StateStore.put

    def full(self: StateStore, id: str, state: Any) -> None:
        if self.folder.parent.name == "a":
            raise RunError("the disk is full: a.state could not be written.")
        put(self, id, state)

    monkeypatch.setattr(StateStore, "put", full)
    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0)
    fed.join("b", ON, 1)
    server = begin(fed)
    result = train(fed, min_replies=1, out=tmp_path / "run")
    server.end()
    server.close()
    assert result.status == "done"
    log = (tmp_path / "run" / "recorded.jsonl").read_text()
    assert log.count("the disk is full") == 2


def test_a_late_client_is_left_out_and_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()

    class Late(node.Node):
        def _answer(self, *arguments: Any) -> Any:
            free.wait(60)
            return super()._answer(*arguments)

    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0)
    fed.join("b", ON, 1, Late)
    server = begin(fed)
    late = {"round_timeout": 1.0}
    result = train(fed, rounds=3, min_replies=1, out=tmp_path / "run", executor=late)
    free.set()
    assert result.status == "done"
    assert result.ledger.missing == 1
    entries = [line for line in server._log.read_text().splitlines() if '"online"' in line]
    assert ['"online": ["a", "b"]' in line for line in entries] == [True, False, False]
    server.end()
    server.close()


def test_old_and_unsigned_replies_are_dropped(tmp_path: Path) -> None:
    class Replaying(node.Node):
        first: bytes | None = None

        def _send(self, kind: str, body: bytes = b"", **fields: Any) -> bool:
            if kind == "reply":
                old = Signer("a", self.signer.key).seal("server", kind, "old", body, **fields)
                self.link.send(old)
                stranger = Signer("b", self.signer.key)
                self.link.send(stranger.seal("server", kind, self.server, body, **fields))
                self.first = self.first or self.signer.seal(
                    "server", kind, self.server, body, **fields
                )
                self.link.send(self.first)
            return super()._send(kind, body, **fields)

    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0, Replaying)
    fed.join("b", ON, 1)
    server = begin(fed)
    there = train(fed)
    server.end()
    server.close()
    log = server._log.read_text()
    assert log.count("of an earlier session") == 2
    assert server.rejected == {"it is not signed by 'b'": 2}
    assert log.count('"dropped"') >= 2
    here = run(METHOD, on=ON, rounds=2, clients_per_round=2, local_epochs=1, threads=1, quiet=True)
    assert there.model is not None
    assert here.model is not None
    assert there.model.params.equal(here.model.params)


def test_requests_may_overtake_their_broadcasts(tmp_path: Path) -> None:
    """The transport keeps no order: each broadcast comes after the request that names it."""

    class Overtaken(node.Node):
        held: SignedMessage | None = None

        def _handle(self, content: bytes) -> None:
            message = self.reader.open(content)
            if message.kind == "broadcast" and not self.busy:
                self.held, self._held = message, content
                return
            super()._handle(content)
            if message.kind == "request" and self.held is not None:
                self.held = None
                super()._handle(self._held)

    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0, Overtaken)
    fed.join("b", ON, 1)
    server = begin(fed)
    there = train(fed)
    server.end()
    server.close()
    here = run(METHOD, on=ON, rounds=2, clients_per_round=2, local_epochs=1, threads=1, quiet=True)
    assert there.model is not None
    assert here.model is not None
    assert there.model.params.equal(here.model.params)


def test_too_few_clients_is_an_error_that_says_how_to_go_on(tmp_path: Path) -> None:
    fed = Federation(tmp_path, ["a", "b"])
    server = fed.session()
    server.least, server.wait = 2, 0.3
    with pytest.raises(RunError, match=r"0 of the 2 clients .* are here. Missing: a, b"):
        server.wait_until(lambda: False, "here")
    server.close()


def test_a_certificate_that_was_removed_shuts_a_client_out(tmp_path: Path) -> None:
    fed = Federation(tmp_path, ["a", "b"])
    (fed.folder.path / "clients" / "a.crt").unlink()
    client, server = fed.join("a", ON, 0), fed.session()
    fed.until(server, lambda: not client.thread.is_alive())
    assert "a is not registered here" in str(client.error)
    assert list(server.clients) == ["b"]
    server.close()


def test_a_removed_and_an_expired_certificate_are_told_apart(tmp_path: Path) -> None:
    fed = Federation(tmp_path, ["a", "b", "c"])
    place = fed.folder.path / "clients"
    ca = Identity(
        (fed.folder.path / "ca.key").read_bytes(), (fed.folder.path / "ca.crt").read_bytes()
    )
    (place / "a.crt").write_bytes(issue(ca, "a", 0).certificate)
    (place / "b.crt").unlink()
    server = fed.session()
    assert list(server.clients) == ["c"]
    assert len(fed.lines) == 1
    assert "the certificate of a counts from" in fed.lines[0]
    assert "--renew" in fed.lines[0]
    server.close()


def test_a_client_without_examples_is_refused(tmp_path: Path) -> None:
    class Empty(node.Node):
        def _send(self, kind: str, body: bytes = b"", **fields: Any) -> bool:
            if kind == "profile":
                fields["examples"] = -5
            return super()._send(kind, body, **fields)

    fed = Federation(tmp_path, ["a"])
    client, server = fed.join("a", ON, 0, Empty), fed.session()
    fed.until(server, lambda: not client.thread.is_alive())
    assert "it says that it has -5 examples" in str(client.error)
    server.close()


def test_a_run_that_is_no_name_of_a_folder_is_refused(tmp_path: Path) -> None:
    """The client would keep its states there."""
    fed = Federation(tmp_path, ["a"])
    client, server = fed.join("a", ON, 0), fed.session(run="../../elsewhere")
    fed.until(server, lambda: not client.thread.is_alive())
    assert "the server names a run '../../elsewhere'" in str(client.error)
    server.close()


def test_a_status_tells_waiting_running_stopped_and_ended_apart(tmp_path: Path) -> None:
    fed = Federation(tmp_path, ["a", "b"])
    path = fed.folder.path

    def state(server: session.Session, **more: bool) -> str:
        server._status._written = -2.0
        server._status.write(**more)
        return status_text(path).splitlines()[0].partition(", status")[0]

    server = fed.session()
    assert state(server) == "run r waits for clients"
    server.job = b"job"
    assert state(server) == "run r is running, round 1"
    server.close()
    assert state(server, closed=True) == "run r was stopped, round 1"
    again = fed.session()
    again.job, again.round = b"job", 4
    again.end()
    assert state(again, closed=True) == "run r has ended, round 5"
    again.close()


def test_what_leaves_a_client_is_printed_there_before_the_first_round(tmp_path: Path) -> None:
    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0)
    fed.join("b", ON, 1)
    server = begin(fed)
    train(fed, method="fedavg", topology="chains(groups=1)", clients_per_round=1)
    server.end()
    server.close()
    text = next(line for line in fed.lines if line.startswith("what leaves a client"))
    assert "names of classes and columns" in text
    assert "Models go from client to client" in text
    place = fed.lines.index(text)
    assert not any("answered" in line for line in fed.lines[:place])


def test_noise_that_participants_know_is_refused(tmp_path: Path) -> None:
    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0)
    fed.join("b", ON, 1)
    server = begin(fed)
    with pytest.raises(SettingError, match=r"Write dp\(..., secret=True\)"):
        train(fed, method="dp(noise=1.0, clip=0.5)")
    result = train(fed, method="dp(noise=1.0, clip=0.5, secret=True)", clients_per_round=1)
    expected = epsilon(noise=1.0, delta=1e-5, rounds=2, cohort=1, population=2, sampler="given")
    assert result.rows[-1]["epsilon"] == expected
    server.end()
    server.close()


def test_a_run_that_is_resumed_by_another_command_tells_clients_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fedflat resume` opens a session of its own."""
    fed = Federation(tmp_path, ["a", "b"])
    fed.join("a", ON, 0)
    fed.join("b", ON, 1)
    server = begin(fed)
    monkeypatch.setattr(executor, "start_session", lambda *given: server)
    session.SESSIONS.pop("r")
    train(fed)
    for client in fed.clients:
        client.join()
        assert client.error is None
    assert server.over


def test_what_cannot_be_deployed_is_refused() -> None:
    with pytest.raises(FedflatError, match="the data of this run are here"):
        run(
            "fedavg", on=ON, rounds=1, clients_per_round=2, executor=Deployed("nowhere"), quiet=True
        )


class Recorder:
    """A client's end that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, content: bytes) -> bool:
        self.sent.append(content)
        return True


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {
                "plugins": [
                    {
                        "name": "my_methods.py",
                        "version": None,
                        "digest": "00" * 32,
                        "place": "",
                        "names": ["my_sam"],
                    }
                ]
            },
            "the run needs my_sam of 'my_methods.py'",
        ),
        ({"model": "no_such_model()"}, "no_such_model"),
        ({"task": "no_such_task()"}, "no_such_task"),
        ({"method": "no_such_method"}, "no_such_method"),
    ],
)
def test_a_job_that_a_client_lacks_code_for_is_refused_on_both_sides(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    fed = Federation(tmp_path, ["a"])
    settings = NodeSettings(data_set(ON), 0, tmp_path / "a")
    client = node.Node(fed.participant("a"), settings, lambda *given: Recorder(), fed.lines.append)
    client.link = link = Recorder()
    exp = experiment("fedavg", ON, rounds=1, clients_per_round=2)
    spec = spec_of_job(prepare(exp).job)
    text = {**spec.settings, "experiment": {**spec.settings["experiment"], **change}}
    with pytest.raises(FedflatError, match=why):
        client._job(encode(replace(spec, settings=text)))
    server = fed.session()
    assert why in str(server.reader.open(link.sent[-1]).fields["why"])
    server.close()
