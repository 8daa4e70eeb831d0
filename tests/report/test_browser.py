"""The page in a browser: it draws, sorts and rotates, and sends no request."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import fedflat
from experiments.small import PATIENCE
from fedflat.report import collect, document, write_report
from fedflat.tasks.headline import Headline
from report.damage import damaged_runs
from report.test_headlines import MIOU, RMSE, compared
from report.written_runs import (
    evaluations,
    write_analyses,
    write_analysis,
    write_headline_run,
    write_pictures,
    write_recorded,
    write_rows,
    write_run,
    write_timed,
)

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium to draw it: apt-get install chromium"
)
METHODS = ("fedavg", "fedsam(rho=0.1)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=arguments, timeout=PATIENCE * 1000
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods, two seeds, really run; with analyses of a bowl."""
    folder = tmp_path_factory.mktemp("report")
    runs = []
    for method in METHODS:
        for seed in (0, 1):
            out = folder / f"{method}-{seed}"
            settings = {
                "rounds": 5,
                "model": "logistic",
                "clients_per_round": 2,
                "seed": seed,
                "threads": 1,
            }
            fedflat.run(method, on="digits(lda(0), clients=10)", out=out, **settings)
            write_analyses(out, stretch=1 + len(runs) / 2)
            write_recorded(out, rounds=5)
            runs.append(out)
    assert write_report(runs, folder / "report.html") == []
    return folder / "report.html"


