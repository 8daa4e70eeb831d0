"""How many clients a server holds, and how long a round takes: light nodes on loopback.

    python benchmarks/deploy_scale.py --registered 1000 --per-round 100 --megabytes 0.2 --rounds 5

The server is the real one: the transport with TLS, signed messages, the pool. The nodes are light:
each has its own certificate and its own connection, says hello, and answers every request at once
with a vector as large as the model, without training. Many of them share a process. Prints one line
of JSON: seconds of each round, memory, and bytes against the least that the models have.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import secrets
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from fedflat.client.training import Request
from fedflat.core.messages import Broadcast, Reply
from fedflat.deploy.cells import CellLink, CellTransport
from fedflat.deploy.certificates import SERVER, load_certificate, load_key
from fedflat.deploy.envelope import Reader, ReplyForm, Signer
from fedflat.deploy.executor import NetworkPool
from fedflat.deploy.federation_folder import (
    FederationFolder,
    make_federation,
    read_participant,
)
from fedflat.deploy.session import Session
from fedflat.execution.wire_envelope import message_id
from fedflat.execution.wire_format import Broadcast as SentBroadcast
from fedflat.execution.wire_format import ClientReply, RequestMessage, decode, encode
from fedflat.version import __version__

BEAT = 5.0
PROFILE = {
    "examples": 10,
    "tests": 0,
    "inputs": [{"shape": [1], "dtype": "torch.float32"}],
    "targets": {"shape": [], "dtype": "torch.int64"},
    "classes": 2,
    "class_names": [],
}
MOST = 2_000_000_000


class LightNode:
    """A client that answers without training."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.file = read_participant(path)
        place = folder / self.file.client
        place.mkdir()
        self.name, self.process = self.file.client, secrets.token_hex(4)
        self.signer = Signer(self.name, load_key(self.file.key.encode(), "key"))
        server = load_certificate(self.file.server.encode(), "server")
        self.reader = Reader(self.name, {SERVER: server}, MOST)
        credentials = self.file.write_credentials(place)
        url = f"a{self.file.url}"  # the asynchronous driver: no threads that wake without need
        self.link = CellLink(self.name, url, credentials, folder, MOST)
        self.server, self.job, self.said = "", "", 0.0
        self.model: torch.Tensor | None = None
        self.broadcast = ""
        self.early: RequestMessage | None = None

    def send(self, kind: str, body: bytes = b"", **fields: Any) -> None:
        self.link.send(self.signer.seal(SERVER, kind, self.server, body, **fields))

    def step(self) -> bool:
        """Say hello if it is time; handle a message if there is one."""
        if time.monotonic() - self.said > BEAT and self.link.connected():
            self.said = time.monotonic()
            own = {"process": self.process, "version": __version__, "busy": ""}
            self.send("hello", **own, server=self.server, job=self.job)
        content = None
        if not self.link._cell.inbox.empty():
            content = self.link.receive(0.0)
        if content is None:
            return False
        letter = self.reader.open(content)
        if letter.kind == "offer":
            self.server = letter.session
            self.send("profile", **PROFILE, name=self.name)
        elif letter.kind == "job":
            self.job = message_id(letter.body)
            self.send("ready", job=self.job)
        elif letter.kind == "broadcast":
            found = decode(letter.body)
            assert isinstance(found, SentBroadcast)
            self.model, self.broadcast = found.params, message_id(letter.body)
            if self.early is not None:
                self.answer(self.early)
        elif letter.kind == "request":
            asked = decode(letter.body)
            assert isinstance(asked, RequestMessage)
            self.answer(asked)
        return True

    def answer(self, asked: RequestMessage) -> None:
        """Answer a request, if its broadcast is here: the transport keeps no order."""
        self.early = asked
        if self.model is not None and asked.broadcast == self.broadcast:
            self.early = None
            empty = torch.empty(0)
            reply = Reply(
                asked.client, self.model, empty, 10, 10, {}, {"loss": 1.0}, request=asked.id
            )
            self.send("reply", encode(ClientReply(reply)), request=asked.id)


def light_nodes(files: list[Path], folder: Path, stop: Any) -> None:
    """A process of light nodes."""
    torch.set_num_threads(1)
    folder.mkdir()
    nodes = [LightNode(path, folder) for path in files]
    while not stop.is_set():
        if not sum(node.step() for node in nodes):
            time.sleep(0.01)


def loopback_bytes() -> int:
    """Bytes that the loopback device has carried, headers included."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[0])
    return 0


def memory(pid: int, key: str = "VmHWM") -> float:
    """MB of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1000
    return 0.0


def measure(args: argparse.Namespace, at: Path, folder: FederationFolder, names: list[str]) -> Any:
    began = time.monotonic()
    transport = CellTransport(
        folder.listens_on, folder.port, folder.credentials(), folder.path, MOST
    )
    session = Session(
        folder, transport, run="scale", seed=0, most=MOST, print_line=lambda text: None
    )
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    files = [folder.path / "participants" / f"{name}.join" for name in names]
    count = min(args.processes, len(names))
    processes = [
        context.Process(
            target=light_nodes, args=(files[k::count], at / f"nodes-{k}", stop), daemon=True
        )
        for k in range(count)
    ]
    for process in processes:
        process.start()
    session.least, session.wait = len(names), 600.0
    session.wait_until(lambda: len(session.online()) == len(names), "here")
    joined = time.monotonic() - began
    session.begin(names)
    model = torch.randn(int(args.megabytes * 1e6 / 4))
    pool = NetworkPool(session, ReplyForm(weighs=False, sends=frozenset(), vectors=0))
    seconds, carried = [], []
    for t in range(args.rounds):
        broadcast = Broadcast(t, model + t, torch.empty(0), 0.1)
        cohort = sorted(torch.randperm(len(names))[: args.per_round].tolist())
        requests = [Request(k, broadcast, {}, f"{t}/1/{k}") for k in cohort]
        before, start = loopback_bytes(), time.monotonic()
        for outcome in pool.run(requests):
            assert isinstance(outcome, tuple), outcome
            assert outcome[0].delta.equal(broadcast.params)
        seconds.append(round(time.monotonic() - start, 3))
        carried.append(loopback_bytes() - before)
    least = 2 * args.per_round * model.numel() * 4
    result = {
        "registered": len(names),
        "per_round": args.per_round,
        "MB": args.megabytes,
        "seconds until all had joined": round(joined, 1),
        "seconds of rounds": seconds,
        "median": statistics.median(seconds),
        "bytes over least": round(statistics.median(carried) / least, 3),
        "server peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
        "node process peak MB": [round(memory(one.pid or 0)) for one in processes][:3],
        "threads of the server": len(list(Path("/proc/self/task").iterdir())),
        "load": Path("/proc/loadavg").read_text().split()[0],
    }
    stop.set()
    for process in processes:
        process.kill()
    session.close()
    return result


def main() -> None:
    """Make a federation, connect the nodes, and time rounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--registered", type=int, default=1000)
    parser.add_argument("--per-round", type=int, default=100)
    parser.add_argument("--megabytes", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--port", type=int, default=18765)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        at = Path(place)
        names = [f"n{k:05d}" for k in range(args.registered)]
        made = make_federation(at / "fed", "127.0.0.1", args.port, names, days=2, tls=True)
        print(json.dumps(measure(args, at, made, names)))


if __name__ == "__main__":
    main()
