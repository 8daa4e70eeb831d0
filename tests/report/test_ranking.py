"""Nobody is called the best whom the spread does not show to be."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from fedflat.report import collect
from fedflat.report.ranking import Standing, lead, leader
from report.made import write_run


def standing(method: str, *seeds: float, wobble: float | None = None) -> Standing:
    """Seeds with these accuracies; with ``wobble``, means of two evaluations so far below and above."""
    evaluations = tuple((mean,) if wobble is None else (mean - wobble, mean + wobble) for mean in seeds)
    return Standing(method, seeds, evaluations)


def test_one_evaluation_of_one_seed_crowns_nobody() -> None:
    ahead, behind = standing("fedavg()", 0.9), standing("fedsam()", 0.1)
    assert leader([behind, ahead]) is None
    assert lead([behind, ahead]) == (
        "fedavg() has the highest accuracy, 90.00 %, but one evaluation of one seed does not tell it from fedsam()."
    )
    assert lead([ahead]) == "fedavg() reaches 90.00 %."
    assert lead([standing("x", math.nan)]) == ""
    assert lead([]) == ""


def test_one_seed_is_judged_by_its_evaluations() -> None:
    """Two evaluations 0.01 to both sides have the standard deviation 0.01 sqrt(2), so the noise is 2 * 0.02 = 0.04."""
    first = standing("a", 0.5, wobble=0.01)
    assert first.wobble == pytest.approx(0.01 * 2**0.5)
    near, far = standing("b", 0.4601, wobble=0.01), standing("c", 0.4599, wobble=0.01)
    assert not first.ahead_of(near)
    assert first.ahead_of(far)
    assert not far.ahead_of(first)
    assert lead([near, first, far]) == "a has the highest accuracy, 50.00 %, but within noise of b."
    assert lead([first, far]) == "a is the most accurate with 50.00 %."
    assert leader([far, first]) is first
    unknown = standing("d", 0.1)
    assert not first.ahead_of(unknown)


def test_seeds_are_judged_as_welch_does() -> None:
    """Ahead exactly where the two-sided p of Welch's test, as scipy has it, is below 5 %."""
    for gap in (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2):
        for first, second in (((0.5, 0.51), (0.5, 0.53)), ((0.5, 0.51, 0.49), (0.5, 0.6, 0.4)), ((0.5, 0.52),) * 2):
            better = tuple(value + gap for value in first)
            p = stats.ttest_ind(better, second, equal_var=False).pvalue
            expected = sum(better) / len(better) > sum(second) / len(second) and p < 0.05
            assert standing("a", *better).ahead_of(standing("b", *second)) == expected, (gap, first, second, p)


def test_seeds_without_spread() -> None:
    """Two seeds that agree to the last bit: any difference is one."""
    assert standing("a", 0.5, 0.5).ahead_of(standing("b", 0.4, 0.4))
    assert not standing("a", 0.5, 0.5).ahead_of(standing("b", 0.5, 0.5))


def test_many_names_are_counted() -> None:
    said = lead([standing(name, 0.5, 0.6) for name in "abcdefg"])
    assert said == "a has the highest accuracy, 55.00 ± 7.07 %, but within noise of b, c, d and 3 others."


CASES: dict[str, tuple[dict[str, Any], int | None, str]] = {
    "one seed, one evaluation": ({"evaluate": {"every": 1, "last": 1}}, None, "one evaluation of one seed"),
    "one seed, four evaluations": ({}, None, "within noise"),
}


@pytest.mark.parametrize(("changes", "ahead", "said"), CASES.values(), ids=CASES)
def test_the_page_marks_nobody_without_reason(
    tmp_path: Path, changes: dict[str, Any], ahead: int | None, said: str
) -> None:
    """The second method is better by 0.1, and its last accuracies rise by 0.05 a round."""
    runs = [write_run(tmp_path / m, method=m, seed=s, **changes) for m, s in (("fedavg()", 0), ("fedprox()", 1))]
    found = collect(runs)
    assert found["boards"][0]["ahead"] == ahead
    assert said in found["lead"]
    assert "most accurate" not in found["lead"]