class Watched:
    """A page, with what it complained about and what it asked for."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, **options}
        )
        self.context.set_default_timeout(PATIENCE * 1000)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("main section:not([hidden])")


def tables_are_filled(page: Any) -> None:
    """Wait for what a page puts into the tables that were opened: a browser tells it of them a
    moment later."""
    page.locator("details.data[open]:not(:has(table))").first.wait_for(state="detached")


@pytest.fixture(scope="module")
def read(browser: Any, report: Path) -> Iterator[Watched]:
    """The page, for tests that only look at it: they share it."""
    recorded = Watched(browser, report.as_uri())
    yield recorded
    assert recorded.complaints == []
    recorded.context.close()


@pytest.fixture
def seen(browser: Any, report: Path) -> Iterator[Watched]:
    """The page, for a test that changes it."""
    recorded = Watched(browser, report.as_uri())
    yield recorded
    assert recorded.complaints == []
    recorded.context.close()


def test_labels_of_clients_and_of_groups_are_drawn(browser: Any, tmp_path: Path) -> None:
    """Two pictures: a column for each client, in the order of groups, and one for each group; what
    each cell says."""
    settings = {
        "rounds": 1,
        "model": "logistic",
        "clients_per_round": 1,
        "threads": 1,
        "quiet": True,
    }
    groups = "chains(groups=given_groups([[1, 2], [0]]))"
    fedflat.run(
        "fedavg", on="digits(lda(0), clients=3)", topology=groups, out=tmp_path / "run", **settings
    )
    write_report([tmp_path / "run"], tmp_path / "report.html")
    recorded = Watched(browser, (tmp_path / "report.html").as_uri())
    assert recorded.page.locator("#groups svg.chart").count() == 2
    output = recorded.page.locator("#groups").inner_text()
    assert "2 groups of 1 to 2 clients, by given_groups([[1, 2], [0]])." in output
    recorded.page.locator("#groups svg.chart").first.hover(position={"x": 60, "y": 40})
    assert "client 1 of group 0: " in recorded.page.locator("#groups .tip").first.inner_text()
    assert recorded.complaints == []
    recorded.context.close()


def test_everything_is_drawn_and_nothing_is_fetched(read: Watched, report: Path) -> None:
    """All parts are there; every path has finite numbers; every picture has a name."""
    shown = read.page.eval_on_selector_all(
        "main section:not([hidden])", "all => all.map((one) => one.id)"
    )
    assert shown == [
        "results",
        "training",
        "confusion",
        "curvature",
        "surface",
        "plane",
        "interpolate",
        "recorded",
        "local_global",
        "partition",
        "corruptions",
        "made",
    ]
    paths = read.page.eval_on_selector_all(
        "main svg path.line", "all => all.map((one) => one.getAttribute('d'))"
    )
    assert len(paths) >= 2 * 3
    assert all(re.fullmatch(r"(?:[ML]-?\d+(?:\.\d+)? -?\d+(?:\.\d+)?)+", path) for path in paths)
    whole = read.page.content()
    assert not re.search(r'="[^"]*(?:NaN|undefined|Infinity)', whole)
    assert "undefined" not in read.page.inner_text("main")
    assert {url.partition(":")[0] for url in read.asked} <= {"file", "data"}
    assert [url for url in read.asked if url.startswith("file:")] == [report.as_uri()]


def test_pictures_have_names_from_the_numbers(read: Watched) -> None:
    nameless = read.page.eval_on_selector_all(
        "svg, canvas, img, button, select",
        """all => all.filter((one) => one.getAttribute("aria-hidden") !== "true" && !one.getAttribute("aria-label")
             && !one.textContent.trim() && !one.closest("label")).map((one) => one.outerHTML.slice(0, 120))""",
    )
    assert nameless == []
    output = read.page.get_attribute("canvas.surface >> nth=0", "aria-label")
    assert output.startswith(
        "Surface of the loss around fedavg(): at the model 1.000, least 1.000, largest 6.000."
    )
    eigenvalues = read.page.get_attribute("#curvature svg[role=img] >> nth=0", "aria-label")
    assert "fedavg() from 8.000 down to 2.000" in eigenvalues


def test_structure_for_screen_readers(read: Watched) -> None:
    for landmark in ("header", "nav[aria-label]", "main", "footer"):
        assert read.page.locator(landmark).count() == 1
    assert read.page.locator("h1").count() == 1
    nameless = "all => all.filter((one) => !one.caption?.textContent.trim()).length"
    assert read.page.eval_on_selector_all("table", nameless) == 0
    levels = (
        "all => all.filter((one) => one.checkVisibility()).map((one) => Number(one.tagName[1]))"
    )
    found = read.page.eval_on_selector_all("h1, h2, h3, h4", levels)
    assert all(below <= above + 1 for above, below in pairwise(found))
    assert (
        read.page.locator("td, th").count() == read.page.locator("tr > td, tr > th[scope]").count()
    )


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[[list[Path]], Any]]:
    """The page of these runs, which must not complain."""
    opened: list[Watched] = []

    def page_of(runs: list[Path]) -> Any:
        write_report(runs, tmp_path / "page.html")
        opened.append(Watched(browser, (tmp_path / "page.html").as_uri()))
        return opened[-1].page

    yield page_of
    for one in opened:
        assert one.complaints == []
        one.context.close()


def test_a_score_of_which_less_is_better(
    open_page: Callable[[list[Path]], Any], tmp_path: Path
) -> None:
    """No unit, no accuracy; the lowest is marked, and a click on its head brings the lowest first,
    the unknown last."""
    runs = compared(tmp_path, RMSE, unseen=True)
    runs.append(write_headline_run(tmp_path / "bad", RMSE, [math.nan] * 4, method="fedyogi()"))
    page = open_page(runs)
    heads = page.locator(".results thead th")
    assert heads.all_inner_texts()[:5] == [
        "Method",
        "Rmse",
        "unseen",
        "Loss",
        "Rounds\xa0to 0.6550",
    ]
    assert page.locator(".results tr.best code").all_inner_texts() == ["fedsam(rho=0.1)"]
    heads.nth(1).locator("button").click()
    assert heads.nth(1).get_attribute("aria-sort") == "ascending"
    assert [text.split()[0] for text in column(page, 2)] == ["0.3275", "0.6550", "\N{EN DASH}"]
    heads.nth(1).locator("button").click()
    assert [text.split()[0] for text in column(page, 2)] == ["0.6550", "0.3275", "\N{EN DASH}"]
    titles = page.locator("#training figure h3").all_inner_texts()
    assert titles == ["Rmse", "Rmse, unseen", "Test loss", "Training loss"]
    output = page.get_attribute("#training svg[role=img] >> nth=0", "aria-label")
    assert output.startswith(
        "Rmse against round: fedavg() ends at 0.6050 (round 4); fedsam(rho=0.1) ends at 0.3025"
    )
    text = page.inner_text("#results") + page.inner_text("#training") + page.inner_text("header")
    assert not re.search("%|accura", text, re.IGNORECASE)
    assert "Less rmse is better. unseen: the rmse on a further test set. Target 0.6550" in text


def test_scores_of_different_kinds_have_tables_of_their_own(
    open_page: Callable[[list[Path]], Any], tmp_path: Path
) -> None:
    page = open_page([*compared(tmp_path, RMSE), *compared(tmp_path, MIOU)])
    tables = page.locator("table.results")
    assert [table.locator("thead th").nth(1).inner_text() for table in tables.all()] == [
        "Rmse",
        "mIoU %",
    ]
    best = [table.locator("tr.best td").first.inner_text().split()[0] for table in tables.all()]
    assert best == ["0.3275", "65.50"]
    tables.nth(0).locator("thead button").nth(1).click()
    assert (
        page.evaluate("document.activeElement.dataset.key")
        == "sort rmse: digits(lda(0)), classification(), by rmse"
    )
    titles = page.locator("#training figure h3").all_inner_texts()
    assert titles == ["Rmse", "Test loss", "Training loss", "mIoU", "Test loss", "Training loss"]
    assert page.locator("#training h3.section").all_inner_texts() == [
        f"digits(lda(0)), classification(), by {score}" for score in ("rmse", "mIoU")
    ]
    drawn = page.locator("#training figure").nth(0).locator("svg.chart path.line").count()
    assert drawn == len(METHODS)
    assert "have different headline scores" in page.inner_text("#results")


def test_scores_below_zero_are_drawn(
    open_page: Callable[[list[Path]], Any], tmp_path: Path
) -> None:
    """A curve from -1 to 0.5 stays within its frame."""
    page = open_page(
        [write_headline_run(tmp_path / "run", Headline("r2", "R²"), [-1.0, -0.5, 0.0, 0.5])]
    )
    chart = page.locator("#training figure").nth(0).locator("svg.chart")
    height = float(chart.get_attribute("height"))
    ys = [
        float(y)
        for y in re.findall(r"[ML][\d.]+ (-?[\d.]+)", chart.locator("path.line").get_attribute("d"))
    ]
    assert len(ys) == 4
    assert all(0 <= y <= height - 42 for y in ys)


def test_lambda_1_stands_with_its_uncertainty(
    open_page: Callable[[list[Path]], Any], tmp_path: Path
) -> None:
    """Of one run on parts of the examples: the number, its ±, and what that is, where it stands."""
    runs = [write_run(tmp_path / name, method=f"{name}()") for name in ("fedavg", "fedprox")]
    for run in runs:
        write_analyses(run)
    page = open_page(runs)
    heads = page.locator("#results table.results >> nth=0").locator("thead th").all_inner_texts()
    shown = {
        name: [" ".join(text.split()) for text in column(page, 1 + heads.index(name))]
        for name in heads
    }
    assert shown["λ₁"] == ["8.000 ± 0.400"] * 2
    assert shown["λ₁‖w‖²"] == ["72.00 ± 3.60"] * 2
    explained = "± of λ₁ and λ₁‖w‖²: the standard deviation over disjoint parts of the examples."
    assert explained in page.inner_text("#results")
    assert explained in page.get_by_role("button", name="λ₁", exact=True).get_attribute("title")
    table = page.locator("#curvature table.wide tbody tr").first.inner_text()
    assert "8.000 ± 0.400" in " ".join(table.split())


def test_a_low_spectrum_is_not_called_flat_whatever_the_weights(read: Watched) -> None:
    output = " ".join(read.page.locator("#curvature").inner_text().split())
    assert (
        "A model may be the flatter of two by one of them and the sharper by the other." in output
    )
    assert (
        "Low stems mean a flat minimum only among models whose weights are about as long." in output
    )


def test_the_density_has_axes_with_ticks_and_values(read: Watched) -> None:
    chart = read.page.locator("#curvature figure", has_text="Density of all eigenvalues").locator(
        "svg.chart"
    )
    lines = chart.locator("line.axis").evaluate_all(
        "all => all.map((one) => ['x1', 'x2', 'y1', 'y2'].map((name) => Number(one.getAttribute(name))))"
    )
    texts = chart.locator("text").all_text_contents()
    upright = [line for line in lines if line[0] == line[1] and line[3] - line[2] > 100]
    assert len(upright) == 1
    left, bottom = upright[0][0], upright[0][3]
    beside = [line for line in lines if line[1] == left and line[0] == left - 5]
    below = [
        line for line in lines if line[0] == line[1] and (line[2], line[3]) == (bottom, bottom + 5)
    ]
    assert len(beside) >= 3
    assert len(below) >= 3
    assert len(texts) == len(beside) + len(below) + 2
    assert {"density, logarithmic", "eigenvalue"} < set(texts)


def column(page: Any, place: int) -> list[str]:
    return page.locator(f".results tbody tr > :nth-child({place})").all_inner_texts()  # type: ignore[no-any-return]


def test_the_table_sorts_by_click_and_by_key(seen: Watched) -> None:
    page = seen.page
    heads = page.locator(".results thead th")
    names = [head.strip() for head in heads.all_inner_texts()]
    loss = names.index("Loss")
    button = heads.nth(loss).locator("button")
    button.click()
    assert heads.nth(loss).get_attribute("aria-sort") == "ascending"
    ascending = [float(text.split()[0]) for text in column(page, loss + 1)]
    assert ascending == sorted(ascending)
    assert page.evaluate("document.activeElement.dataset.key") == "sort loss"
    page.keyboard.press("Enter")
    assert heads.nth(loss).get_attribute("aria-sort") == "descending"
    assert [float(text.split()[0]) for text in column(page, loss + 1)] == ascending[::-1]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    assert heads.nth(loss - 1).get_attribute("aria-sort") in ("ascending", "descending")
    assert heads.nth(loss).get_attribute("aria-sort") == "none"


BLANK = """() => { const one = document.querySelector("canvas.surface"), blank = document.createElement("canvas");
  blank.width = one.width; blank.height = one.height; return blank.toDataURL(); }"""


def pictures_of(page: Any) -> list[str]:
    """The surfaces as they are painted now."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.eval_on_selector_all("canvas.surface", "all => all.map((one) => one.toDataURL())")  # type: ignore[no-any-return]


