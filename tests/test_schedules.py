"""Schedules by their formulas, their ends and their texts."""

from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflat.core.schedules import Schedule, at, cosine, cyclic, decay, poly, scalar, steps, warmup
from fedflat.errors import SettingError
from fedflat.registry.specs import parse

numbers = st.floats(0, 10)
lengths = st.integers(1, 50)
schedules = st.one_of(
    st.builds(decay, numbers, st.floats(0.1, 1)),
    st.builds(warmup, numbers, numbers, lengths),
    st.builds(cosine, numbers, numbers, lengths),
    st.builds(cyclic, numbers, numbers, lengths),
    st.builds(poly, numbers, lengths, st.floats(0, 3)),
    st.lists(numbers, min_size=1, max_size=5).map(lambda v: steps(range_list(len(v)), v)),
)


def range_list(n: int) -> list[int]:
    return [3 * i for i in range(n)]


@given(numbers, numbers, lengths, st.integers(0, 120))
def test_formulas(a: float, b: float, n: int, t: int) -> None:
    assert decay(a, 0.9)(t) == pytest.approx(a * 0.9**t)
    assert warmup(a, b, n)(t) == pytest.approx(a + (b - a) * min(t / n, 1))
    assert cosine(a, b, n)(t) == pytest.approx(
        b + (a - b) * (1 + math.cos(math.pi * min(t / n, 1))) / 2
    )
    assert poly(a, n, 0.9)(t) == pytest.approx(a * max(1 - t / n, 0) ** 0.9)
    share = (t % n + 1) / n
    assert cyclic(a, b, n)(t) == pytest.approx(a if n == 1 else a + (b - a) * share)


def test_ends() -> None:
    assert warmup(0.001, 0.15, 0)(0) == 0.15
    assert warmup(0.001, 0.15, 2000)(2000) == 0.15
    assert cosine(1.0, 0.1, 5)(5) == pytest.approx(0.1)
    assert cyclic(1e-2, 1e-4, 20)(19) == 1e-4
    assert [steps([0, 2, 5], [3, 2, 1])(t) for t in range(7)] == [3, 3, 2, 2, 2, 1, 1]


def test_the_ends_of_the_poly_rate() -> None:
    assert poly(0.05, 10)(9) == pytest.approx(0.05 * 0.1**0.9)
    assert poly(0.05, 10)(0) == 0.05
    assert poly(0.05, 10, power=0)(10) == 0


@given(schedules, st.integers(0, 60))
def test_a_schedule_prints_compares_pickles_and_stays_between_its_values(
    schedule: Schedule, t: int
) -> None:
    again = parse(repr(schedule), "schedule")
    assert again == schedule
    assert repr(again) == repr(schedule)
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert at(schedule, t) == schedule(t)
    low, high = min(schedule.bounds), max(schedule.bounds)
    falls = isinstance(schedule, decay)
    assert (0 if falls else low) - 1e-9 <= schedule(t) <= high + 1e-9


@pytest.mark.parametrize(
    "text",
    [
        "decay('a', 0.9)",
        "decay(1, 0)",
        "decay(1)",
        "warmup(0, 1, 2.5)",
        "warmup(0, 1, -1)",
        "warmup([0], 1, 2)",
        "cosine(1, 0, 0)",
        "poly(1, 0)",
        "poly(1, 9, -1)",
        "cosine(1, None, 3)",
        "cyclic(1, 0, 0)",
        "cyclic(1, 'b', 2)",
        "steps([], [])",
        "steps([1], [1])",
        "steps([0, 2, 2], [1, 2, 3])",
        "steps([0, 2], [1])",
        "steps(0, 1)",
        "steps([0.0], [1])",
        "steps([0, 'a'], [1, 2])",
        "steps([0], ['a'])",
        "decay(warmup(0, 1, 2), 0.9)",
        "decay(1e999, 0.5)",
    ],
)
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(ValueError, match=text[: text.index("(")]):
        parse(text, "schedule")


def test_a_range_is_checked_along_the_schedule() -> None:
    scalar("ema", "gamma", warmup(0, 1, 5), high=1)
    for wrong in (warmup(0, 1.5, 5), decay(-1, 0.5), steps([0, 9], [0.5, -0.5]), cyclic(2, 0, 3)):
        with pytest.raises(
            SettingError, match="gamma must be a number of at least 0 and at most 1"
        ):
            scalar("ema", "gamma", wrong, high=1)
    with pytest.raises(SettingError, match="above 0"):
        scalar("feddyn", "alpha", warmup(0, 1, 5), open_low=True)
