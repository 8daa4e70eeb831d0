"""Sections, seeds, marks and axes, as a browser shows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedflat
from fedflat.report import write_report
from report.test_browser import Watched, browser, pytestmark  # noqa: F401
from report.test_sections import METHODS, study, two_seeds
from report.written_runs import write_analyses, write_analysis, write_recorded, write_run

INIT = """window.written = []; const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
  window.written.push(text);
  return write.call(this, text, ...at);
};"""


@pytest.fixture
def two_sections(browser: Any, tmp_path: Path) -> Iterator[Any]:  # noqa: F811
    """Two data sets, two methods and two seeds each."""
    runs = [
        *two_seeds(tmp_path / "a", (0.9, 0.8)),
        *two_seeds(tmp_path / "b", (0.2, 0.3), on="cifar10(lda(0.5))"),
    ]
    for run in runs:
        write_analyses(run)
        write_recorded(run)
    write_report(runs, tmp_path / "page.html")
    recorded = Watched(browser, (tmp_path / "page.html").as_uri())
    yield recorded.page
    assert recorded.complaints == []
    recorded.context.close()


def test_each_data_set_has_a_table_and_curves(two_sections: Any) -> None:
    page = two_sections
    titles = ["digits(lda(0)), classification()", "cifar10(lda(0.5)), classification()"]
    for part in ("results", "training", "recorded"):
        assert page.locator(f"#{part} h3.section").all_inner_texts() == titles
    assert page.locator("#results .scenario").all_inner_texts() == [
        "Data set: digits. Partition: lda(0), 100 clients. Task: classification(). Model: logistic().",
        "Data set: cifar10. Partition: lda(0.5), 100 clients. Task: classification(). Model: logistic().",
    ]
    tables = page.locator("#results table.results")
    assert [table.locator("tbody code").all_inner_texts() for table in tables.all()] == [
        list(METHODS)
    ] * 2
    assert [table.locator("tr.best code").inner_text() for table in tables.all()] == list(METHODS)
    for target in ("90.50", "20.50"):
        assert f"Target {target} %: the accuracy of the first method." in page.inner_text(
            "#results"
        )
    charts = page.locator("#training figure svg.chart")
    assert [chart.locator("path.line").count() for chart in charts.all()] == [2] * charts.count()
    assert page.locator("#training .legend").count() == 2
    assert "most accurate" not in page.inner_text("header")


def test_analyses_are_chosen_by_section(two_sections: Any) -> None:
    """No chart has two data sets; every entry of a list names the one it is of."""
    page = two_sections
    for part in ("curvature", "surface", "plane", "partition", "confusion", "corruptions"):
        options = page.locator(f"#{part} select").last.locator("option").all_inner_texts()
        assert len(options) == 4, part
        assert [option.startswith("cifar10(lda(0.5))") for option in options] == [
            False,
            False,
            True,
            True,
        ], part
    assert page.locator("canvas.surface").count() == 2
    page.locator("#surface select").last.select_option(index=2)
    assert page.locator("canvas.surface").count() == 2
    rows = page.locator("#curvature > .frame tbody tr").all_inner_texts()
    assert sum("cifar10(lda(0.5))" in row for row in rows) == 4


def test_each_table_has_the_target_of_its_study(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    folders = [study(tmp_path / "a", 0.3), study(tmp_path / "b", 0.4, on="digits()")]
    write_report(folders, tmp_path / "page.html")
    recorded = Watched(browser, (tmp_path / "page.html").as_uri())
    heads = [
        text.replace("\xa0", " ")
        for text in recorded.page.locator("#results thead").all_inner_texts()
    ]
    assert "Rounds to 30.00 %" in heads[0]
    assert "Rounds to 40.00 %" in heads[1]
    recorded.context.close()


def test_one_seed_is_reported_in_the_row_and_in_the_sentence(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    runs = [write_run(tmp_path / method, method=method) for method in METHODS]
    write_report(runs, tmp_path / "page.html")
    recorded = Watched(browser, (tmp_path / "page.html").as_uri())
    page = recorded.page
    output = "(1 seed: differences between methods may be due to chance)."
    assert page.inner_text("#lead").endswith(output)
    assert page.locator(".results tbody small").all_inner_texts() == ["1 seed"] * 2
    assert "the last 4 rounds (1 seed)." in page.inner_text("#results")
    assert "No row is marked: with 1 seed, differences" in page.inner_text("#results")
    assert page.locator("#results tr.best").count() == 0
    assert "±" not in page.inner_text("#results table")
    recorded.context.close()


LOOK = """all => all.map((one) => { const line = one.querySelector("line"), mark = one.querySelector(".mark");
  return [line.getAttribute("stroke"), line.getAttribute("stroke-dasharray"), mark.getAttribute("fill"), mark.tagName,
    (mark.getAttribute("d") || "")].join(" "); })"""
SIGN = """all => all.map((one) => [one.getAttribute("fill"), one.tagName, one.getAttribute("d") || ""].join(" "))"""


@pytest.mark.parametrize("count", [12, 101])
def test_colours_dashes_and_marks_do_not_repeat(browser: Any, tmp_path: Path, count: int) -> None:  # noqa: F811
    """A hundred methods differ in the table and in the legend; beyond, the page says that they
    repeat."""
    runs = [
        write_run(tmp_path / str(i), method=f"fedprox(mu={i})", done=1, rounds=1)
        for i in range(count)
    ]
    write_report(runs, tmp_path / "page.html")
    recorded = Watched(browser, (tmp_path / "page.html").as_uri())
    page = recorded.page
    signs = page.locator("#results tbody .mark").evaluate_all(SIGN)
    looks = page.locator("#training .legend button").evaluate_all(LOOK)
    assert len(signs) == len(looks) == count
    assert len(set(signs)) == len(set(looks)) == min(count, 100)
    assert ("they repeat from row 101 on" in page.inner_text("#results")) == (count > 100)
    assert recorded.complaints == []
    recorded.context.close()


def test_a_plane_says_what_separates_basins(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    """Two models in one basin with contours between them: x from 0 to 30, y from 0 to 6."""
    run = write_run(tmp_path / "a")
    x, y = [3.0 * i for i in range(11)], [0.6 * i for i in range(11)]
    bowl = [[(a - 15) ** 2 / 100 + (b - 3) ** 2 for a in x] for b in y]
    marks = [
        {"name": name, "x": at, "y": 3.0, "loss": 1.0, "error": 0.5}
        for name, at in (("a", 6.0), ("b", 24.0))
    ]
    grid = {"x": x, "y": y, "loss": bowl, "points": marks}
    write_analysis(run, "plane", {"models": ["a", "b"], "set": "test"}, grid)
    write_report([run], tmp_path / "page.html")
    recorded = Watched(browser, (tmp_path / "page.html").as_uri())
    plane = recorded.page.locator("#plane")
    assert "no contour" not in plane.inner_text()
    assert (
        "Two models lie in different basins if the loss rises on the way from one to the other"
        in plane.inner_text()
    )
    assert "barrier" in plane.inner_text()
    chart = plane.locator("svg.chart")
    assert chart.locator("text.tick").all_text_contents() == [
        "0",
        "10",
        "20",
        "30",
        "0",
        "2",
        "4",
        "6",
    ]
    assert chart.locator("text.title").all_text_contents() == ["parameter distance"] * 2
    assert chart.get_attribute("aria-label").endswith(
        "It is 30 wide and 6 high in parameter distance."
    )
    frame = chart.bounding_box()
    for box in (progress.bounding_box() for progress in chart.locator("text.tick").all()):
        assert (
            frame["x"] - 1 <= box["x"] < box["x"] + box["width"] <= frame["x"] + frame["width"] + 12
        )
    assert recorded.complaints == []
    recorded.context.close()


@pytest.mark.parametrize(
    ("length", "ticks"), [(40.0, ["-40", "-20", "0", "20", "40"]), (None, ["-1", "-0.5", "0"])]
)
def test_surfaces_have_distances_along_their_sides(
    browser: Any,  # noqa: F811
    tmp_path: Path,
    length: float | None,
    ticks: list[str],
) -> None:
    """From -1 to 1 along directions of this length; without it, in lengths of the weights."""
    run, axis = write_run(tmp_path / "a"), [-1.0, -0.5, 0.0, 0.5, 1.0]
    found: dict[str, Any] = {
        "x": axis,
        "y": axis,
        "loss": [[1 + a * a + b * b for a in axis] for b in axis],
    }
    found |= {"center": {"loss": 1.0}} | ({} if length is None else {"length": length})
    write_analysis(run, "surface", {"model": "server"}, found)
    write_report([run], tmp_path / "page.html")
    context = browser.new_context()
    context.add_init_script(INIT)
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("canvas.surface")
    written = page.evaluate("window.written")
    assert all(written.count(progress) >= 2 for progress in ticks), written
    unit = "in parameter space" if length else "in lengths of its weights"
    assert (
        f"The numbers along both sides are distances from the model{'' if length else ','} {unit}."
        in (page.inner_text("#surface"))
    )
    reach = (
        "40 from the model in parameter distance"
        if length
        else "1 times the length of the weights from the model"
    )
    assert f"It reaches {reach}." in page.get_attribute("canvas.surface", "aria-label")
    context.close()


@pytest.mark.slow
def test_the_table_of_a_sweep_says_what_chose_and_how_many_were_tried(
    browser: Any,  # noqa: F811
    tmp_path: Path,
) -> None:
    """The set that chose a round is named, and so is the number of settings."""
    settings = {"rounds": 4, "model": "logistic", "clients_per_round": 2, "threads": 1}
    on = "digits(lda(0.5), clients=10)"
    chosen = {"validation": 0.1, "select_by": "validation", "eval_every": 1}
    fedflat.sweep("fedsam(rho={0.1, 0.2})", on=on, out=tmp_path / "swept", quiet=True, **settings)
    fedflat.run("fedavg", on=on, out=tmp_path / "kept", quiet=True, **settings, **chosen)
    write_report([tmp_path / "swept"], tmp_path / "swept.html")
    write_report([tmp_path / "kept"], tmp_path / "kept.html")
    page = Watched(browser, (tmp_path / "swept.html").as_uri()).page
    heads = page.locator("#results th[scope=col]").all_inner_texts()
    words = [" ".join(head.split()) for head in heads]
    assert {"Chosen %", "Validation %", "Settings tried"} <= set(words)
    tried = words.index("Settings tried")
    rows = page.locator("#results tbody tr").all()
    assert [row.locator("th, td").nth(tried).inner_text() for row in rows] == ["2", "2"]
    assert "neither trained nor tested on" in page.locator("#results").inner_text()
    page = Watched(browser, (tmp_path / "kept.html").as_uri()).page
    best = "on the test set: the evaluation with the best score on the validation set"
    assert best in page.locator("#results").inner_text()
    assert "Chosen %" not in page.locator("#results").inner_text()