def test_surfaces_turn_together(seen: Watched) -> None:
    page = seen.page
    page.locator("#surface").scroll_into_view_if_needed()
    canvas = page.locator("canvas.surface").first
    canvas.scroll_into_view_if_needed()
    pictures = [pictures_of(page)]
    assert len(set(pictures[0]) | {page.evaluate(BLANK)}) == 3
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 110, steps=4)
    page.mouse.up()
    pictures.append(pictures_of(page))
    canvas.focus()
    for key in ("ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
        pictures.append(pictures_of(page))
    page.get_by_role("button", name="Turn right").click()
    pictures.append(pictures_of(page))
    for place in (0, 1):
        assert len({picture[place] for picture in pictures}) == len(pictures)
    page.get_by_role("button", name="Reset").click()
    assert pictures_of(page) == pictures[0]


def test_surfaces_turn_by_touch(browser: Any, report: Path) -> None:
    """A finger that moves sideways turns them; the page itself does not move."""
    recorded = Watched(
        browser, report.as_uri(), viewport={"width": 390, "height": 844}, has_touch=True
    )
    page = recorded.page
    canvas = page.locator("canvas.surface").first
    canvas.scroll_into_view_if_needed()
    before, box = pictures_of(page), canvas.bounding_box()
    finger = recorded.context.new_cdp_session(page)
    for kind, across in (("touchStart", 40), ("touchMove", 80), ("touchMove", 140)):
        points = [{"x": box["x"] + across, "y": box["y"] + 80}]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    after = pictures_of(page)
    assert all(one != other for one, other in zip(before, after, strict=True))
    assert page.evaluate("[scrollX, visualViewport.scale]") == [0, 1]
    recorded.context.close()


def test_one_scale_for_all_surfaces(read: Watched) -> None:
    """The common key goes from the least to the largest loss of both bowls: 1 to 2 (1 + 4 + 1)."""
    ends = read.page.locator("#surface > .key span").all_inner_texts()
    assert ends == ["1.000", "12.00"]


def test_curves_are_read_by_pointer_and_by_key(seen: Watched) -> None:
    page = seen.page
    chart = page.locator("#training svg.chart").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 14, box["y"] + 60)
    tip = page.locator("#training .tip").first
    assert tip.is_visible()
    assert tip.inner_text().startswith("round 5")
    page.mouse.move(0, 0)
    assert not tip.is_visible()
    page.keyboard.press("Tab")
    chart.focus()
    page.keyboard.press("Home")
    assert "round 1" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    output = page.locator("#training [aria-live]").first.inner_text()
    assert output.startswith("round 2: ")
    assert "fedavg()" in output


