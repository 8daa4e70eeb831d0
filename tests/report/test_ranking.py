"""No method is called the best unless the spread over seeds shows it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from scipy import stats

from fedflat.experiments.results.table_styles import RankedRun, lead, leader
from fedflat.report import collect
from report.written_runs import evaluations, write_rows, write_run


def ranked(method: str, *seeds: float) -> RankedRun:
    """Seeds with these accuracies."""
    return RankedRun(method, seeds)


def test_one_seed_shows_no_difference() -> None:
    """However far apart two methods are, one seed of either puts neither ahead."""
    ahead, behind = ranked("fedavg()", 0.9), ranked("fedsam()", 0.1)
    assert leader([behind, ahead]) is None
    assert lead([behind, ahead]) == (
        "fedavg() has the highest accuracy, 90.00 % (1 seed: differences between methods may be due to chance)."
    )
    assert lead([ahead]) == "fedavg() reaches 90.00 % (1 seed)."
    assert lead([ranked("x", math.nan)]) == ""
    assert lead([]) == ""


def test_seeds_of_one_method_only_show_no_difference() -> None:
    several, single, close = ranked("a", 0.9, 0.91), ranked("b", 0.1), ranked("c", 0.9, 0.9)
    assert leader([several, single]) is None
    assert lead([single, several]) == (
        "a has the highest accuracy, 90.50 ± 0.71 % (2 seeds), but with 1 seed only of b."
    )
    assert lead([single, several, close]) == (
        "a has the highest accuracy, 90.50 ± 0.71 % (2 seeds), but within noise of c and with 1 seed only of b."
    )
    assert leader([several, ranked("d", 0.1, 0.11)]) is several
    assert (
        lead([several, ranked("d", 0.1, 0.11)])
        == "a is the most accurate with 90.50 ± 0.71 % (2 seeds)."
    )


def test_seeds_are_judged_as_welch_does() -> None:
    """Ahead exactly where the two-sided p of Welch's test, as scipy has it, is below 5 %."""
    for gap in (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2):
        for first, second in (
            ((0.5, 0.51), (0.5, 0.53)),
            ((0.5, 0.51, 0.49), (0.5, 0.6, 0.4)),
            ((0.5, 0.52),) * 2,
        ):
            better = tuple(value + gap for value in first)
            p = stats.ttest_ind(better, second, equal_var=False).pvalue
            expected = sum(better) / len(better) > sum(second) / len(second) and p < 0.05
            assert ranked("a", *better).ahead_of(ranked("b", *second)) == expected, (
                gap,
                first,
                second,
                p,
            )


def test_seeds_without_spread() -> None:
    """Two seeds that agree to the last bit: any difference is one."""
    assert ranked("a", 0.5, 0.5).ahead_of(ranked("b", 0.4, 0.4))
    assert not ranked("a", 0.5, 0.5).ahead_of(ranked("b", 0.5, 0.5))


def test_many_names_are_counted() -> None:
    output = lead([ranked(name, 0.5, 0.6) for name in "abcdefg"])
    assert (
        output
        == "a has the highest accuracy, 55.00 ± 7.07 % (2 seeds), but within noise of b, c, d and 3 others."
    )


@pytest.mark.parametrize("last", [1, 4])
def test_evaluations_of_one_run_are_no_seeds(tmp_path: Path, last: int) -> None:
    """The second method is better by 0.5 in each of ten evaluations, which are all equal: it still
    has one seed."""
    runs = []
    for method, score in (("fedavg()", 0.25), ("fedprox()", 0.75)):
        runs.append(
            write_run(
                tmp_path / method,
                method=method,
                done=0,
                status="running",
                evaluate={"every": 1, "last": last},
            )
        )
        write_rows(
            runs[-1], "metrics", [{**row, "accuracy": score} for row in evaluations(1, 10)], "done"
        )
    found = collect(runs)
    assert found["boards"][0]["ahead"] is None
    assert found["lead"] == (
        "fedprox() has the highest accuracy, 75.00 % (1 seed: differences between methods may be due to chance)."
    )
    assert [method["spread"] for method in found["methods"]] == [None, None]
    assert "(1 seed: differences between methods may be due to chance)" in found["text"]
