"""The run folder: what is in it, how it is taken up again, and what happens when it is not as it
should be."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import repeat
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from experiments.small import (
    EVERYTHING,
    Eager,
    begin,
    experiment,
    final,
    go_on,
    rows,
    stop_at,
    timeless,
)
from fedflat.client.local import LocalTraining
from fedflat.errors import RunError, SettingError
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.progress import Progress
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.run_folder.run_folder import DiskRunFolder, RunFolder
from fedflat.experiments.train import train
from fedflat.version import __version__

EXP = experiment(EVERYTHING)


def test_what_a_run_folder_holds(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    result = begin(EXP, folder)
    record = json.loads((folder / "run.json").read_text())
    assert record["fedflat"] == __version__
    assert record["status"] == "done"
    assert record["experiment"]["method"] == repr(EXP.method)
    assert record["experiment"]["seed"] == 3
    assert record["machine"]["torch"] == torch.__version__
    assert [row["round"] for row in rows(folder)] == [1, 2, 3, 4, 5, 6]
    assert timeless(rows(folder)) == timeless(result.rows)
    assert Store(folder / "checkpoint").rounds() == [6, 5]
    server = load_file(folder / "final-server.safetensors")
    assert result.model is not None
    assert torch.equal(
        torch.cat([server[name].flatten() for name in names_of(EXP)]), result.model.params
    )
    assert {path.name for path in folder.iterdir()} == {
        "run.json",
        "metrics.jsonl",
        "checkpoint",
        "final.safetensors",
        "final-server.safetensors",
        "lock",
    }


def names_of(exp: Experiment) -> list[str]:
    """The names of the parameters of its module."""
    return [name for name, _ in exp.open_learner(exp.on.open(0), "cpu").module().named_parameters()]


def test_the_folder_changes_nothing(tmp_path: Path) -> None:
    here = train(EXP, executor=InProcess(threads=1))
    there = begin(EXP, tmp_path / "run")
    assert torch.equal(here.model.params, there.model.params)
    assert timeless(here.rows) == timeless(there.rows)


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_resumed_bit_for_bit(tmp_path: Path, stop: int) -> None:
    begin(EXP, tmp_path / "whole", pause=math.inf)
    with pytest.raises(KeyboardInterrupt):
        begin(EXP, tmp_path / "cut", pause=math.inf, stop=stop)
    assert Store(tmp_path / "cut" / "checkpoint").rounds() == [stop]
    assert json.loads((tmp_path / "cut" / "run.json").read_text())["status"] == "running"
    result = go_on(EXP, tmp_path / "cut")
    assert final(tmp_path / "cut") == final(tmp_path / "whole")
    assert (
        timeless(rows(tmp_path / "cut"))
        == timeless(rows(tmp_path / "whole"))
        == timeless(result.rows)
    )
    assert result.ledger.samples == rows(tmp_path / "whole")[-1]["samples"]


def test_a_run_that_was_killed_before_any_checkpoint_starts_anew(tmp_path: Path) -> None:
    begin(EXP, tmp_path / "whole")
    with closing(DiskRunFolder.create(tmp_path / "cut", EXP.texts(), {})) as run_folder:
        run_folder.write({"round": 1, "loss": 0.0})
    go_on(EXP, tmp_path / "cut")
    assert final(tmp_path / "cut") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "cut")) == timeless(rows(tmp_path / "whole"))


def test_evaluations_after_the_checkpoint_are_made_again(tmp_path: Path) -> None:
    """Killed two rounds after its checkpoint, in the middle of a line."""
    begin(EXP, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(EXP, tmp_path / "cut", stop=4)
    with open(tmp_path / "cut" / "metrics.jsonl", "a") as stream:
        stream.write('{"round": 5, "loss": 1.0, "accuracy": 0.5}\n{"round": 6, "lo')
    go_on(EXP, tmp_path / "cut")
    assert timeless(rows(tmp_path / "cut")) == timeless(rows(tmp_path / "whole"))


def test_a_run_killed_while_it_finished(tmp_path: Path) -> None:
    """After the last checkpoint, before the last word: only that is written."""
    begin(EXP, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    record = json.loads((tmp_path / "cut" / "run.json").read_text())
    del record["end"]
    (tmp_path / "cut" / "run.json").write_text(json.dumps({**record, "status": "running"}))
    (tmp_path / "cut" / "final.safetensors").unlink()
    go_on(EXP, tmp_path / "cut")
    assert final(tmp_path / "cut") == final(tmp_path / "whole")
    assert read_record(tmp_path / "cut").status == "done"


def _flip(path: Path) -> None:
    content = path.read_bytes()
    place = len(content) // 2
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


DAMAGES = [_flip, _truncate, Path.unlink]


def _of_the_newest_alone(folder: Path) -> list[Path]:
    """The files of the checkpoint of round 4 that the one of round 3 does not use."""
    lists = {}
    for round in (3, 4):
        path = folder / "checkpoint" / f"round-{round:07d}.json"
        body = json.loads(json.loads(path.read_text())["body"])
        lists[round] = {
            path,
            *(folder / "checkpoint" / file["file"] for file in body["groups"].values()),
        }
    return sorted(lists[4] - lists[3])


@pytest.mark.parametrize("damage", DAMAGES, ids=["flip", "truncate", "delete"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    begin(EXP, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(EXP, tmp_path / "cut", stop=4)
    count = len(_of_the_newest_alone(tmp_path / "cut"))
    assert count >= 4  # the list, the model, the server's state, the model average
    for place in range(count):
        folder = tmp_path / f"cut{place}"
        shutil.copytree(tmp_path / "cut", folder)
        attacked = _of_the_newest_alone(folder)[place]
        damage(attacked)
        messages: list[str] = []
        go_on(EXP, folder, messages=messages)
        lost = (
            damage is Path.unlink and attacked.suffix == ".json"
        )  # then nothing shows that there was one
        assert len(messages) == (0 if lost else 1)
        if not lost:
            assert messages[0].startswith("the checkpoint of round 4 is damaged (")
            assert messages[0].endswith("; trying the one before it.")
        assert final(folder) == final(tmp_path / "whole")
        assert timeless(rows(folder)) == timeless(rows(tmp_path / "whole"))


def test_when_no_checkpoint_is_whole_the_run_starts_anew_and_says_so(tmp_path: Path) -> None:
    begin(EXP, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(EXP, tmp_path / "cut", stop=4)
    for path in (tmp_path / "cut" / "checkpoint").glob("*.json"):
        _flip(path)
    messages: list[str] = []
    go_on(EXP, tmp_path / "cut", messages=messages)
    assert [text.split(" is ")[0] for text in messages] == [
        "the checkpoint of round 4",
        "the checkpoint of round 3",
        "no checkpoint",
    ]
    assert "from its beginning" in messages[-1]
    assert final(tmp_path / "cut") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "cut")) == timeless(rows(tmp_path / "whole"))


def test_a_damaged_checkpoint_is_forgotten(tmp_path: Path) -> None:
    """It is newer than those to come, and would be taken for the newest again."""
    with pytest.raises(KeyboardInterrupt):
        begin(EXP, tmp_path / "cut", stop=4)
    for path in _of_the_newest_alone(tmp_path / "cut"):
        if path.suffix != ".json":
            _flip(path)
    with closing(DiskRunFolder.open(tmp_path / "cut")) as run_folder:
        run = run_folder.resume(ClientStates(folder=run_folder.place))
    assert run is not None
    assert run.round == 3
    assert Store(tmp_path / "cut" / "checkpoint").rounds() == [3]


def test_damaged_again_and_again(tmp_path: Path) -> None:
    """A list that was found damaged is not in the way of later checkpoints."""
    begin(EXP, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(EXP, tmp_path / "cut", stop=4)
    _truncate(
        tmp_path / "cut" / "checkpoint" / "round-0000003.json"
    )  # the older one, which is not read
    run_folder = Eager.open(tmp_path / "cut", pause=0.0)
    with closing(run_folder), pytest.raises(KeyboardInterrupt):
        train(EXP, run_folder=run_folder, executor=InProcess(threads=1), on_progress=stop_at(5))
    _flip(tmp_path / "cut" / "checkpoint" / "round-0000005.json")
    messages: list[str] = []
    go_on(EXP, tmp_path / "cut", messages=messages)
    assert len(messages) == 1
    assert final(tmp_path / "cut") == final(tmp_path / "whole")


def test_pause_between_checkpoints(tmp_path: Path) -> None:
    """None until the pause is over; one at the end in any case."""
    written = []

    class Counting(DiskRunFolder):
        def checkpoint(self, run, *, force: bool = False) -> None:
            before = self._store.rounds()
            super().checkpoint(run, force=force)
            written.extend(set(self._store.rounds()) - set(before))

    with closing(Counting.create(tmp_path / "a", EXP.texts(), {}, pause=math.inf)) as run_folder:
        train(EXP, run_folder=run_folder)
    assert written == [6]
    with pytest.raises(
        SettingError, match="checkpoint_every must be a number of at least 0, found -1"
    ):
        DiskRunFolder.create(tmp_path / "b", EXP.texts(), {}, pause=-1)
    assert not (tmp_path / "b").exists()


def test_a_folder_that_is_taken(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.tex").write_text("mine")
    with pytest.raises(
        RunError, match=r"taken is already there and not empty. --out names another"
    ) as caught:
        begin(EXP, taken)
    assert "resume" not in str(caught.value)
    assert [path.name for path in taken.iterdir()] == ["thesis.tex"]
    begin(EXP, tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(RunError, match=r"not empty. `fedflat resume .*run` continues it"):
        begin(EXP, tmp_path / "run")
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    with pytest.raises(RunError, match="already there"):
        begin(EXP, taken / "thesis.tex")


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    """Also one in which a run died before it had written its first word."""
    (tmp_path / "empty").mkdir()
    begin(EXP, tmp_path / "empty")
    (tmp_path / "born").mkdir()
    (tmp_path / "born" / "lock").touch()
    (tmp_path / "born" / "run.json.77.new").write_text('{"fed')
    begin(EXP, tmp_path / "born")
    assert final(tmp_path / "born") == final(tmp_path / "empty")


@pytest.mark.parametrize("name", ["file/run", "x" * 300])
def test_a_folder_that_cannot_be_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        RunError, match=r"could not be written: .* Check the folder and its permissions"
    ):
        begin(EXP, tmp_path / name)


def test_another_version(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        begin(EXP, tmp_path / "run", stop=2)
    path = tmp_path / "run" / "run.json"
    path.write_text(path.read_text().replace(f'"fedflat": "{__version__}"', '"fedflat": "0.0.9"'))
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.is_file()}
    with pytest.raises(
        RunError,
        match=rf"made by fedflat 0.0.9, this is {__version__}.*Use that version of fedflat",
    ):
        go_on(EXP, tmp_path / "run")
    assert {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.is_file()} == before


@pytest.mark.parametrize(
    "text", ["", "{", "[]", json.dumps({"fedflat": __version__}), "null", '{"fedflat": 1}']
)
def test_a_damaged_description(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunError, match=r"run.json is damaged .* start it anew"):
        read_record(tmp_path)


def test_no_description(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is not a run folder: it has no run.json"):
        DiskRunFolder.open(tmp_path)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """While a real other process holds the folder, it can be neither resumed nor made."""
    DiskRunFolder.create(tmp_path, EXP.texts(), {}).close()
    code = f"import fcntl; f = open({str(tmp_path / 'lock')!r}); fcntl.flock(f, fcntl.LOCK_EX); print('held'); input()"
    with subprocess.Popen([sys.executable, "-uc", code], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(
            RunError, match=r"another process is working in .* Wait for it, or stop it first"
        ):
            DiskRunFolder.open(tmp_path)
        (tmp_path / "run.json").rename(tmp_path / "run.json.77.new")
        with pytest.raises(RunError, match="another process"):
            DiskRunFolder.create(tmp_path, EXP.texts(), {})
        (tmp_path / "run.json.77.new").rename(tmp_path / "run.json")
        other.kill()
    with closing(DiskRunFolder.open(tmp_path)), pytest.raises(RunError, match="another process"):
        DiskRunFolder.open(tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 400 kB, where one may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_is_full(small_disk: Path, tmp_path: Path) -> None:
    """At whatever file it happens: a sentence, and nothing is lost."""
    begin(EXP, tmp_path / "whole")
    folder, filler = small_disk / "run", small_disk / "filler"

    def fill(left: int, progress: Progress) -> None:
        if progress.round == 3:
            with (
                open(filler, "wb", buffering=0) as stream,
                pytest.raises(OSError, match="No space"),
            ):
                deque(map(stream.write, repeat(b"x" * 4096)), maxlen=0)
            os.truncate(filler, filler.stat().st_size - left)

    met = set()
    for left in (0, 4096, 8192, 3 * 4096, 6 * 4096, 8 * 4096):
        with (
            closing(Eager.create(folder, EXP.texts(), {}, pause=0.0)) as run_folder,
            pytest.raises(RunError) as caught,
        ):
            train(
                EXP,
                run_folder=run_folder,
                executor=InProcess(threads=1),
                on_progress=partial(fill, left),
            )
        message = str(caught.value)
        assert message.startswith(f"the disk is full: {folder}")
        assert "free some space, then continue with `fedflat resume`" in message
        met.add(message.removeprefix(f"the disk is full: {folder}").split()[0])
        filler.unlink()
        assert not list(folder.rglob("*.new"))
        assert read_record(folder).status == "running"
        go_on(EXP, folder)
        assert final(folder) == final(tmp_path / "whole")
        assert timeless(rows(folder)) == timeless(rows(tmp_path / "whole"))
        shutil.rmtree(folder)
    assert len(met) > 2


class WithStatistics(nn.Sequential):
    """Running statistics: buffers that the server's model and the model averages share."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


