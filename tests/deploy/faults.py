"""What a federation of real processes survives: prints a table.

``python tests/deploy/faults.py`` takes about five minutes on a machine without other work. Eight
clients, each a process, in network namespaces of their own where that is allowed (as root) and on
loopback otherwise. All at once: three are killed with -9 again and again and come back, two are
late past the deadline, one sends NaN, one far too large replies, one its first reply again with
every other, and its network is gone for longer than the deadline, which follows from the speed of
the machine. A client without a registered certificate and one of another federation try to join.
The server is killed with -9 twice and resumed, and its transport is closed and opened again.

The check: a simulation whose cohorts are the clients that counted in each round ends with the same
bits. So every reply that counted had the right content, weight and client state, and no other did.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from deploy.namespaces import SERVER, Namespaces, namespaces
from deploy.real_clients import ENVIRONMENT, PATIENCE, Processes, fedflat, processes

HERE = Path(__file__).parent
NAMES = [f"c{k}" for k in range(8)]
KILLED, LATE, NAN, LARGE, REPLAY = NAMES[:3], NAMES[3:5], NAMES[5], NAMES[6], NAMES[7]
METHOD = "fedgloss(rho_s=0.05, rho_l=0.05, beta=10)"
ON = "digits(lda(0.5), clients=8)"
SHORTEST = 12.0
"""Least seconds of the deadline."""
LOCAL = ("--local-epochs", "100", "--lr", "0.01")
SERVER_KILLS = (4, 9)
REOPENED = 12
UNPLUGGED, LONGER = 6, 8.0
"""The round in which the network of a client is gone, and for how many seconds more than the
deadline."""


class Faults:
    """One run with all faults."""

    def __init__(
        self, made: Processes, rounds: int, spaces: Namespaces | None, timeout: float
    ) -> None:
        self.made, self.rounds, self.spaces, self.timeout = made, rounds, spaces, timeout
        self.kills: list[tuple[str, float]] = []
        """Clients that were killed, and when."""
        self.resumed: list[float] = []
        """When the server was started again."""
        self.unplugged: list[float] = []
        """When the network of a client went, and when it came back."""
        self.stop = threading.Event()

    def script(self, name: str, script: str, *words: str) -> subprocess.Popen[bytes]:
        """Start one of the scripts beside this file."""
        with (self.made.at / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*self.made.inside(name), sys.executable, str(HERE / script), *words],
                cwd=self.made.at,
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.made.running[name] = process
        return process

    def start_clients(self) -> None:
        """Start the eight clients."""
        for part, name in enumerate(NAMES):
            words = ("deploy", "join", f"federation/participants/{name}.join", "--data", ON)
            own = ("--part", str(part))
            fault = {NAN: "nan", LARGE: "oversized", REPLAY: "replay"}.get(
                name, f"late={self.timeout + 2}"
            )
            if name in KILLED:
                self.made.join(name, ON, part, watched=False)
            else:
                self.script(name, "faulty_client.py", fault, *words, *own)

    def start_strangers(self) -> None:
        """A client whose certificate is not registered any more, and one of another federation."""
        made = self.made
        fedflat("deploy", "init", "federation", "--clients", "unknown", at=made.at)
        (made.folder / "clients" / "unknown.crt").unlink()
        made.join("unknown", ON, 0)
        other = ("--clients", "c0", "--address", f"{made.host}:{made.port}")
        fedflat("deploy", "init", "other", *other, at=made.at)
        words = ("deploy", "join", "other/participants/c0.join", "--data", ON, "--part", "0")
        made.start("wrong", *words, "--wait", "20", watched=True)

    def serve(self) -> int:
        """Run the server, kill it twice, and resume it."""
        options = ("--min-replies", "1", "--round-timeout", str(self.timeout), "--on-bad", "skip")
        words = ("--test", ON, "--rounds", str(self.rounds), "--out", "there", *options)
        own = ("--clients-per-round", "8", "--checkpoint-every", "3", "--seed", "3", *LOCAL)
        restart = ("restarting_server.py", str(REOPENED))
        server = self.script("serve", *restart, "deploy", "serve", METHOD, *words, *own)
        for when in SERVER_KILLS:
            self.wait_for_round(when, server)
            server.kill()
            server.communicate()
            resumed = ("deploy", "serve", "--resume", "there", "--checkpoint-every", "3")
            self.resumed.append(time.time())
            server = self.script("serve", *restart, *resumed)
        return server.wait(4 * PATIENCE)

    def wait_for_round(self, round: int, server: subprocess.Popen[bytes]) -> None:
        """Wait until a round has begun."""
        end = time.monotonic() + PATIENCE
        while max((e["round"] for e in self.made.entries() if "round" in e), default=-1) < round:
            assert server.poll() is None, self.made.log("serve")
            assert time.monotonic() < end, "the round did not begin"
            time.sleep(0.2)

    def keep_killing(self) -> None:
        """Kill each of some clients in the middle of its work, in every third round."""
        done: set[tuple[str, int]] = set()
        while not self.stop.wait(0.05):
            round, working = self.at_work()
            for place, name in enumerate(KILLED):
                if name not in working or round % 3 != place or (name, round) in done:
                    continue
                done.add((name, round))
                for child in self.children(name):
                    os.kill(child, signal.SIGKILL)
                    self.kills.append((name, time.time()))

    def pull_cable(self) -> None:
        """Take the network from a client while it works, without a goodbye."""
        while self.spaces is not None and not self.stop.wait(0.05):
            round, working = self.at_work()
            if round >= UNPLUGGED and REPLAY in working:
                self.spaces.pull_cable(REPLAY)
                self.unplugged.append(time.time())
                self.stop.wait(self.timeout + LONGER)
                self.spaces.plug_in(REPLAY)
                self.unplugged.append(time.time())
                return

    def at_work(self) -> tuple[int, set[str]]:
        """The round that runs, and the clients that have not answered in it."""
        round, working = -1, set[str]()
        for entry in self.made.entries():
            if "online" in entry:
                round, working = entry["round"], set(entry["online"])
            elif "outcome" in entry:
                working.discard(entry["client"])
        return round, working

    def children(self, name: str) -> list[int]:
        """The processes that the process of a client watches."""
        parent = self.made.running[name].pid
        listed = Path(f"/proc/{parent}/task/{parent}/children")
        return [int(child) for child in listed.read_text().split()]

    def run(self) -> int:
        """All of it; the server's last status."""
        self.start_clients()
        self.start_strangers()
        hands = [
            threading.Thread(target=one, daemon=True)
            for one in (self.keep_killing, self.pull_cable)
        ]
        for hand in hands:
            hand.start()
        try:
            return self.serve()
        finally:
            self.stop.set()
            for hand in hands:
                hand.join()


