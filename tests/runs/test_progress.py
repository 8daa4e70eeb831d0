"""What people are told: a live line on a terminal (see the tests of the command line), plain lines elsewhere."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from fedflat.runs import progress
from fedflat.runs.progress import Talker, duration, sentence, title
from fedflat.runs.state import Ledger
from fedflat.runs.train import Stopwatch, Tick, train
from runs.small import experiment


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.4, "0s"), (59.4, "59s"), (59.6, "1m00s"), (60, "1m00s"), (3599.4, "59m59s"), (3599.7, "1h00m"),
     (7380, "2h03m"), (100 * 3600, "100h00m")],
)  # fmt: skip
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_sentence() -> None:
    row = {"accuracy": 0.98765}
    assert sentence(Tick(3, 10, 1.23456, row, 12345.6, 125.0)) == (
        "round 3/10  loss 1.2346  accuracy 98.77 %  12,346 samples/s  2m05s left"
    )
    assert sentence(Tick(10, 10, 0.5, None, 9.0, 0.0)) == "round 10/10  loss 0.5000  9 samples/s  done"
    assert "accuracy" not in sentence(Tick(1, 2, 0.5, {"loss": 1.0}, 9.0, 0.0))


def test_title() -> None:
    exp = experiment("sam(rho=steps([0, 1], [0.1, 0.2]))")
    assert title(exp, 1, 1) == "sam(rho=steps([0, 1], [0.1, 0.2])), seed 3"
    assert title(exp, 2, 6) == "[2/6] sam(rho=steps([0, 1], [0.1, 0.2])), seed 3"


def talk(exp: Any, **console: Any) -> str:
    stream = io.StringIO()
    with Talker(Console(file=stream, width=200, highlight=False, **console)) as talker:
        train(exp, tell=talker.voice.announce(exp, 1, 2))
        talker.voice.say("and a word [in] brackets")
    return stream.getvalue()


def test_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The title, the first round, the last one; between them only what is due; nothing a file should not hold."""
    exp = experiment("fedavg", rounds=20)
    monkeypatch.setattr(progress, "PAUSE", 1e9)
    lines = talk(exp).splitlines()
    assert lines[0] == "[1/2] fedavg(), seed 3"
    assert lines[1].startswith("  round 1/20  loss ")
    assert lines[-2].startswith("  round 20/20  loss ")
    assert lines[-2].endswith("  done")
    assert lines[-1] == "and a word [in] brackets"
    assert len(lines) == 4
    assert "\x1b" not in "".join(lines)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    every = talk(exp).splitlines()
    assert [re.search(r"round (\d+)/20", line)[1] for line in every[1:-1]] == [str(t) for t in range(1, 21)]


def test_a_live_line() -> None:
    said = talk(experiment("sam(rho=steps([0, 1], [0.1, 0.2]))"), force_terminal=True)
    assert "\x1b[" in said
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said)
    assert "[1/2] sam(rho=steps([0, 1], [0.1, 0.2])), seed 3" in plain
    assert "round 6/6" in plain
    assert "100%" in plain
    assert "and a word [in] brackets" in plain


def test_speed_and_time_left_from_where_the_run_was_taken_up() -> None:
    class At:
        def __init__(self, round: int, ledger: Ledger) -> None:
            self.round, self.ledger = round, ledger

    watch = Stopwatch(At(10, Ledger(samples=1000, training=50.0, seconds=100.0)))  # type: ignore[arg-type]
    later = At(12, Ledger(samples=1600, training=53.0, seconds=104.0))
    tick = watch.tick(later, 20, 0.5, [{"round": 11}, {"round": 12}])  # type: ignore[arg-type]
    assert tick.speed == 200.0  # 600 samples in 3 seconds
    assert tick.left == 16.0  # 2 seconds a round, 8 rounds to go
    assert tick.row == {"round": 12}
    assert (tick.round, tick.rounds, tick.loss) == (12, 20, 0.5)


def test_every_round_is_told() -> None:
    ticks: list[Tick] = []
    exp = experiment(rounds=4)
    result = train(exp, tell=ticks.append)
    assert [(tick.round, tick.rounds) for tick in ticks] == [(t, 4) for t in (1, 2, 3, 4)]
    assert [tick.loss for tick in ticks] == [row["train_loss"] for row in result.rows]
    assert [tick.row for tick in ticks] == result.rows
    assert ticks[-1].left == 0.0
