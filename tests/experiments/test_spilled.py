"""Runs whose clients' states do not fit into memory: the same bytes, whatever happens to them."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import torch

import fedflat as ff
from experiments.small import EVERYTHING, Eager, experiment, final, go_on, rows, stop_at, timeless
from experiments.stopping import act_after, kill_self
from fedflat.core.messages import Broadcast
from fedflat.execution.client_states import FILE, ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_cost import client_state_bytes, remarks
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.run_folder import DiskRunFolder, RunFolder
from fedflat.experiments.state import CLIENTS, RunState
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler
from fedflat.server.exchange import RequestBatch

EXP = experiment(EVERYTHING, rounds=8)
HERE = InProcess(threads=1)


def begin(
    folder: Path, *, stop: int | None = None, pause: float = 0.0, state_memory: int = 0
) -> Result:
    with closing(Eager.create(folder, EXP.texts(), {}, pause=pause)) as run_folder:
        return train(
            EXP,
            run_folder=run_folder,
            executor=HERE,
            on_progress=stop_at(stop),
            state_memory=state_memory,
        )


def resume(folder: Path, messages: list[str] | None = None) -> Result:
    print_line = (messages if messages is not None else []).append
    with closing(Eager.open(folder, pause=math.inf, print_line=print_line)) as run_folder:
        return train(EXP, run_folder=run_folder, executor=HERE, state_memory=0)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """The folder of a run that was never stopped and keeps everything in memory."""
    begin(tmp_path / "whole", pause=math.inf, state_memory=10**9)
    return tmp_path / "whole"


def same(folder: Path, other: Path) -> bool:
    return final(folder) == final(other) and timeless(rows(folder)) == timeless(rows(other))


@pytest.mark.parametrize(
    "method",
    [EVERYTHING, "scaffold", "feddyn + sam", "fedala", "naive_fedgloss", "fedavg + all_clients"],
)
def test_the_place_of_client_states_changes_no_bit(method: str) -> None:
    exp = experiment(method)
    here, there = (train(exp, executor=HERE, state_memory=budget) for budget in (10**9, 0))
    assert torch.equal(here.model.params, there.model.params)
    assert timeless(here.rows) == timeless(there.rows)


def test_the_models_of_all_clients_are_within_the_budget(tmp_path: Path) -> None:
    """A model for each client, of which memory has room for one; a checkpoint writes those that are
    new."""
    exp = experiment("fedavg + all_clients", rounds=8, sampler=ClientSampler(clients=1))
    model = prepare(exp).job.learner.initial().params.nbytes
    held: list[int] = []

    class RecordingRunFolder(Eager):
        def checkpoint(self, run: RunState, *, force: bool = False) -> None:
            held.append(run.clients.in_ram)
            super().checkpoint(run, force=force)

    with closing(
        RecordingRunFolder.create(tmp_path / "run", exp.texts(), {}, pause=0.0)
    ) as run_folder:
        train(exp, run_folder=run_folder, executor=HERE, state_memory=model)
    assert max(held) == model
    groups, _ = Store(tmp_path / "run" / "checkpoint").read(8)
    assert {name for name in groups if name.startswith("average/")} == {
        "average/all_clients",
        "average/all_clients/first",
        "average/all_clients/mean",
    }
    assert len(groups[CLIENTS]["client"]) > 2
    assert client_state_bytes(prepare(exp)) == 5 * model


def test_a_client_is_not_sent_what_an_average_keeps_for_it() -> None:
    clients = ClientStates()
    clients.stage(
        3, {"dual": {"sigma": torch.ones(2)}, "average:all_clients": {"model": torch.ones(2)}}
    )
    broadcast = Broadcast(0, torch.zeros(2), torch.zeros(0), 0.1)
    assert RequestBatch({3: broadcast}, [3], clients)[0].state.keys() == {"dual"}


@pytest.mark.parametrize("stop", [1, 4])
def test_stopped_and_resumed(tmp_path: Path, whole: Path, stop: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        begin(tmp_path / "cut", stop=stop)
    resume(tmp_path / "cut")
    assert same(tmp_path / "cut", whole)


def test_memory_and_disk_may_change_places(tmp_path: Path, whole: Path) -> None:
    """Begun on disk and resumed in memory."""
    with pytest.raises(KeyboardInterrupt):
        begin(tmp_path / "cut", stop=4)
    go_on(EXP, tmp_path / "cut")
    assert same(tmp_path / "cut", whole)


def test_files_do_not_grow_in_number_nor_in_length(tmp_path: Path) -> None:
    begin(tmp_path / "run")
    folder = tmp_path / "run" / "checkpoint"
    store = Store(folder)
    table = store.group(8, CLIENTS)
    assert len(table["client"]) == 5
    # A client that was asked since the last checkpoint but one has three states at most, everybody else
    # one.
    assert (folder / FILE).stat().st_size <= (5 + 2 * 2 + 2) * int(table["length"].max())
    groups = {name for round in store.rounds() for name in store.read(round)[0]}
    assert len(list(folder.iterdir())) <= 1 + 2 + 2 * len(groups)


def test_a_damaged_memory_gives_way_to_the_checkpoint_before(tmp_path: Path, whole: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        begin(tmp_path / "cut", stop=5)
    folder = tmp_path / "cut" / "checkpoint"
    before, now = (Store(folder).group(round, CLIENTS)["offset"].tolist() for round in (4, 5))
    fresh = next(offset for offset in now if offset not in before)
    content = bytearray((folder / FILE).read_bytes())
    content[fresh + 100] ^= 1
    (folder / FILE).write_bytes(content)
    messages: list[str] = []
    resume(tmp_path / "cut", messages)
    assert len(messages) == 1
    assert messages[0].startswith("the checkpoint of round 5 is damaged (a client's state")
    assert same(tmp_path / "cut", whole)


@pytest.mark.parametrize("lost", [True, False])
def test_without_any_memory_the_run_starts_anew(tmp_path: Path, whole: Path, lost: bool) -> None:
    with pytest.raises(KeyboardInterrupt):
        begin(tmp_path / "cut", stop=5)
    path = tmp_path / "cut" / "checkpoint" / FILE
    path.unlink() if lost else path.write_bytes(b"")
    messages: list[str] = []
    resume(tmp_path / "cut", messages)
    assert "from its beginning" in messages[-1]
    assert same(tmp_path / "cut", whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    "after",
    ["experiments.run_folder.checkpoints:Store._write_group", "execution.spill:Spill.write"],
)
def test_killed_in_the_midst(tmp_path: Path, whole: Path, after: str) -> None:
    """With kill -9: among the files of a checkpoint, and among the client states of a round."""
    folder = tmp_path / "cut"
    code = "import sys; from experiments.test_spilled import killed; killed(*sys.argv[1:])"
    process = subprocess.run(
        [sys.executable, "-c", code, str(folder), after], cwd=Path(__file__).parents[1]
    )
    assert process.returncode == -signal.SIGKILL
    resume(folder)
    assert same(folder, whole)


def killed(folder: str, after: str) -> None:
    """A run that kills its own process."""
    act_after(f"fedflat.{after}", 7, kill_self)
    with closing(Eager.create(Path(folder), EXP.texts(), {}, pause=0.0)) as run_folder:
        train(EXP, run_folder=run_folder, executor=HERE, state_memory=0)


def test_a_full_disk_is_reported_and_survived(tmp_path: Path, whole: Path) -> None:
    """The file of client states cannot be opened for writing any more, and then it can."""
    with pytest.raises(KeyboardInterrupt):
        begin(tmp_path / "cut", stop=3)
    path = tmp_path / "cut" / "checkpoint" / FILE
    path.rename(tmp_path / "safe")
    path.mkdir()
    with pytest.raises(ff.RunError, match=r"clients.bin could not be written: Is a directory"):
        resume(tmp_path / "cut")
    path.rmdir()
    (tmp_path / "safe").rename(path)
    resume(tmp_path / "cut")
    assert same(tmp_path / "cut", whole)


def test_requests_fetch_states_when_they_are_accessed() -> None:
    asked = []

    class Spy(ClientStates):
        def state(self, client: int):
            asked.append(client)
            return super().state(client)

    broadcast = Broadcast(0, torch.zeros(2), torch.zeros(0), 0.1)
    states = Spy()
    requests = RequestBatch(dict.fromkeys([4, 7, 1], broadcast), [4, 7, 1], states)
    assert [request.state for request in requests] == [{}, {}, {}]
    assert asked == []  # no client has a state
    states.stage(7, {"dual": {"sigma": torch.ones(2)}})
    assert (len(requests), asked) == (3, [])
    assert (requests[1].client, requests[-1].client) == (7, 1)
    assert asked == [7, 1]
    assert [len(request.state) for request in requests] == [0, 1, 0]


def test_memories_of_a_round_count_too() -> None:
    """Before the round is done: however large the cohort, no more than the budget is in memory."""
    held = []

    class Watching(RunFolder):
        def checkpoint(self, run: RunState, *, force: bool = False) -> None:
            held.append((run.clients.in_ram, run.clients.nbytes, len(run.clients.by_client)))

    exp = experiment("feddyn", sampler=ClientSampler(clients=5), rounds=2)
    one = 4 * prepare(exp).job.learner.flat.layout.dim
    train(exp, run_folder=Watching(), executor=HERE, state_memory=2 * one)
    assert held[0] == (2 * one, 5 * one, 5)
    assert all(in_ram <= 2 * one for in_ram, *_ in held)


def test_what_clients_will_remember_and_where_is_reported() -> None:
    setup = prepare(experiment("feddyn"))
    one = 4 * setup.job.learner.flat.layout.dim
    assert client_state_bytes(setup) == 5 * one  # five clients, in six rounds of two
    assert client_state_bytes(prepare(experiment("feddyn", rounds=1))) == 2 * one
    assert remarks(setup) == [f"clients will remember up to {5 * one} B in all, kept in memory"]
    (remark,) = remarks(setup, 100)
    assert (
        remark
        == f"clients will remember up to {5 * one} B in all, 100 B kept in memory, the rest on disk"
    )
    assert remarks(prepare(experiment("fedavg")), 0) == []


def test_a_book_says_where_its_checkpoints_are(tmp_path: Path) -> None:
    assert RunFolder().place is None
    with closing(DiskRunFolder.create(tmp_path / "run", EXP.texts(), {})) as run_folder:
        assert run_folder.place == tmp_path / "run" / "checkpoint"
