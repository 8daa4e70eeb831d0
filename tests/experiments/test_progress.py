"""Progress for people: a live line on a terminal (see the tests of the command line), plain lines
elsewhere."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.small import ON, SIZES, experiment
from fedflat.experiments import console as progress
from fedflat.experiments.console import ConsoleReporter, RunLabel, fitted, sentence
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.progress import PRETRAINING, OnProgress, Progress, Stopwatch, StudyTime
from fedflat.experiments.study import Reporter, resume, run_many
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.server.ledger import Ledger
from fedflat.text_table import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.4, "0s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (60, "1m00s"),
        (3599.4, "59m59s"),
        (3599.7, "1h00m"),
        (7380, "2h03m"),
        (100 * 3600, "100h00m"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_sentence() -> None:
    """The test score has the round it was computed in, and the training loss its name."""
    row = {"round": 2, "accuracy": 0.98765}
    assert sentence(Progress(3, 8, 1.23456, row, 12345.6, 25.0)) == (
        "round 3/8  test 98.77 % (round 2)  train loss 1.23  2m05s left  12,346 samples/s"
    )
    assert (
        sentence(Progress(10, 10, 0.012345, None, 9.0, 1.0))
        == "round 10/10  train loss 0.012  done  9 samples/s"
    )
    assert "test" not in sentence(Progress(1, 2, 0.5, {"round": 1, "loss": 1.0}, 9.0, 0.0))
    assert sentence(Progress(3, 10, 0.5, None, 9.0, 2.0, phase=PRETRAINING)) == (
        "pre-training round 3/10  train loss 0.50  14s left  9 samples/s"
    )


def test_title() -> None:
    assert (
        RunLabel("sam(rho=steps([0, 1], [0.1, 0.2]))", 3).title
        == "sam(rho=steps([0, 1], [0.1, 0.2])), seed 3"
    )
    assert RunLabel("fedavg()", 3, 2, 6).title == "[2/6] fedavg(), seed 3"


TICK = Progress(
    120, 1000, 0.12345, {"round": 115, "accuracy": 0.9123}, 20904.0, 65.0 / 880, study_left=7800.0
)
WHICH = RunLabel("fedasam(rho=warmup(0.001, 0.7, 150), eta=0.2) + swa()", 1, 2, 6)
SCORE, LEFT = "test 91.23 % (round 115)", "1m05s left (study 2h10m)"
BOTH = f"[2/6]  round 120/1000  {SCORE}  train loss 0.12  {LEFT}"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (200, f"{BOTH}  20,904 samples/s  {WHICH.method}, seed 1"),
        (140, f"{BOTH}  20,904 samples/s  fedasam + swa, seed 1"),
        (120, f"{BOTH}  fedasam + swa, seed 1"),
        (110, f"{BOTH}  fedasam + swa"),
        (90, f"[2/6]  round 120/1000  {SCORE}  {LEFT}  fedasam + swa"),
        (77, f"[2/6]  round 120/1000  {SCORE}  {LEFT}"),
        (68, f"[2/6]  round 120/1000  test 91.23 % (r115)  {LEFT}"),
        (60, "[2/6]  round 120/1000  test 91.23 % (r115)  study 2h10m left"),
        (57, "round 120/1000  test 91.23 % (r115)  study 2h10m left"),
        (52, f"[2/6]  round 120/1000  {LEFT}"),
        (44, f"round 120/1000  {LEFT}"),
        (34, "round 120/1000  study 2h10m left"),
        (20, "round 120/1000"),
        (5, "round 120/1000"),
    ],
)
def test_one_line_for_every_width(width: int, line: str) -> None:
    """The round and the time left to the last, the method shortened before they go, no word
    broken."""
    assert fitted(TICK, WHICH, width) == line


@pytest.mark.parametrize(
    ("tick", "which", "line"),
    [
        (
            Progress(17, 40, 0.43, {"round": 15, "accuracy": 0.134}, 9.0, 2.0),
            RunLabel("fedavg()", 0),
            "round 17/40  test 13.40 % (round 15)  46s left  fedavg",
        ),
        (
            Progress(17, 40, 0.43, {"round": 15, "accuracy": 0.134}, 9.0, 2.0, study_left=310.0),
            RunLabel("fedavg()", 0, 2, 6),
            "[2/6]  round 17/40  test 13.40 % (r15)  study 5m10s left",
        ),
        (
            Progress(15, 40, 0.43, {"round": 15, "accuracy": 0.134}, 9.0, 2.0, study_left=310.0),
            RunLabel("fedavg()", 0, 2, 6),
            "[2/6]  round 15/40  test 13.40 %  50s left (study 5m10s)",
        ),
        (
            Progress(40, 40, 0.43, {"round": 40, "accuracy": 0.134}, 9.0, 2.0, study_left=60.0),
            RunLabel("fedavg()", 0, 2, 6),
            "[2/6]  round 40/40  test 13.40 %  done (study 1m00s left)",
        ),
        (
            Progress(
                1500, 1500, 0.43, {"round": 1500, "accuracy": 0.134}, 9.0, 2.0, study_left=60.0
            ),
            RunLabel("fedavg()", 0, 2, 6),
            "[2/6]  round 1500/1500  test 13.40 %  done",
        ),
    ],
)
def test_a_line_of_a_terminal_of_sixty_columns(tick: Progress, which: RunLabel, line: str) -> None:
    assert fitted(tick, which, 60 - progress.FREE) == line


def test_no_width_breaks_a_word() -> None:
    whole = set(fitted(TICK, WHICH, 999).split()) | {"fedasam", "fedasam,", "swa", "swa,", "..."}
    whole |= {"(r115)", "study", "2h10m"}
    for width in range(14, 200):
        line = fitted(TICK, WHICH, width)
        assert len(line) <= width
        assert set(line.split()) <= whole


def test_before_the_first_round() -> None:
    assert (
        fitted(Progress(0, 400, math.nan, None, 0.0, 0.0), RunLabel("fedavg()", 0), 60)
        == "round 0/400  fedavg(), seed 0"
    )


def talk(exp: Any, **console: Any) -> str:
    stream = io.StringIO()
    with ConsoleReporter(Console(file=stream, width=200, highlight=False, **console)) as console:
        train(exp, on_progress=console.reporter.announce(exp, 1, 2))
        console.reporter.print_line("and a word [in] brackets")
    return stream.getvalue()


def test_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The title, the first round, the last one; between them only what is due; nothing a file
    should not hold."""
    exp = experiment("fedavg", rounds=20)
    monkeypatch.setattr(progress, "PAUSE", 1e9)
    lines = talk(exp).splitlines()
    assert lines[0] == "[1/2] fedavg(), seed 3"
    assert re.match(r"  round 1/20  test \S+ % \(round 1\)  train loss \S+  \d+s left  ", lines[1])
    assert re.match(r"  round 20/20  test \S+ % \(round 20\)  train loss \S+  done  ", lines[-2])
    assert lines[-1] == "and a word [in] brackets"
    assert len(lines) == 4
    assert "\x1b" not in "".join(lines)