def test_simulated_time_is_an_axis_where_there_is_a_clock(browser: Any, tmp_path: Path) -> None:
    runs = [
        write_timed(tmp_path / "a", 400.0),
        write_timed(tmp_path / "b", 40.0, method="fedsam(rho=0.1)"),
    ]
    write_report(runs, tmp_path / "page.html", target=0.3)
    recorded = Watched(browser, (tmp_path / "page.html").as_uri())
    page = recorded.page
    heads = page.locator("#results th").all_inner_texts()
    assert any(head.startswith("Simulated") and "30.00" in head for head in heads)
    row = page.locator("#results tbody tr").first.inner_text()
    assert "1 h 06 min" in row
    assert "26 min 40 s" in row
    page.get_by_role("button", name="Simulated time").click()
    assert "simulated time" in page.locator("#training svg.chart").first.text_content()
    assert recorded.complaints == []
    recorded.context.close()


def test_axes_and_legend(seen: Watched) -> None:
    page = seen.page
    assert page.get_by_role("button", name="Simulated time").count() == 0
    page.get_by_role("button", name="Bytes").click()
    assert "sent" in page.locator("#training svg.chart").first.text_content()
    assert page.evaluate("document.activeElement.textContent") == "Bytes"
    before = page.locator("#training path.line").count()
    page.locator("#training .legend button").first.click()
    assert page.locator("#training path.line").count() == before / 2
    assert page.locator("#training .legend button").first.get_attribute("aria-pressed") == "false"


def test_data_as_table(seen: Watched) -> None:
    """The table of the accuracies holds the numbers of the runs."""
    seen.page.locator("#training details.data summary").first.click()
    tables_are_filled(seen.page)
    rows = seen.page.locator("#training details.data table").first.locator("tbody tr")
    rows.first.wait_for(state="attached")  # the table is made when the browser has opened its frame
    assert rows.count() == 5
    document = seen.page.evaluate("JSON.parse(document.getElementById('data').textContent)")
    last = document["methods"][0]["curves"]["accuracy"]["mean"][-1]
    assert rows.last.locator("td").first.inner_text().startswith(f"{100 * last:.2f} %")


