"""Tables in a given width: no cell is lost, and each is under its own head."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedflat.text_table import GAP, aligned

NUMBERS = st.text("0123456789.", min_size=1, max_size=9)
NAMES = st.lists(st.text("abc()=+", min_size=1, max_size=12), min_size=1, max_size=4).map(" ".join)


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    columns = draw(st.integers(1, 6))
    heads = [f"head{i}" for i in range(columns)]
    numbers = st.lists(NUMBERS, min_size=columns, max_size=columns)
    rows = draw(st.lists(st.tuples(NAMES, numbers), min_size=1, max_size=4))
    return [["method", *heads], *([name, *cells] for name, cells in rows)]


def read(text: str) -> list[list[str]]:
    """The rows again: parts side by side, texts of several lines put together, without their
    spaces."""
    whole: list[list[str]] = []
    for part in text.split("\n\n"):
        lines = part.splitlines()
        ends, start = [], 0
        for rule in lines[1].split(GAP):
            ends.append((start, start + len(rule)))
            start += len(rule) + len(GAP)
        rows: list[list[str]] = []
        for line in [lines[0], *lines[2:]]:
            cells = [line[a:b].strip() for a, b in ends]
            if any(cells[1:]) or not rows:
                rows.append(cells)
            else:
                rows[-1][0] += cells[0]
        whole = [one + other[1:] for one, other in zip(whole, rows, strict=True)] if whole else rows
    return [[row[0].replace(" ", ""), *row[1:]] for row in whole]


@given(tables(), st.none() | st.integers(30, 90))
def test_every_cell_is_under_its_head(rows: list[list[str]], room: int | None) -> None:
    text = aligned(rows, room)
    assert read(text) == [[row[0].replace(" ", ""), *row[1:]] for row in rows]
    if room is None:
        assert len(text.splitlines()) == len(rows) + 1
    else:
        assert max(map(len, text.splitlines())) <= room


def test_what_fits_is_one_part() -> None:
    rows = [["method", "loss"], ["fedavg", "0.31"]]
    assert aligned(rows, 12) == aligned(rows) == "method  loss\n------  ----\nfedavg  0.31"
    assert aligned(rows, 11) == "metho  loss\nd\n-----  ----\nfedav  0.31\ng"