def test_a_live_line() -> None:
    """It is gone over; the last round stays."""
    output = talk(experiment("sam(rho=steps([0, 1], [0.1, 0.2]))"), force_terminal=True)
    assert "\x1b[" in output
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output)
    assert re.search(
        r"\[1/2\]  round 6/6  .*  sam\(rho=steps\(\[0, 1\], \[0.1, 0.2\]\)\), seed 3\n", plain
    )
    assert "and a word [in] brackets" in plain


def test_long_runs_are_reported_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line every two seconds at first, then whenever a tenth of the time has passed again."""
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    stream = io.StringIO()
    on_progress = ConsoleReporter(Console(file=stream, width=200)).reporter.announce(
        experiment("fedavg"), 1, 1
    )
    for second in range(3600):
        now = float(second)
        on_progress(Progress(second + 1, 4000, 0.5, None, 9.0, 0.0))
    lines = stream.getvalue().splitlines()[1:]
    seconds = [int(re.search(r"round (\d+)/", line)[1]) - 1 for line in lines]
    assert seconds[:4] == [0, 2, 4, 6]
    assert len(seconds) < 70
    assert all(b - a <= max(2, a / 10 + 1) for a, b in pairwise(seconds))


class At:
    """A run that has come so far."""

    def __init__(self, round: int, ledger: Ledger) -> None:
        self.round, self.ledger = round, ledger


def test_speed_and_time_left_from_where_the_run_was_resumed() -> None:
    watch = Stopwatch(At(10, Ledger(samples=1000, training=50.0, seconds=100.0)))  # type: ignore[arg-type]
    later = At(12, Ledger(samples=1600, training=53.0, seconds=104.0))
    rows = [
        {"round": 10, "model": "server"},
        {"round": 11, "model": "server"},
        {"round": 12, "personal": 0.5},
    ]
    progress = watch.progress(later, 20, 0.5, rows)  # type: ignore[arg-type]
    assert progress.speed == 200.0  # 600 samples in 3 seconds
    assert (progress.seconds_per_round, progress.left) == (2.0, 16.0)  # 8 rounds to go
    assert progress.row == rows[1]  # the last one in which models were evaluated
    assert (progress.round, progress.rounds, progress.loss) == (12, 20, 0.5)


def test_time_left_forgets_slow_hours_and_remembers_little() -> None:
    """A hundred rounds of a minute each, then a tenth of a second: five minutes later they count no
    more."""
    watch, seconds = Stopwatch(At(0, Ledger())), 0.0  # type: ignore[arg-type]
    for made in range(1, 6101):
        seconds += 60.0 if made <= 100 else 0.1
        progress = watch.progress(At(made, Ledger(seconds=seconds)), 10_000, 0.5, [])  # type: ignore[arg-type]
        if made == 100:
            assert progress.left == pytest.approx(60.0 * 9900)
        if (
            made == 1600
        ):  # 150 seconds of quick rounds; of the slow ones the three that ended in the other 150
            assert progress.left == pytest.approx((150 + 3 * 60) / 1503 * 8400)
    assert progress.left == pytest.approx(0.1 * 3900)
    assert len(watch.marks) < 310


def test_every_round_is_reported() -> None:
    ticks: list[Progress] = []
    exp = experiment(rounds=4)
    result = train(exp, on_progress=ticks.append)
    assert [(one.round, one.rounds) for one in ticks] == [(t, 4) for t in (1, 2, 3, 4)]
    assert [one.loss for one in ticks] == [row["train_loss"] for row in result.rows]
    assert [one.row for one in ticks] == result.rows
    assert ticks[-1].left == 0.0


def test_clients_that_describe_themselves_are_counted() -> None:
    assert sentence(Progress(0, 60, described=(1, 2000))) == "round 0: 1 of 2,000 clients described"
    messages: list[Progress] = []
    method = "fedseq(groups=alike(2, psi='labels'))"
    train(experiment(method, rounds=1), on_progress=messages.append)
    assert [progress.described for progress in messages] == [
        (n, len(SIZES)) for n in range(1, len(SIZES) + 1)
    ] + [None]
    assert [progress.round for progress in messages] == [0] * len(SIZES) + [1]


def test_time_left_of_a_study() -> None:
    """A run that has not started takes as long a round as its method did, else as the mean of the
    methods."""
    study, seen = StudyTime([("a", 10), ("a", 10), ("b", 20), ("c", 0), ("d", 5)]), []  # type: ignore[var-annotated]
    ticks = [
        Progress(0, 10, described=(1, 5)),
        Progress(3, 4, seconds_per_round=9.0, phase=PRETRAINING),
        Progress(4, 10, seconds_per_round=2.0),
    ]
    for one in ticks:
        study.timed(1, seen.append)(one)
    assert seen[:2] == ticks[:2]
    assert seen.pop().study_left == 6 * 2 + 10 * 2 + 20 * 2 + 5 * 2
    study.timed(2, seen.append)(Progress(10, 10, seconds_per_round=3.0))
    assert seen.pop().study_left == 20 * 3 + 5 * 3
    study.timed(3, seen.append)(Progress(18, 20, seconds_per_round=1.0))
    assert seen.pop().study_left == 2 * 1 + 5 * 2  # a takes 3 seconds a round and b 1
    study.timed(5, seen.append)(Progress(1, 5, seconds_per_round=1.0))
    assert seen.pop().study_left is None


def on_digits() -> Experiment:
    model = parse("logistic", "model")
    return replace(experiment("fedavg"), on=parse(ON, "data set"), model=model, rounds=2)


def test_rounds_before_the_run_are_distinguished() -> None:
    ticks: list[Progress] = []
    train(
        replace(on_digits(), init=parse("pretrained(digits(), rounds=3)", "initializer")),
        on_progress=ticks.append,
    )
    assert [(one.round, one.rounds, one.phase) for one in ticks] == [
        (1, 3, PRETRAINING),
        (2, 3, PRETRAINING),
        (3, 3, PRETRAINING),
        (1, 2, ""),
        (2, 2, ""),
    ]


def test_a_study_is_reported_with_its_time_left(tmp_path: Path) -> None:
    """From its beginning, and when it is gone on with: runs that are done take no time."""
    ticks: list[tuple[int, Progress]] = []

    def announce(exp: Experiment, place: int, total: int) -> OnProgress:
        def on_progress(progress: Progress) -> None:
            ticks.append((place, progress))
            if len(ticks) == 3:
                raise KeyboardInterrupt

        return on_progress

    exps = [replace(on_digits(), seed=seed) for seed in range(3)]
    with pytest.raises(KeyboardInterrupt):
        run_many(
            exps, ExecutionConfig(executor="in-process"), tmp_path / "study", Reporter(announce)
        )
    resume(tmp_path / "study", reporter=Reporter(announce))
    assert [place for place, _ in ticks] == [1, 1, 2, 2, 3, 3]
    for place, one in ticks:
        later = 3 - place
        expected = None if not later else pytest.approx(one.left + one.whole * later)
        assert one.study_left == expected
