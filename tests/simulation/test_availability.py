"""When clients are available."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflat.errors import DataError, SettingError
from fedflat.simulation.availability import on_off, trace


def test_clients_are_there_as_often_as_they_should() -> None:
    """Three quarters of the time, at the start as well as later; each by itself."""
    for at in (0.0, 1.0, 1000.0):
        there = sum(on_off(30, 10).stays(client, 0, at) is not None for client in range(400))
        assert abs(there / 400 - 0.75) < 4 * (0.75 * 0.25 / 400) ** 0.5


def test_stays_are_as_long_as_they_should_be() -> None:
    """Ends of stays, one after the other, over a long time: on + off on average."""
    coming, at, ends = on_off(30, 10), 0.0, set[float]()
    while at < 8000:
        until = coming.stays(3, 1, at)
        ends |= set() if until is None else {until}
        at += 0.5 if until is None else until - at + 1e-9
    assert abs(8000 / len(ends) / 40 - 1) < 4 * (30**2 + 10**2) ** 0.5 / 40 / 200**0.5


@settings(max_examples=40)
@given(st.integers(0, 50), st.integers(0, 3), st.lists(st.floats(0, 500), min_size=2, max_size=8))
def test_it_does_not_matter_what_was_asked_before(
    client: int, seed: int, times: list[float]
) -> None:
    often = on_off(20, 7)
    for at in times:
        assert often.stays(client, seed, at) == on_off(20, 7).stays(client, seed, at)
        until = often.stays(client, seed, at)
        if until is not None:
            assert until > at
            assert often.stays(client, seed, (at + until) / 2) == until
            assert often.stays(client, seed, until) is None


def test_by_rounds_a_client_is_there_for_a_whole_round() -> None:
    coming = on_off(3, 3, by="rounds")
    found = {coming.until(4, 0, t, at) for t in range(30) for at in (0.0, 1e6)}
    assert found == {None, inf}
    assert all(coming.until(4, 0, t, 0.0) == coming.until(4, 0, t, 1e6) for t in range(30))


def test_clients_that_are_always_available() -> None:
    assert on_off(5, 0).until(0, 0, 0, 1e9) == inf


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "there.json"
    path.write_text(json.dumps({"0": [[0, 10], [20, 30]], "1": [], "2": [[0, 100]]}))
    return path


@pytest.mark.parametrize(
    ("client", "at", "until"),
    [
        (0, 0, 10),
        (0, 9.5, 10),
        (0, 10, None),
        (0, 25, 30),
        (0, 30, None),
        (1, 0, None),
        (0, 1e6, None),
    ],
)
def test_a_trace(file: Path, client: int, at: float, until: float | None) -> None:
    assert trace(str(file)).until(client, 0, 5, at) == until


@pytest.mark.parametrize(
    ("client", "at", "until"),
    [
        (0, 30, 40),
        (0, 45, None),
        (0, 55, 70),
        (0, 65, 70),
        (1, 65, None),
        (2, 65, inf),
    ],
)
def test_a_trace_that_begins_again(file: Path, client: int, at: float, until: float | None) -> None:
    """Every 30 seconds: the second stay of client 0 ends where its first begins again."""
    assert trace(str(file), every=30).until(client, 0, 5, at) == until


def test_a_trace_by_rounds(file: Path) -> None:
    there = trace(str(file), by="rounds")
    assert [there.until(0, 0, t, 77.0) for t in (0, 9, 10, 19, 20)] == [inf, inf, None, None, inf]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"0": [[0, 1]]}', "no entry for 2 of the 3 clients: 1, 2"),
        ('{"0": [[1, 0]]}', r"pairs \[start, end\] in increasing order"),
        ('{"0": [[0, 2], [1, 3]]}', r"pairs \[start, end\] in increasing order"),
        ('{"0": [[-1, 2]]}', r"pairs \[start, end\] in increasing order"),
        ('{"0": [[0, NaN]]}', r"pairs \[start, end\] in increasing order"),
        ('{"0": 3}', "a list of spans"),
        ("[]", "must hold an object"),
        ("{", "not JSON"),
    ],
)
def test_a_wrong_trace_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        trace(str(path)).check(3)


def test_wrong_numbers_are_refused() -> None:
    for on, off in ((0, 1), (-1, 1), (1, -1), ("a", 1)):
        with pytest.raises(SettingError, match="on_off"):
            on_off(on, off)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="by must be 'seconds' or 'rounds'"):
        on_off(1, 1, by="days")
