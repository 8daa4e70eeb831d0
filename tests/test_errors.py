"""Messages say what was wrong, what was found and what to do; checks let the right things
through."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflat import errors
from fedflat.errors import FedflatError, SettingError, choice, flag, nearest, number


def test_the_tree() -> None:
    assert issubclass(FedflatError, ValueError)
    kinds = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert all(issubclass(kind, FedflatError) for kind in kinds)
    assert errors.__doc__ is not None
    assert all(kind.__name__ in errors.__doc__ for kind in kinds)


@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(-5, 5), st.booleans())
def test_a_number_in_its_range(value: float, low: float, high: float, open_low: bool) -> None:
    inside = low < value <= high if open_low else low <= value <= high
    if inside:
        number("sam", "rho", value, low=low, high=high, open_low=open_low)
    else:
        with pytest.raises(SettingError, match="sam: rho must be a number"):
            number("sam", "rho", value, low=low, high=high, open_low=open_low)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, 10**400, True, None, "1", [1], 1j]
)
def test_what_is_no_number(value: object) -> None:
    with pytest.raises(SettingError, match="found"):
        number("sam", "rho", value)


def test_whole_numbers() -> None:
    number("wima", "window", 3, low=1, whole=True)
    with pytest.raises(
        SettingError, match=r"window must be a whole number of at least 1, found 3\.0"
    ):
        number("wima", "window", 3.0, low=1, whole=True)
    with pytest.raises(SettingError, match="above 0 and at most 2, found 0"):
        number("a", "b", 0, low=0, high=2, open_low=True)


@pytest.mark.parametrize("value", [0, 1, "False", "", None])
def test_flags(value: object) -> None:
    flag("swa", "average", False)
    with pytest.raises(SettingError, match="average must be True or False, found"):
        flag("swa", "average", value)


def test_choices_and_near_words() -> None:
    choice("lda", "kind", "total", ["total", "component"])
    with pytest.raises(SettingError, match=r"found 'totl'\. Did you mean 'total'\?"):
        choice("lda", "kind", "totl", ["total", "component"])
    assert nearest("zzz", ["total"]) == ""
