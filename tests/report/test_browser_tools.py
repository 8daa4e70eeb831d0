"""The tools of charts and tables in a browser: smoothing, zoom, axes, saving, filters, sections."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedflat.report import write_report
from report.test_browser import Watched, browser, pytestmark  # noqa: F401
from report.written_runs import evaluations, write_analyses, write_rows, write_run

LONG = "fedgloss(rho_s=0.15, rho_l=0.15, beta=10.0, T_s=150) + swa(start=0.75)"
METHODS = ("fedavg()", "fedsam(rho=0.1)", "fedsam(rho=0.2)", LONG)
ROUNDS, LAST = 100, 20


def rows(seed: int) -> list[dict[str, Any]]:
    """An evaluation every fourth round, then in each of the last ones; the loss falls from 40."""
    places = [*range(4, ROUNDS - LAST + 1, 4), *range(ROUNDS - LAST + 1, ROUNDS + 1)]
    return [
        evaluations(t, t, seed)[0] | {"accuracy": 0.5 + t / 300, "loss": 40 * math.exp(-t / 4) + 1}
        for t in places
    ]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tools")
    runs = []
    for on in ("digits(lda(0))", "digits(lda(0.5), clients=30)"):
        for method in METHODS:
            run = write_run(
                folder / f"run{len(runs)}",
                method=method,
                on=on,
                rounds=ROUNDS,
                done=0,
                status="running",
                evaluate={"every": 4, "last": LAST},
            )
            write_rows(run, "metrics", rows(0), "done")
            runs.append(run)
    write_analyses(runs[0])
    write_report(runs, folder / "page.html")
    return folder / "page.html"


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:  # noqa: F811
    watched = Watched(browser, report.as_uri())
    yield watched.page
    assert watched.complaints == []
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 1280
    watched.context.close()


def test_curves_are_smoothed_zoomed_and_drawn_on_logarithmic_axes(page: Any) -> None:
    training, loss = page.locator("#training"), page.locator("#training figure").nth(1)
    assert training.locator("rect.dense").count() == training.locator("svg.chart").count()
    assert training.locator("path.raw").count() == 0
    page.get_by_role("group", name="Smoothing").get_by_text("Strong").click()
    assert training.locator("path.raw").count() == training.locator("path.line").count()

    smoothed = loss.locator("path.line").first.get_attribute("d")
    page.get_by_role("group", name="Range").get_by_text("Whole").click()
    assert loss.locator("path.line").first.get_attribute("d") != smoothed
    page.get_by_role("group", name="Vertical axis").get_by_text("Logarithmic").click()
    assert loss.locator("line.axis.tick").count() > 0
    page.get_by_role("group", name="Vertical axis").get_by_text("Linear").click()
    chart = training.locator("svg.chart").first
    chart.focus()
    page.keyboard.press("+")
    ticks = training.locator("svg.chart").first.locator("text")
    assert "90" in ticks.all_text_contents()
    assert "20" not in ticks.all_text_contents()
    page.get_by_role("button", name="Show all rounds").click()
    assert "20" in ticks.all_text_contents()


def test_a_chart_is_saved(page: Any) -> None:
    """As a drawing that needs no style sheet, as a picture, and as numbers."""
    save = page.locator("#training figure").first.locator(".save")
    files = {}
    for kind in ("SVG", "PNG", "CSV"):
        with page.expect_download() as download:
            save.get_by_role("button", name=f"Save as {kind}").click()
        assert download.value.suggested_filename.endswith(f".{kind.lower()}")
        files[kind] = Path(download.value.path()).read_bytes()
    assert files["SVG"].startswith(b"<svg")
    assert b"var(" not in files["SVG"]
    assert b"fedavg()" in files["SVG"]
    assert files["PNG"].startswith(b"\x89PNG")
    heads, first, *others = files["CSV"].decode().splitlines()
    assert heads.startswith("round,fedavg(),fedsam(rho=0.1),")
    assert first.startswith("4,51.33 %,")
    assert len(others) + 1 == len(rows(0))


def test_settings_are_columns_that_filter(page: Any) -> None:
    table = page.locator("#results table.results").first
    assert table.locator("thead th").nth(1).inner_text() == "rho"
    assert table.locator("tbody td:nth-child(2)").all_inner_texts() == ["–", "0.1", "0.2", "–"]  # noqa: RUF001
    name = table.locator("tbody tr").nth(3).locator("th")
    assert LONG not in name.inner_text()
    assert "fedgloss + swa" in name.inner_text()
    name.locator("summary").click()
    assert LONG in name.inner_text()
    lines = page.locator("#training path.line").count()
    page.get_by_label("rho").first.select_option("0.1")
    shown = page.locator("#results table.results").first.locator("tbody tr")
    assert shown.count() == 3
    assert page.locator("#training path.line").count() == lines * 3 / 4
    page.get_by_label("rho").first.select_option("all")
    assert page.locator("#training path.line").count() == lines


def test_one_section_is_shown_alone(page: Any) -> None:
    assert page.locator("#results table.results").count() == 2
    assert page.locator("#surface").is_visible()
    page.get_by_label("Data set and partition").select_option(index=2)
    assert page.locator("#results table.results").count() == 1
    assert "lda(0.5), 30 clients" in page.locator("#results .scenario").inner_text()
    assert not page.locator("#surface").is_visible()
    page.get_by_label("Data set and partition").select_option("all")
    assert page.locator("#surface").is_visible()
    colours = [
        page.locator("#training .legend")
        .nth(place)
        .locator("line")
        .evaluate_all("all => all.map((one) => one.getAttribute('stroke'))")
        for place in (0, 1)
    ]
    assert colours[0] == colours[1]
    assert len(set(colours[0])) == len(METHODS)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_in_the_tools(browser: Any, report: Path, scheme: str) -> None:  # noqa: F811
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    watched = Watched(browser, report.as_uri(), color_scheme=scheme)
    watched.page.locator("details.folded summary").first.click()
    watched.page.get_by_role("group", name="Smoothing").get_by_text("Light").click()
    found = axe.run(watched.page).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
    watched.context.close()
