"""The clock that docs/clock.md prints."""

from __future__ import annotations

import re
from pathlib import Path

import fedflat as ff
from fedflat.experiments.train import train

DOC = (Path(__file__).parents[2] / "docs" / "clock.md").read_text()


def test_a_clock_of_ones_own(tmp_path: Path) -> None:
    [block] = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    (tmp_path / "slow.py").write_text(block)
    ff.load_plugin(str(tmp_path / "slow.py"))
    [text] = re.findall(r'`--clock "(every_second_slow.*?)"`', DOC)
    exp = ff.experiment(
        "fedavg",
        on="digits(iid(), clients=10)",
        rounds=2,
        clock=text,
        min_replies=1,
        model="logistic",
    )
    result = train(exp)
    assert repr(exp.clock) == text
    # each of ten clients has 144 examples or so: at a speed of 50 that takes 3 s, at 5 nearly the
    # deadline
    assert result.ledger.clock is not None
    assert 28 < result.ledger.clock / 2 <= 30