CONTRASTS = r"""
() => {
  const numbers = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = numbers(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const poor = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility() || node.closest("script, noscript, title")) continue;
    const style = getComputedStyle(node), outlined = node.closest("text.model");
    const ink = numbers(node.ownerSVGElement ? style.fill : style.color);
    const found = ratio(ink, outlined ? numbers(style.stroke) : behind(node));
    texts++;
    if (found < 4.5) poor.push(`${found.toFixed(2)} ${text.data.trim().slice(0, 40)}`);
  }
  const root = getComputedStyle(document.documentElement), paper = behind(document.body);
  const hex = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
  const lines = Array.from({ length: 10 }, (_, i) => ratio(hex(root.getPropertyValue(`--c${i}`).trim()), paper));
  return { texts, poor, lines };
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_in_both_themes(browser: Any, report: Path, scheme: str) -> None:
    """Text at least 4.5 to 1, lines at least 3 to 1; the button turns one theme into the other."""
    recorded = Watched(browser, report.as_uri(), color_scheme=scheme)
    for expected in (scheme, {"light": "dark", "dark": "light"}[scheme]):
        assert recorded.page.get_attribute("html", "data-theme") == expected
        found = recorded.page.evaluate(CONTRASTS)
        assert found["texts"] > 100
        assert found["poor"] == []
        assert min(found["lines"]) >= 3
        recorded.page.locator("#theme").click()
    assert recorded.complaints == []
    recorded.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_no_fault(browser: Any, report: Path, width: int, scheme: str) -> None:
    recorded = Watched(
        browser, report.as_uri(), viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    assert axe_faults(recorded.page, least=30) == []
    recorded.context.close()


def axe_faults(page: Any, least: int = 20) -> list[str]:
    """The rules of WCAG 2.1 A and AA that a program can check, and good practice: those that a page
    breaks. More than ``least`` others must apply to it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
    # Elements that pass are not listed, which takes most of the time.
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    found = axe.run(page, options=options).response
    assert len(found["passes"]) > least
    return [fault["id"] for fault in found["violations"]]


def test_printed_charts_are_drawn_for_the_sheet(browser: Any, report: Path) -> None:
    """In the proportions of paper, in light colours; afterwards the screen is as before."""
    recorded = Watched(browser, report.as_uri(), color_scheme="dark")
    page = recorded.page
    seen = """() => ({ theme: document.documentElement.dataset.theme,
        widths: [...document.querySelectorAll("svg.chart")].map((one) => one.viewBox.baseVal.width) })"""
    before = page.evaluate(seen)
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = ({seen})(); }})")
    assert page.pdf(format="A4").startswith(b"%PDF")
    printed = page.evaluate("window.printed")
    page.emulate_media(media="print")
    tall = page.locator(".off").evaluate_all(
        "all => all.map((one) => one.getClientRects()[0].height)"
    )
    assert tall
    assert max(tall) < 20, "a spread breaks within a line"
    page.emulate_media(media="screen")
    sheet = (210 - 2 * 14) / 25.4 * 96
    assert printed["theme"] == "light"
    assert 300 < max(printed["widths"]) <= sheet < max(before["widths"])
    assert page.evaluate(seen) == before
    recorded.context.close()


