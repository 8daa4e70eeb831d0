"""The figures of docs/partitions.md are those that its code prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "partitions.md"
ROW = re.compile(r"^\| `([^`]+)` \| (\d\.\d\d) ± (\d\.\d\d) \| ([^|]+) \|$", re.M)


def rows(text: str) -> dict[str, tuple[float, float, str]]:
    return {
        name: (float(mean), float(spread), sizes) for name, mean, spread, sizes in ROW.findall(text)
    }


def test_the_table_is_what_the_code_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Means over ten seeds within four standard errors of the printed ones, whatever NumPy's
    generators do."""
    text = DOCS.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(code, {})
    printed, output = rows(capsys.readouterr().out), rows(text)
    assert printed.keys() == output.keys()
    assert len(output) == 6
    for name, (mean, spread, sizes) in output.items():
        found, again, got = printed[name]
        assert abs(found - mean) < 4 * ((spread**2 + again**2) / 10) ** 0.5 + 0.01
        assert (" to " in got) == (" to " in sizes)