def deadline(at: Path) -> float:
    """A deadline that healthy clients keep on this machine: by the time of one client's command."""
    began = time.monotonic()
    words = (
        "--rounds",
        "1",
        "--clients-per-round",
        "1",
        "--threads",
        "1",
        "--out",
        "trial",
        *LOCAL,
    )
    done = fedflat("run", METHOD, "--on", ON, *words, "--executor", "in-process", at=at)
    assert done.returncode == 0, done.stderr
    return round(max(SHORTEST, 1.5 * (time.monotonic() - began)), 1)


def counted(made: Processes, rounds: int) -> list[list[int]]:
    """The clients whose replies counted in each round, by the logs of the server."""
    not_finite: dict[int, set[int]] = {}
    for line in (made.at / "there" / "recorded.jsonl").read_text().splitlines():
        row = json.loads(line)
        bad = {one["client"] for one in row.get("missing", []) if one["reason"] == "not finite"}
        not_finite[row["round"] - 1] = bad
    found: list[set[int]] = [set() for _ in range(rounds)]
    at = 0
    for entry in made.entries():
        if "online" in entry:
            at = entry["round"]
            found[at] = set()
        elif entry.get("outcome") == "reply":
            client = int(entry["client"][1:])
            if client not in not_finite.get(at, set()):
                found[at].add(client)
    return [sorted(clients) for clients in found]


def table(faults: Faults, status: int, same: bool, cohorts: list[list[int]]) -> list[list[str]]:
    """What was done and what was seen."""
    made, entries = faults.made, faults.made.entries()

    def outcomes(names: list[str], *wanted: str) -> str:
        hits = [e for e in entries if e.get("client") in names and e.get("outcome") in wanted]
        return str(len(hits))

    def seen(key: str) -> int:
        return sum(key in entry for entry in entries)

    joined = [(e["client"], e["time"]) for e in entries if "joined" in e]
    replies = [("server", e["time"]) for e in entries if e.get("outcome") == "reply"]
    resumed = [("server", when) for when in faults.resumed]
    old = sum(entry.get("why") == "of an earlier session" for entry in entries)
    refused = [e["unread"] for e in entries if "unread" in e]
    received = {e["client"] for e in entries if "outcome" in e}
    return [
        [
            "3 clients killed -9",
            f"{len(faults.kills)} kills; back after {_until(faults.kills, joined)}; "
            f"{seen('again')} requests repeated to clients that came back",
        ],
        [
            "2 clients late",
            f"{outcomes(LATE, 'too late')} replies too late; {outcomes(LATE, 'dropped')} dropped when they came",
        ],
        [
            "1 client sends NaN",
            f"{sum(1 for e in _missing(made) if e['reason'] == 'not finite')} replies not counted",
        ],
        ["1 client sends too much", f"{outcomes([LARGE], 'refused')} replies refused"],
        [
            "1 client replays",
            f"{outcomes([REPLAY], 'dropped')} old replies dropped; {old} more of earlier sessions",
        ],
        ["its network is gone", _network(faults)],
        [
            "certificate not registered",
            f"{'; '.join(refused)[:90]}; the client ended with status {made.running['unknown'].poll()}",
        ],
        [
            "certificate of another CA",
            f"never connected; the client ended with status {made.running['wrong'].poll()}",
        ],
        [
            "server killed -9 twice",
            f"resumed, first reply after {_until(resumed, replies)}; status {status} in the end",
        ],
        ["transport reopened", f"{seen('reopened')} times"],
        ["clients whose messages were read", ", ".join(sorted(received))],
        ["state begun afresh", str(seen("afresh"))],
        ["replies counted", f"{sum(map(len, cohorts))} in {len(cohorts)} rounds"],
        ["same bits as a simulation of those", "yes" if same else "NO"],
    ]