CUT = """all => all.filter((box) => box.checkVisibility()).flatMap((box) => {
  const frame = box.parentElement, more = box.scrollWidth > box.clientWidth + 1;
  const labelled = frame.querySelector(".sideways").checkVisibility();
  return more === labelled && getComputedStyle(box).overflowX === "auto" ? [] : [box.getAttribute("aria-label")];
})"""


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_tables_fit_or_say_that_they_scroll(browser: Any, report: Path, width: int) -> None:
    """At 1280 all of them fit; on a phone those that do not say so, and their last column can be
    reached."""
    recorded = Watched(browser, report.as_uri(), viewport={"width": width, "height": 900})
    page = recorded.page
    boxes = page.locator("#results .scroll, #curvature > .frame .scroll")
    assert boxes.count() == 2
    assert page.locator(".scroll").evaluate_all(CUT) == []
    wide = boxes.evaluate_all(
        "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    )
    assert wide == {390: 2, 768: wide, 1280: 0}[width]
    boxes.evaluate_all("all => all.forEach((one) => { one.scrollLeft = 1e6; })")
    for i in range(2):
        last = boxes.nth(i).locator("thead th").last.bounding_box()
        assert last["x"] + last["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    recorded.context.close()


def test_class_maps_have_a_true_axis(browser: Any, tmp_path: Path) -> None:
    """Rounds 1 to 5 and 100: the first five share the left end, the tip tells the round under the
    pointer."""
    run = write_run(tmp_path / "a")
    rows = [{"round": t, "classes": [0.5, 1.0]} for t in (1, 2, 3, 4, 5, 100)]
    write_rows(run, "recorded", rows)
    write_report([run], tmp_path / "report.html")
    recorded = Watched(browser, (tmp_path / "report.html").as_uri())
    chart = recorded.page.locator("#recorded figure svg.chart").last
    chart.scroll_into_view_if_needed()
    where = "all => all.map((one) => [Number(one.textContent), one.x.baseVal[0].value])"
    places = chart.locator("text.tick").evaluate_all(where)
    steps = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(places)]
    assert len(places) > 2
    assert max(steps) / min(steps) == pytest.approx(1, abs=0.01)
    image = chart.locator("image").bounding_box()
    tip = recorded.page.locator("#recorded .tip").last
    for share, round in ((0.005, 1), (0.2, 5), (0.6, 100), (0.99, 100)):
        recorded.page.mouse.move(image["x"] + share * image["width"], image["y"] + 10)
        assert tip.inner_text() == f"class 0, round {round}: 50.00 %"
    assert recorded.complaints == []
    recorded.context.close()


def test_a_heat_map_shows_gaps_and_signs(browser: Any, tmp_path: Path) -> None:
    """Cells without a value have stripes; values of both signs have a scale around 0."""
    run = write_run(tmp_path / "a")
    rows = [{"round": 1, "mine": [0.5, -2.0], "classes": [0.25, 0.5]}]
    write_rows(run, "recorded", [*rows, {"round": 2, "mine": [1.0], "classes": [0.5, 0.75]}])
    write_report([run], tmp_path / "report.html")
    recorded = Watched(browser, (tmp_path / "report.html").as_uri())
    charts = recorded.page.locator("#recorded .plot:has(image.cells)")
    assert [charts.nth(i).locator("pattern").count() for i in range(2)] == [0, 1]
    assert charts.nth(0).locator(".key").inner_text().split("\n") == ["0.00 %", "100.00 %"]
    assert charts.nth(1).locator(".key").inner_text().split("\n") == ["-2.000", "2.000"]
    assert recorded.complaints == []
    recorded.context.close()


def test_a_line_goes_through_rounds_that_were_measured(browser: Any, tmp_path: Path) -> None:
    """What is measured in every third round is one line, though something else is measured in
    all."""
    run = write_run(tmp_path / "a")
    rows: list[dict[str, Any]] = [{"round": t, "drift": 1.0 * t} for t in range(1, 11)]
    for row in rows[2::3]:
        row["client_lambda"] = {"0": 2.0, "1": 4.0}
    write_rows(run, "recorded", rows)
    write_report([run], tmp_path / "report.html")
    recorded = Watched(browser, (tmp_path / "report.html").as_uri())
    paths = recorded.page.eval_on_selector_all(
        "#recorded path.line", "all => all.map((one) => one.getAttribute('d'))"
    )
    assert [re.sub("[^ML]", "", path) for path in paths] == ["M" + 9 * "L", "MLL"]
    recorded.context.close()


def test_surfaces_say_what_they_are_drawn_along(read: Watched) -> None:
    """Filter-normalised, and how long the weights are: else they seem to contradict the
    eigenvalues."""
    output = read.page.inner_text("#surface")
    assert "Surfaces are filter-normalised" in output
    assert "Norm of the weights: fedavg() 3.000; fedsam(rho=0.1) 3.000." in output
    heads = read.page.locator("#curvature > .frame thead th").all_inner_texts()
    row = (
        read.page.locator("#curvature > .frame tbody tr").first.locator("th, td").all_inner_texts()
    )
    assert row[heads.index("λ₁‖w‖²")].split() == [f"{8 * 3.0**2:.2f}", "±", f"{0.4 * 3.0**2:.2f}"]
    assert "λ₁‖w‖²" in read.page.locator(".results thead").inner_text()


DIGITS = {
    "number": {
        0: "0",
        1: "1.000",
        0.5: "0.5000",
        12.3456: "12.35",
        1234.6: "1,235",
        0.00012346: "0.0001235",
        2e-9: "2.000·10⁻⁹",
    },
    "plain": {0: "0", 1: "1", 0.25: "0.25", 12: "12", 1e7: "10⁷"},
    "percents": {0.95: "95.00 %", 0.123456: "12.35 %"},
}


def test_the_rule_for_digits(read: Watched) -> None:
    for name, texts in DIGITS.items():
        for value, expected in texts.items():
            assert read.page.evaluate(f"{name}({value})") == expected
    output = read.page.evaluate(
        "[around(215.34, 34.12), around(0.3665, 0.01), around(10.39, 1.076)]"
    )
    assert output == ["34.1", "0.0100", "1.08"]


@pytest.mark.parametrize("width", [390, 768])
def test_nothing_is_wider_than_the_screen(browser: Any, report: Path, width: int) -> None:
    recorded = Watched(
        browser, report.as_uri(), viewport={"width": width, "height": 844}, has_touch=True
    )
    recorded.page.evaluate(
        "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
    )
    tables_are_filled(recorded.page)
    assert recorded.page.evaluate("document.documentElement.scrollWidth") <= width
    assert recorded.complaints == []
    recorded.context.close()


def test_hostile_names_are_shown_as_text(browser: Any, tmp_path: Path) -> None:
    name = '</script><img src=x onerror="window.harmed=1">\'`${harm}'
    run = write_run(tmp_path / "a", method=name)
    write_analyses(run)
    write_report([run], tmp_path / "report.html")
    recorded = Watched(browser, (tmp_path / "report.html").as_uri())
    assert recorded.page.inner_text("h1") == f"{name} on digits"
    assert recorded.page.evaluate("window.harmed") is None
    assert recorded.page.locator("img").count() == 0
    assert recorded.complaints == []
    recorded.context.close()


STRANGE = ("__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "length")


def test_names_that_objects_have_anyway(browser: Any, tmp_path: Path) -> None:
    """Methods, folders, layers, kinds, clients and what was watched may be called what every
    JavaScript object has."""
    runs = []
    for name in STRANGE:
        run = write_run(tmp_path / name, method=name)
        write_analysis(run, "curvature", {"model": name}, {"lambda_1": 2.0, "layers": {name: 2.0}})
        write_analysis(
            run, "corruptions", {"model": name}, {"clean": 0.9, "mean": 0.5, "kinds": {name: [0.5]}}
        )
        rows = [{"round": t, name: 1.0 * t, "features": {name: 2.0}} for t in (1, 2)]
        write_rows(run, "recorded", rows)
        runs.append(run)
    write_report(runs, tmp_path / "report.html")
    recorded = Watched(browser, (tmp_path / "report.html").as_uri())
    page = recorded.page
    assert [text.strip() for text in page.locator(".results tbody code").all_inner_texts()] == list(
        STRANGE
    )
    heads = page.locator("#recorded figcaption h3").all_inner_texts()
    assert set(heads) == {*STRANGE, "features"}
    for name in STRANGE:
        assert name.replace("_", " ") in page.locator("#corruptions svg.chart").first.text_content()
        assert str(tmp_path / name) in page.locator("#made").text_content()
    page.locator("details.data").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    tables_are_filled(page)
    page.locator(".legend button").first.click()
    assert "undefined" not in page.inner_text("main")
    assert recorded.complaints == []
    recorded.context.close()


def test_damaged_runs_are_drawn_or_named(browser: Any, tmp_path: Path) -> None:
    """A page of runs that are damaged in all their files, each in its own way, and a good one."""
    good = write_run(tmp_path / "good", method="fedprox()")
    bad = list(damaged_runs(tmp_path / "bad", each=False))[::4]
    write_report([good, *bad], tmp_path / "report.html")
    recorded = Watched(browser, (tmp_path / "report.html").as_uri())
    assert "fedprox()" in recorded.page.locator(".results").inner_text()
    shown = (
        recorded.page.locator("#made").text_content()
        + recorded.page.locator("#missing").text_content()
    )
    assert [run for run in bad if str(run) not in shown] == []
    problems = recorded.page.locator("#missing h3:text('Could not be read') + ul li").count()
    assert recorded.page.inner_text("#about a") == f"{problems} problems"
    assert recorded.complaints == []
    recorded.context.close()


def test_bare_and_broken_runs_have_a_page(browser: Any, tmp_path: Path) -> None:
    """No evaluation, no analysis, numbers that are none: the page says what is missing and
    complains about nothing."""
    runs = [
        write_run(tmp_path / "a", done=0, status="running"),
        write_run(tmp_path / "b", method="fedprox()", done=1),
    ]
    grid = {"x": [0.0, 1.0], "y": [0.0, 1.0], "loss": [[None, None], [None, 1.0]]}
    (runs[1] / "analysis").mkdir()
    saved = {"kind": "surface", "settings": {}, "result": grid}
    (runs[1] / "analysis" / "surface-0.json").write_text(json.dumps(saved))
    write_report(runs, tmp_path / "report.html")
    recorded = Watched(browser, (tmp_path / "report.html").as_uri())
    assert "holds no evaluation yet" in recorded.page.inner_text("#missing")
    assert recorded.complaints == []
    recorded.context.close()


@pytest.mark.slow
def test_a_large_comparison_is_drawn_with_few_elements(browser: Any, tmp_path: Path) -> None:
    """Surfaces of 51 x 51 points are canvases, tables of data are made when they are opened: what
    the page costs is what it shows."""
    runs = [
        write_run(tmp_path / str(m), method=f"fedprox(mu={m})", done=300, rounds=300)
        for m in range(10)
    ]
    for run in runs:
        write_analyses(run, points=51)
        write_recorded(run, rounds=300)
    write_report(runs, tmp_path / "report.html")
    context = browser.new_context()
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("canvas.surface").count() == 10
    assert 1_000 < page.evaluate("document.querySelectorAll('*').length") < 12_000
    context.close()


def test_live_news_keep_what_the_reader_chose(browser: Any, tmp_path: Path) -> None:
    """A page that asks for news shows them, and keeps sorting and turning as they are."""
    run = write_run(tmp_path / "a", done=4, status="running")
    other = write_run(tmp_path / "b", method="fedprox()")
    for one in (run, other):
        write_analyses(one)
    served: dict[str, bytes] = {"/": document(collect([run, other]), live=True).encode()}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = served.get(self.path) or json.dumps(collect([run, other])).encode()
            self.send_response(200)
            self.send_header(
                "Content-Type", "text/html" if self.path == "/" else "application/json"
            )
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        recorded = Watched(browser, f"http://127.0.0.1:{server.server_port}/")
        page = recorded.page
        page.locator(".results thead button").first.click()
        page.locator("canvas.surface").first.focus()
        page.keyboard.press("ArrowLeft")
        turned = page.evaluate("state.turn")
        write_rows(run, "metrics", evaluations(5, 7))
        page.locator("#made", has_text="round 7 of 10").wait_for()
        assert page.evaluate("state.turn") == turned
        assert page.locator(".results thead th").first.get_attribute("aria-sort") == "ascending"
        assert page.inner_text("#news") == "live"
        assert recorded.complaints == []
        assert {
            url.rpartition("/")[2] for url in recorded.asked if not url.startswith("data:")
        } == {
            "",
            "data.json",
        }
        recorded.context.close()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_ticks_that_lie_close_are_distinguished(browser: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    rows = [{"round": t + 1, "norms": 15.31 + 0.02 * t} for t in range(5)]
    write_rows(run, "recorded", rows)
    write_report([run], tmp_path / "report.html")
    recorded = Watched(browser, (tmp_path / "report.html").as_uri())
    ticks = recorded.page.locator("#recorded svg.chart").first.locator(
        "text[text-anchor=end]:not(.title)"
    )
    texts = ticks.all_text_contents()
    assert len(texts) > 3
    assert len(set(texts)) == len(texts)
    assert recorded.complaints == []
    recorded.context.close()


def test_there_is_no_half_a_round(browser: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    write_rows(run, "recorded", [{"round": t + 1, "norms": 15.0 + t} for t in range(5)])
    write_report([run], tmp_path / "report.html")
    recorded = Watched(
        browser, (tmp_path / "report.html").as_uri(), viewport={"width": 1400, "height": 900}
    )
    below = (
        recorded.page.locator("#recorded svg.chart")
        .first.locator("text[text-anchor=middle]")
        .all_text_contents()
    )
    assert len(below) > 3
    assert len(set(below)) == len(below)
    recorded.context.close()


def test_models_of_a_plane_are_named_beside_it(browser: Any, tmp_path: Path) -> None:
    """However long their names: letters at the dots, inside the picture, and a list below."""
    run, axis = write_run(tmp_path / "a"), [0.0, 1.0, 2.0]
    names = [
        f"fedgloss(rho_s=0.15, rho_l=0.15, beta=10, T_s={t}), seed 0: server"
        for t in (100, 150, 200)
    ]
    marks = [
        {"name": name, "x": float(i), "y": 0.0, "loss": 1.0, "error": 0.5}
        for i, name in enumerate(names)
    ]
    grid = {"x": axis, "y": axis, "loss": [[1.0, 2.0, 3000.0]] * 3, "error": [[0.5] * 3] * 3}
    write_analysis(run, "plane", {"models": names, "set": "test"}, {**grid, "points": marks})
    write_report([run], tmp_path / "report.html")
    recorded = Watched(
        browser, (tmp_path / "report.html").as_uri(), viewport={"width": 390, "height": 844}
    )
    page = recorded.page
    frame = page.locator("#plane svg.chart").bounding_box()
    letters = page.locator("#plane svg.chart text.model")
    assert letters.all_text_contents() == ["A", "B", "C"]
    for box in (letters.nth(i).bounding_box() for i in range(3)):
        assert frame["x"] <= box["x"] < box["x"] + box["width"] <= frame["x"] + frame["width"]
    assert page.locator("#plane .marks li").all_inner_texts() == [
        f"{letter} {name}: 1.000" for letter, name in zip("ABC", names, strict=True)
    ]
    assert recorded.complaints == []
    recorded.context.close()


def test_pictures_of_each_method_side_by_side(
    open_page: Callable[[list[Path]], Any], tmp_path: Path
) -> None:
    """A row for each example of the chosen test set, a column for each method that is not
    hidden."""
    runs = [
        write_headline_run(tmp_path / name, MIOU, [0.2, 0.4], method=f"{name}()")
        for name in ("fedavg", "fedsam")
    ]
    for guess, run in enumerate(runs):
        write_pictures(run, 100 + guess)
    page = open_page(runs)
    assert page.locator("#pictures thead th").all_inner_texts() == [
        "example",
        "image",
        "truth",
        "fedavg()",
        "fedsam()",
    ]
    assert page.locator("#pictures tbody th").all_inner_texts() == ["rome", "no. 9"]
    drawn = "all => all.map((one) => [one.naturalWidth, one.naturalHeight])"
    assert page.eval_on_selector_all("#pictures img", drawn) == [[8, 4]] * 8
    assert (
        page.locator("#pictures tbody small").all_inner_texts()
        == ["50.00 %"] * 2 + ["\N{EN DASH}"] * 2
    )
    assert page.locator("#pictures .colours li").all_inner_texts() == ["road", "sky"]
    page.select_option("#pictures select", "unseen")
    assert page.locator("#pictures tbody small").all_inner_texts() == ["25.00 %"] * 2
    page.locator("#pictures .legend button").first.click()
    assert page.locator("#pictures thead th").all_inner_texts()[3:] == ["fedsam()"]
    output = page.get_attribute("#styles svg[role=img]", "aria-label")
    assert output == "The styles of 3 of 30 clients in the plane, in 2 clusters."
    assert page.locator("#styles svg image").count() == 2
    assert "95.00 % of how much they differ" in page.inner_text("#styles")
    assert axe_faults(page) == []


def test_classes_that_are_taken_for_others(seen: Watched) -> None:
    """Shares of what truly is of a class; a class that does not occur has none."""
    seen.page.select_option("#confusion select >> nth=0", "unseen")
    seen.page.locator("#confusion summary").first.click()
    assert seen.page.locator("#confusion tbody tr >> nth=0").inner_text().split() == [
        "cat",
        "5",
        "5",
    ]
    assert "Most often confused: cat for dog (50.00 %)." in seen.page.inner_text("#confusion")
