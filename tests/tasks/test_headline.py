"""The headline score of a run."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fedflat.errors import SettingError
from fedflat.tasks.headline import ACCURACY, Headline

RMSE = Headline("rmse", higher_is_better=False)
MIOU = Headline("miou", "mIoU", "%", 100.0)


def test_people_see_per_cent_with_two_places_and_other_scores_with_four_digits() -> None:
    assert ACCURACY.format(0.5, 0.0123) == "50.00 ± 1.23"
    assert MIOU.with_unit(0.25) == "25.00 %"
    assert [RMSE.format(value) for value in (0.5, 12.0, 98765.4, 0.0, math.nan)] == [
        "0.5000",
        "12.00",
        "98765",
        "0.0000",
        "-",
    ]
    assert RMSE.format(12.0, 0.5) == "12.00 ± 0.50"
    assert (ACCURACY.column, MIOU.column, RMSE.column) == ("accuracy %", "mIoU %", "rmse")
    assert Headline("time", unit="ms", factor=1000.0).with_unit(0.25) == "250.0 ms"


def test_less_may_be_better() -> None:
    assert [ACCURACY.better(0.9, other) for other in (0.8, 0.9, 1.0)] == [True, False, False]
    assert [RMSE.better(0.9, other) for other in (0.8, 0.9, 1.0)] == [False, False, True]
    assert (ACCURACY.best([0.1, 0.3, 0.2]), RMSE.best([0.2, 0.1, 0.3])) == (0.3, 0.1)
    assert (ACCURACY.gain(0.75, 0.5), RMSE.gain(0.75, 0.5)) == (0.25, -0.25)
    assert [ACCURACY.reaches(value, 0.9) for value in (0.8, 0.9, 1.0)] == [False, True, True]
    assert [RMSE.reaches(value, 0.9) for value in (0.8, 0.9, 1.0)] == [True, True, False]


@pytest.mark.parametrize("headline", [ACCURACY, RMSE])
def test_what_is_no_number_is_never_better_and_reaches_nothing(headline: Headline) -> None:
    nan = math.nan
    assert [headline.better(*pair) for pair in ((0.1, nan), (nan, 0.1), (nan, nan))] == [
        True,
        False,
        False,
    ]
    assert headline.best([nan, 0.5, nan]) == 0.5
    assert math.isnan(headline.best([]))
    assert math.isnan(headline.best([nan]))
    assert not headline.reaches(nan, 0.5)


@pytest.mark.parametrize(
    ("headline", "text", "value"),
    [
        (ACCURACY, "90%", 0.9),
        (ACCURACY, "90 %", 0.9),
        (ACCURACY, "0.9", 0.9),
        (ACCURACY, "1", 1.0),
        (MIOU, "25%", 0.25),
        (RMSE, "0.5", 0.5),
        (RMSE, "-3", -3.0),
        (RMSE, "250", 250.0),
        (Headline("time", unit="ms", factor=1000.0), "250", 0.25),
        (Headline("time", unit="ms", factor=1000.0), "250 ms", 0.25),
    ],
)
def test_a_target_is_read_as_people_see_it(headline: Headline, text: str, value: float) -> None:
    assert headline.target(text) == value


@pytest.mark.parametrize(
    ("headline", "text", "sentence"),
    [
        (ACCURACY, "90", "an accuracy lies between 0 and 1, or 0% and 100%, found '90'."),
        (ACCURACY, "0", "an accuracy lies between 0 and 1"),
        (MIOU, "101%", "a mIoU lies between 0 and 1"),
        (ACCURACY, "much", "an accuracy lies between 0 and 1"),
        (RMSE, "90%", "the rmse to reach must be a number, found '90%'."),
        (RMSE, "nan", "the rmse to reach must be a number"),
        (RMSE, "", "the rmse to reach must be a number"),
    ],
)
def test_a_target_that_makes_no_sense_is_a_sentence(
    headline: Headline, text: str, sentence: str
) -> None:
    with pytest.raises(SettingError) as caught:
        headline.target(text)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("headline", [ACCURACY, RMSE, MIOU])
def test_it_comes_back_from_json(headline: Headline) -> None:
    assert Headline.from_json(headline.as_json()) == headline


def test_a_folder_of_before_means_the_accuracy() -> None:
    assert Headline.from_json(None) == ACCURACY


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "round"},
        {"name": "a b"},
        {"name": "a" * 41},
        {"name": 3},
        {"name": "models.x"},
        {"label": "\x1b[2J"},
        {"label": 7},
        {"label": "a" * 41},
        {"unit": "a\nb"},
        {"unit": " %"},
        {"unit": None},
        {"factor": 0},
        {"factor": -1.0},
        {"factor": math.nan},
        {"factor": math.inf},
        {"factor": 1e-320},
        {"factor": "100"},
        {"higher_is_better": "no"},
    ],
)
def test_a_wrong_one_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=r"^headline: "):
        Headline(**{"name": "rmse", **wrong})
