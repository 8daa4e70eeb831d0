"""Tables for people, programs and papers."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import pytest

from fedflat.errors import SettingError
from fedflat.experiments.results.scenario import Scenario
from fedflat.experiments.results.summary import Summary
from fedflat.experiments.results.tables import table
from fedflat.text_table import size

ONE = Summary(
    "fedavg()", 3, 0.8123, 0.0123, 0.5, 120.0, 2.5e6, 3.5e9, 1234.5, 0, latest=0.82, best=0.855
)
OTHER = Summary("sam(rho=0.1), or so", 3, 0.5, math.nan, 1.25, None, None, 999, 10.0, 0)
BAD = Summary("fedyogi()", 3, math.nan, math.nan, math.nan, None, None, 12345, 10.0, 3)
HALF = Summary("feddyn()", 3, 0.4, math.nan, 2.0, None, None, 12345, 10.0, 1)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_text() -> None:
    lines = table([ONE, OTHER, BAD, HALF], 0.75, 100).splitlines()
    heads, rule, one, other, bad, half, empty, note = lines
    assert heads.split("  ")[0] == "method"
    for word in (
        "accuracy %",
        "loss",
        "rounds to 75.0 %",
        "sent to 75.0 %",
        "sent in all",
        "samples/s",
    ):
        assert word in heads
    assert set(rule) == {"-", " "}
    assert len({len(line) for line in (heads, rule, one, other, bad, half)}) == 1
    for cell in ("fedavg()", "81.23 ± 1.23", "0.5000", "120", "2.5 MB", "3.50 GB", "1,234"):
        assert f" {cell} " in f" {one} "
    assert " 50.00 " in other
    assert "±" not in other
    assert other.count(" - ") == 4
    assert " X (diverged) " in bad
    assert "nan ±" not in bad
    assert "40.00 (1 diverged)" in half
    assert empty == ""
    assert note == (
        "Accuracy and loss on the test set: mean of the evaluations in the last 100 rounds, mean ± standard deviation "
        "over 3 seeds. Last, best: of all evaluations. Best is optimistic: the test set chose it."
    )


def test_without_target_and_seeds() -> None:
    alone = Summary("fedavg()", 1, 0.5, math.nan, 1.0, None, None, 10, 1.0, 0)
    text = table([alone], None, 7)
    assert "rounds to" not in text
    assert "in the last 7 rounds (1 seed). Last, best" in text
    assert "Accuracy and loss on the test set: the last evaluation (1 seed). " in table(
        [alone], None, 1
    )


def test_markdown() -> None:
    heads, rule, one, other, *_ = table([ONE, OTHER], 0.9, 100, "markdown").splitlines()
    assert cells(heads) == [
        "method",
        "accuracy %",
        "last %",
        "best %",
        "loss",
        "rounds to 90.0 %",
        "sent to 90.0 %",
        "sent in all",
        "samples/s",
    ]
    assert cells(rule) == ["---"] + ["---:"] * 8
    assert cells(one) == [
        "`fedavg()`",
        "81.23 ± 1.23",
        "82.00",
        "85.50",
        "0.5000",
        "120",
        "2.5 MB",
        "3.50 GB",
        "1,234",
    ]
    assert cells(other)[:7] == ["`sam(rho=0.1), or so`", "50.00", "-", "-", "1.2500", "-", "-"]


def test_csv_is_read_back() -> None:
    summaries = [ONE, OTHER, BAD]
    rows = list(csv.DictReader(io.StringIO(table(summaries, 0.9, 100, "csv"))))
    assert len(rows) == 3
    for row, summary in zip(rows, summaries, strict=True):
        output = {
            "accuracy" if name == "score" else name: value for name, value in vars(summary).items()
        }
        apart = ("headline", "scenario", "tests", "classes", "notes")
        output = {name: value for name, value in output.items() if name not in apart}
        assert list(row) == list(output)
        for name, value in output.items():
            if value is None:
                assert row[name] == ""
            elif isinstance(value, float):
                assert float(row[name]) == value or (
                    math.isnan(float(row[name])) and math.isnan(value)
                )
            else:
                assert row[name] == str(value)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_540_000, "1.5 MB"),
        (999e6, "999.0 MB"),
        (1e9, "1.00 GB"),
        (12_345e9, "12345.00 GB"),
    ],
)
def test_size(count: float, text: str) -> None:
    assert size(count) == text


def test_personal_accuracies_have_a_column_where_they_were_measured() -> None:
    own = replace(ONE, personal=0.9512, personal_spread=0.0107)
    lines = table([own, OTHER], None, 100, "markdown").splitlines()
    column = cells(lines[0]).index("personal %")
    assert cells(lines[2])[column] == "95.12 ± 1.07"
    assert cells(lines[3])[column] == "-"
    assert "best round" in lines[-1]
    assert "personal" not in table([ONE, OTHER], None, 100)


def test_each_class_has_a_column_where_pixels_have_classes() -> None:
    """A method without values for a class is not mentioned."""
    one = replace(ONE, classes={"road": (0.5, 0.01), "sky": (0.25, math.nan)})
    other = replace(OTHER, classes={"road": (0.75, math.nan)})
    *_, heads, _, first, second, empty, note = table([one, other], None, 100).splitlines()
    assert heads.split() == ["method", "road", "%", "sky", "%"]
    assert first.split() == ["fedavg()", "50.00", "±", "1.00", "25.00"]
    assert second.split()[-2:] == ["75.00", "-"]
    assert (empty, note) == ("", "The IoU of each class on the test set.")
    rows = list(csv.DictReader(io.StringIO(table([one, other], None, 100, "csv"))))
    assert [row["classes.road"] for row in rows] == ["0.5", "0.75"]
    assert [row["classes.sky.spread"] for row in rows] == ["nan", "nan"]


@pytest.mark.parametrize("style", ["text", "markdown", "html"])
def test_notes_on_partitions_stand_below_once(style: str) -> None:
    both = [replace(one, notes=("lda(0.1): alpha is something.",)) for one in (ONE, OTHER)]
    *_, final = table(both, None, 100, style).splitlines()
    assert final.removeprefix("<p>").removesuffix("</p>") == "lda(0.1): alpha is something."
    assert table(both, None, 100, style).count("alpha is something") == 1
    assert "alpha" not in table(both, None, 100, "csv")


def test_one_seed_is_reported() -> None:
    single = [replace(ONE, seeds=1, spread=math.nan), replace(OTHER, seeds=1)]
    foot = table(single, None, 100).splitlines()[-1]
    assert (
        "the last 100 rounds (1 seed: differences between methods may be due to chance). Last"
        in foot
    )


def test_different_numbers_of_seeds_have_a_column() -> None:
    heads, _, one, other, _, foot = table(
        [ONE, replace(OTHER, seeds=1)], None, 100, "markdown"
    ).splitlines()
    assert [cells(line)[1] for line in (heads, one, other)] == ["seeds", "3", "1"]
    assert cells(heads)[2] == "accuracy %"
    assert (
        "standard deviation over seeds (with 1 seed, differences between methods may be due to chance)."
        in foot
    )


def test_each_data_set_and_task_has_a_table() -> None:
    """The same method on two data sets is two rows of two tables, and a CSV names both."""
    on = [
        Scenario("digits(lda(0))"),
        Scenario("cifar10(lda(0))"),
        Scenario("cifar10(lda(0))", "retrieval()"),
    ]
    summaries = [replace(ONE, scenario=one) for one in on]
    output, *parts = table(summaries, 0.9, 100, "markdown").split("\n\n")
    assert output.startswith("These runs are on different data sets, partitions or tasks.")
    assert parts[::3] == [one.title for one in on]
    assert [part.count("fedavg()") for part in parts[1::3]] == [1, 1, 1]
    assert "rounds to" not in "".join(parts)
    rows = list(csv.DictReader(io.StringIO(table(summaries, 0.9, 100, "csv"))))
    assert [(row["on"], row["task"]) for row in rows] == [(one.on, one.task) for one in on]


def several(method: str, score: float, spread: float, loss: float = 1.0, seeds: int = 3) -> Summary:
    return Summary(
        method, seeds, score, spread, loss, None, None, 10, 1.0, 0, loss_spread=spread / 10
    )


def test_the_best_mean_is_bold_only_if_seeds_show_it() -> None:
    """3 seeds with s = 0.01 each: Welch's least difference is t(4, 97.5 %) * sqrt(2/3) * 0.01,
    where t is 2.776: 0.0227."""
    low = several("a()", 0.9, 0.01)
    for gap, bold in ((0.0226, False), (0.0228, True)):
        lines = table([low, several("b()", 0.9 + gap, 0.01)], None, 100, "markdown").splitlines()
        assert cells(lines[3])[1].startswith("**") == bold
        assert not cells(lines[2])[1].startswith("**")
        assert lines[-1].startswith("Bold: ") == bold
    single = [replace(low, seeds=1, spread=math.nan), several("b()", 0.1, math.nan, seeds=1)]
    assert "**" not in table(single, None, 100, "markdown")
    assert "**" not in table([low, replace(single[1], score=0.99)], None, 100, "markdown")


def test_the_least_loss_is_bold() -> None:
    better, worse = several("a()", 0.5, 0.01, loss=0.2), several("b()", 0.5, 0.01, loss=0.9)
    text = table([better, worse], None, 100, "markdown", columns=["loss"])
    assert cells(text.splitlines()[2])[1] == "**0.2000 ± 0.0010**"
    assert cells(text.splitlines()[3])[1] == "0.9000 ± 0.0010"


def test_latex_is_a_table_of_booktabs() -> None:
    on = Scenario("digits(lda(0))")
    rows = [several("fedsam(rho=0.1)", 0.9, 0.01), several("x_y()", 0.95, 0.01)]
    lines = table([replace(one, scenario=on) for one in rows], 0.9, 100, "latex").splitlines()
    assert lines[1:3] == [r"\begin{table}[t]", r"  \centering"]
    assert lines[3].startswith(r"  \caption{digits(lda(0)), classification(). Accuracy and loss on")
    assert r"mean $\pm$ standard deviation over 3 seeds" in lines[3]
    assert lines[4:] == [
        r"  \begin{tabular}{lrrrr}",
        r"    \toprule",
        r"    Method & Accuracy \% & Loss & Rounds to 90.0 \% & Sent to 90.0 \% \\",
        r"    \midrule",
        r"    \texttt{fedsam(rho=0.1)} & 90.00 $\pm$ 1.00 & 1.0000 $\pm$ 0.0010 & - & - \\",
        r"    \texttt{x\_y()} & \textbf{95.00 $\pm$ 1.00} & 1.0000 $\pm$ 0.0010 & - & - \\",
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingError, match=r"no column 'acuracy'\. Did you mean 'accuracy'"):
        table([ONE], None, 100, columns=["acuracy"])