def test_buffers_are_kept_and_resumed(tmp_path: Path) -> None:
    local = LocalTraining(batch_size=4, drop_last=True)  # statistics of a single example are none
    exp = experiment("fedavg() + wima(window=2) + ema()", model=WithStatistics, local=local)
    begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "cut", stop=3)
    go_on(exp, tmp_path / "cut")
    assert final(tmp_path / "cut") == final(tmp_path / "whole")
    server, wima = (
        load_file(tmp_path / "cut" / f"final-{name}.safetensors") for name in ("server", "wima")
    )
    for name in ("1.running_mean", "1.running_var"):
        assert server[name].shape == (6,)
        assert torch.equal(wima[name], server[name])


def test_a_book_in_memory_begins_at_the_beginning() -> None:
    run_folder = RunFolder()
    assert run_folder.resume(ClientStates()) is None
    result = train(EXP, run_folder=run_folder)
    assert run_folder.status == "done"
    assert timeless(run_folder.rows) == timeless(result.rows)


def test_a_result_is_read_from_its_folder(tmp_path: Path) -> None:
    made = begin(EXP, tmp_path / "run")
    read = Result.read(tmp_path / "run")
    for name in ("method", "seed", "status", "rounds", "last", "ledger"):
        assert getattr(read, name) == getattr(made, name)
    assert list(read.rows) == list(made.rows)
    assert read.final() == made.final()
