"""The live page over real sockets."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

import fedflat.report.live_server as live
from experiments.small import PATIENCE, begin, experiment, start
from fedflat.cli import main
from fedflat.errors import RunError, SettingError
from fedflat.experiments.api import experiments
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.study import run_many
from fedflat.report import collect
from fedflat.report.live_server import LiveServer


@contextmanager
def serving(folder: Path) -> Iterator[LiveServer]:
    with LiveServer(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(
    server: LiveServer, path: str, method: str = "GET", **headers: str
) -> tuple[HTTPResponse, bytes]:
    line = HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    try:
        line.request(
            method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        answer = line.getresponse()
        return answer, answer.read()
    finally:
        line.close()


def seen(server: LiveServer) -> dict[str, Any]:
    answer, body = ask(server, "/data.json")
    assert answer.status == 200
    return json.loads(body)


def test_the_page_and_what_it_shows(tmp_path: Path) -> None:
    begin(experiment(), tmp_path / "run")
    with serving(tmp_path / "run") as server:
        answer, body = ask(server, "/")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"<!DOCTYPE html>" in body
        assert b"connect-src 'self'" in body
        shown, expected = seen(server), json.loads(json.dumps(collect([tmp_path / "run"])))
        assert {**shown, "made": ""} == {**expected, "made": "", "live": True}
        assert [run["status"] for run in shown["runs"]] == ["done"]


def test_runs_that_appear_later_show_up(tmp_path: Path) -> None:
    with serving(tmp_path / "runs") as server:
        assert seen(server)["runs"] == []
        assert ask(server, "/")[0].status == 200
        begin(experiment(), tmp_path / "runs" / "one")
        assert len(seen(server)["runs"]) == 1
        with pytest.raises(KeyboardInterrupt):
            begin(experiment("fedsam(rho=0.05)"), tmp_path / "runs" / "two", stop=2)
        shown = seen(server)
        assert [run["status"] for run in shown["runs"]] == ["done", "running"]
        assert [method["curves"]["loss"]["round"][-1] for method in shown["methods"]] == [6, 2]


def test_studies_on_different_data_have_sections_and_targets_of_their_own(tmp_path: Path) -> None:
    for name, clients, target in (("a", 5, 0.25), ("b", 6, 0.5)):
        settings: dict[str, Any] = {"rounds": 1, "model": "logistic", "clients_per_round": 1}
        each = experiments(
            ["fedavg", "fedprox(mu=0.1)"], f"digits(clients={clients})", 1, **settings
        )
        run_many(each, ExecutionConfig(threads=1), tmp_path / name, target=target)
    with serving(tmp_path) as server:
        shown = seen(server)
    assert [(board["partition"], board["target"]) for board in shown["boards"]] == [
        ("iid(), 5 clients", 0.25),
        ("iid(), 6 clients", 0.5),
    ]
    assert [method["board"] for method in shown["methods"]] == [0, 0, 1, 1]


def test_nothing_new_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(experiment(), tmp_path / "run")
    made: list[list[Path]] = []
    monkeypatch.setattr(live, "collect", lambda folders: made.append(folders) or collect(folders))
    with serving(tmp_path) as server:
        first, _ = ask(server, "/data.json")
        tag = first.headers["ETag"]
        again, body = ask(server, "/data.json", If_None_Match=tag)
        assert (again.status, body, again.headers["ETag"]) == (304, b"", tag)
        assert ask(server, "/", If_None_Match='"another"')[0].status == 200
        assert made == [[tmp_path / "run"]]
        with open(tmp_path / "run" / "metrics.jsonl", "a") as stream:
            stream.write(
                json.dumps({"round": 7, "loss": 1.0, "accuracy": 0.5, "model": "server"}) + "\n"
            )
        news, body = ask(server, "/data.json", If_None_Match=tag)
        assert (news.status, len(made)) == (200, 2)
        assert news.headers["ETag"] != tag


def test_head_says_what_get_would(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        (head, nothing), (answer, body) = ask(server, "/", "HEAD"), ask(server, "/")
        assert (head.status, nothing) == (200, b"")
        assert (
            int(head.headers["Content-Length"])
            == int(answer.headers["Content-Length"])
            == len(body)
        )


def test_another_name_for_this_machine_gets_nothing(tmp_path: Path) -> None:
    begin(experiment(), tmp_path / "run")
    strange = (
        "evil.example",
        "evil.example:8765",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "[",
        "",
        "[::1].evil",
        "[::1].evil:8765",
        "[::1]evil",
        "[::1",
        "::1",
        "[::2]",
        "[::1%25lo]",
        "[0:0:0:0:0:0:0:1]",
        "localhost.",
        "localhost..",
        "localhost:",
        "localhost:80:80",
        "localhost:port",
        "localhost:-1",
        "localhost:123456",
        "evil@localhost",
        "localhost@evil",
        "localhost:80@evil",
        "localhost/evil",
        "localhost#evil",
        "localhost?evil",
        "evil.example, localhost",
        "localhost evil",
        "127.0.0.2",
        "0.0.0.0",
        "2130706433",
        "0x7f.1",
        "127.1",
        "locaLho\xdft",
        "localhost:\xb2",
    )
    with serving(tmp_path) as server:
        for host in strange:
            answer, body = ask(server, "/data.json", Host=host)
            assert answer.status == 403, host
            assert b"fedavg" not in body


def test_two_names_are_none(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for second in ("localhost", "evil.example"):
            line = HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
            line.putrequest("GET", "/data.json", skip_host=True)
            for host in ("localhost", second):
                line.putheader("Host", host)
            line.endheaders()
            assert line.getresponse().status == 403
            line.close()


def test_a_bad_run_does_not_take_the_page_down(tmp_path: Path) -> None:
    """Damaged runs beside a good one: it is shown, they are named, and it goes on being shown."""
    begin(experiment(), tmp_path / "good")
    for name, text in (
        ("a", "[]"),
        ("b", '{"experiment": {"method": "x"}}'),
        ("c", "{" * 100_000),
        ("d", "\0"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(text)
    record = json.loads((tmp_path / "good" / "run.json").read_text())
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "run.json").write_text(json.dumps({**record, "machine": 3}))
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "study.json").write_text('{"runs": 3}')
    with serving(tmp_path) as server:
        for _ in range(2):
            shown = seen(server)
            assert [run["folder"] for run in shown["runs"]] == [str(tmp_path / "good")]
            for name in "abcdef":
                assert any(str(tmp_path / name) in output for output in shown["problems"]), name
            assert ask(server, "/")[0].status == 200
            (tmp_path / "b" / "run.json").write_text('{"experiment": 1}')


def test_names_of_this_machine(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for host in (
            "localhost",
            "localhost:1234",
            "127.0.0.1:80",
            "[::1]:8765",
            "[::1]",
            "LOCALHOST",
            "LocalHost:1",
        ):
            assert ask(server, "/data.json", Host=host)[0].status == 200, host


def test_nothing_else_is_served(tmp_path: Path) -> None:
    begin(experiment(), tmp_path / "run")
    with serving(tmp_path) as server:
        for path in (
            "/run/run.json",
            "/run",
            "/../run.json",
            "//run.json",
            "/data.json/",
            "/%2e%2e/run.json",
        ):
            assert ask(server, path)[0].status == 404, path
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert ask(server, "/", method)[0].status == 501, method


def test_on_the_loopback_only(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.server_address[0] == "127.0.0.1"
        assert server.address == f"http://127.0.0.1:{server.server_port}/"


def test_a_browser_that_leaves_is_no_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path) as server:
        for _ in range(3):
            line = socket.create_connection(("127.0.0.1", server.server_port))
            line.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
            line.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
            )
            line.close()
        assert seen(server)["runs"] == []
    assert capfd.readouterr().err == ""


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path) as server:
        with pytest.raises(
            SettingError, match=f"port {server.server_port} .* cannot be opened: .* --port 0"
        ):
            LiveServer(tmp_path, server.server_port)
        assert main(["dashboard", str(tmp_path), "--port", str(server.server_port)]) == 2
        assert "cannot be opened" in capsys.readouterr().err
    with pytest.raises(
        SettingError, match=r"port must be a whole number .* at most 65535, found 70000"
    ):
        LiveServer(tmp_path, 70000)
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="file is a file"):
        LiveServer(tmp_path / "file", 0)


def test_the_command_ends_with_ctrl_c(tmp_path: Path) -> None:
    process = start("dashboard", str(tmp_path / "runs"), "--port", "0")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    line = HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=PATIENCE)
    line.request("GET", "/data.json")
    assert json.loads(line.getresponse().read())["runs"] == []
    line.close()
    process.send_signal(signal.SIGINT)
    _, output = process.communicate()
    assert process.returncode == 130
    assert "does not exist yet" in output
    assert "Traceback" not in output