def _until(causes: list[tuple[str, float]], effects: list[tuple[str, float]]) -> str:
    """The median of the seconds from each event to the next effect of the same name."""
    found = []
    for name, when in causes:
        after = [at - when for other, at in effects if other == name and at > when]
        found += after[:1]
    return f"{median(found):.1f} s (median)" if found else "never"


def _network(faults: Faults) -> str:
    """What was seen of the client whose network was gone."""
    if len(faults.unplugged) < 2:
        return "not tried: network namespaces are not allowed here"
    gone, back = faults.unplugged
    own = [e for e in faults.made.entries() if e.get("client") == REPLAY and "outcome" in e]
    during = [e["outcome"] for e in own if gone < e["time"] < back and e["outcome"] != "dropped"]
    after = [e["time"] for e in own if e["time"] > back and e["outcome"] == "reply"]
    first = f"{after[0] - back:.0f} s after" if after else "never after"
    return f"for {back - gone:.0f} s: {', '.join(during)}; its next reply counted {first}"


def _missing(made: Processes) -> list[dict[str, Any]]:
    lines = (made.at / "there" / "recorded.jsonl").read_text().splitlines()
    return [one for line in lines for one in json.loads(line).get("missing", [])]


def run_all(at: Path, rounds: int = 16) -> tuple[list[list[str]], bool]:
    """Run with all faults, and again as a simulation; the table, and whether all is right."""
    with namespaces(NAMES) as spaces:
        return _run_in(at, rounds, spaces)


def _run_in(at: Path, rounds: int, spaces: Namespaces | None) -> tuple[list[list[str]], bool]:
    where = {"host": SERVER, "inside": spaces.inside} if spaces else {}
    with processes(at, NAMES, **where) as made:
        faults = Faults(made, rounds, spaces, deadline(at))
        status = faults.run()
        if status != 0:
            print(made.log("serve"))
            return [["server", f"status {status}"]], False
        for name in ("wrong", "unknown"):
            made.running[name].wait(PATIENCE)
        cohorts = counted(made, rounds)
        (at / "replay.json").write_text(json.dumps({"cohorts": cohorts, "orders": None}))
        common = ("--rounds", str(rounds), "--seed", "3", "--out", "here", *LOCAL)
        how = ("--replay", "replay.json", "--executor", "in-process", "--threads", "1")
        here = fedflat("run", METHOD, "--on", ON, *common, *how, at=at)
        assert here.returncode == 0, here.stderr
        final = "final.safetensors"
        same = (at / "here" / final).read_bytes() == (at / "there" / final).read_bytes()
        load = f"deadline {faults.timeout:g} s, load {os.getloadavg()[0]:.0f}"
        found = [
            ["network", f"{_described(spaces)}; {load}"],
            *table(faults, status, same, cohorts),
        ]
        received = {e["client"] for e in made.entries() if "outcome" in e}
        right = (
            same
            and received <= set(NAMES)
            and all(made.running[n].poll() == 2 for n in ("wrong", "unknown"))
        )
        for t, cohort in enumerate(cohorts):
            print(f"round {t + 1}: {', '.join(NAMES[k] for k in cohort)} counted")
        return found, right


def _described(spaces: Namespaces | None) -> str:
    if spaces is None:
        return "loopback"
    late = "20 ms late, 1 % lost" if spaces.netem else "no delay or loss: the kernel lacks netem"
    return f"a namespace for each client; {late}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # processes and namespaces are removed
    with tempfile.TemporaryDirectory() as place:
        rows, right = run_all(Path(place))
    width = max(len(row[0]) for row in rows)
    for left, text in rows:
        print(f"{left:<{width}}  {text}")
    sys.exit(0 if right else 1)
