"""Figures for papers."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fedflat.errors import SettingError
from fedflat.plot_style import COLORS, STYLE
from fedflat.report import collect, write_report
from fedflat.report.analysis_figures import recorded_heat_maps
from fedflat.report.figures import _curves as curve_figures
from fedflat.report.figures import _recorded as recorded_figure
from fedflat.report.figures import draw_figures
from report.test_headlines import MIOU
from report.written_runs import (
    picture,
    write_analyses,
    write_analysis,
    write_headline_run,
    write_recorded,
    write_run,
    write_timed,
)

NAMES = {
    "accuracy",
    "loss",
    "train_loss",
    "recorded-alignment",
    "recorded-drift",
    "recorded-features",
    "recorded-norms",
    "layers",
    "local-global",
    "confusion",
    "confusion-unseen",
    "eigenvalues",
    "density",
    "surface",
    "surface-together",
    "plane",
    "plane-error",
    "barrier",
    "corruptions",
    "classes",
    "partition-seed0",
}
BEGINNINGS = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


def test_every_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    runs = [write_run(tmp_path / m, method=m) for m in ("fedavg()", "a $strange_name$ method")]
    for run in runs:
        write_analyses(run, points=5)
        write_recorded(run)
    assert (
        write_report(runs, tmp_path / "report.html", figures=tmp_path / "figures", formats=["svg"])
        == []
    )
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        f"{name}.svg" for name in NAMES
    }
    assert ">a $strange_name$ method<" in (tmp_path / "figures" / "accuracy.svg").read_text()


def test_with_a_clock_scores_are_drawn_against_time_and_bytes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    document = collect(
        [write_timed(tmp_path / "a", 7.0), write_run(tmp_path / "b", method="fedsam()")]
    )
    assert draw_figures(document, tmp_path / "figures", ["svg"]) == []
    made = {path.stem: path.read_text() for path in (tmp_path / "figures").iterdir()}
    costs = {"accuracy-clock", "accuracy-bytes"}
    assert made.keys() == {"accuracy", "loss", "train_loss"} | costs
    assert "simulated hours" in made["accuracy-clock"]
    assert "gigabytes sent" in made["accuracy-bytes"]


def test_long_names_are_whole(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    name = "fedseq(groups=greedy(psi=confidence(epochs=2), d_min=5000, k_max=10)) + sam(rho=0.05)"
    assert (
        draw_figures(
            collect([write_run(tmp_path / "a", method=name)]), tmp_path / "figures", ["svg"]
        )
        == []
    )
    lines = re.findall(r">([^<>]+)</text>", (tmp_path / "figures" / "accuracy.svg").read_text())
    assert name in html.unescape(" ".join(lines))
    assert max(map(len, lines)) <= 46  # what fits into a column


def test_every_format(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert draw_figures(collect([write_run(tmp_path / "a")]), tmp_path / "figures") == []
    made = list((tmp_path / "figures").iterdir())
    assert {path.name for path in made} == {
        f"{name}.{kind}" for name in ("accuracy", "loss", "train_loss") for kind in BEGINNINGS
    }
    assert all(path.read_bytes().startswith(BEGINNINGS[path.suffix[1:]]) for path in made)


def test_nothing_to_draw(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    bare = collect([write_run(tmp_path / "b", done=0)])
    assert draw_figures(bare, tmp_path / "none", ["svg"]) == [
        "There was nothing to draw figures of."
    ]


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    [output] = draw_figures(collect([write_run(tmp_path / "a")]), tmp_path / "figures")
    assert "pip install 'fedflat[figures]'" in output


def test_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="format must be 'png' or 'pdf' or 'svg', found 'gif'"):
        draw_figures(collect([write_run(tmp_path / "a")]), tmp_path / "figures", ["gif"])


def test_widths_fonts_and_colours(tmp_path: Path) -> None:
    """A figure is one or two columns wide, no text is smaller than 7 points, and a method has one
    colour in all sections, also if it is not the first one everywhere."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    runs = [
        write_run(tmp_path / "a", method="fedavg()"),
        write_run(tmp_path / "b", method="fedsam()"),
        write_run(tmp_path / "c", method="fedsam()", on="digits(lda(0), clients=7)"),
    ]
    curves = collect(runs)
    write_analyses(runs[0], points=5)
    for columns, points, document in ((1, 3.25 * 72, collect(runs[:1])), (2, 6.75 * 72, curves)):
        folder = tmp_path / str(columns)
        assert draw_figures(document, folder, ["svg"], columns) == []
        for path in folder.iterdir():
            text = path.read_text()
            assert f'width="{points:g}pt"' in text, path
            sizes = re.findall(r"font(?:-size)?: ?([\d.]+)px", text)
            assert min(map(float, sizes)) >= 7, path
    lines = [re.findall(r"stroke: (#\w+)", (folder / name).read_text()) for name in FEDSAM]
    assert COLORS[1] in lines[0]
    assert COLORS[1] in lines[1]
    assert COLORS[0] not in lines[1]


FEDSAM = ("accuracy.svg", "accuracy-2.svg")
"""The figures of two sections with the same method."""


def test_clients_are_marked_beside_the_mean() -> None:
    curve = {"round": [2, 4], "mean": [2.0, 3.0], "low": [2.0, 3.0], "high": [2.0, 3.0]}
    methods = [{"name": name, "look": 0, "recorded": {"lam": curve}} for name in ("a", "b")]
    labels = {"title": "lambda", "unit": "", "entries": "client"}
    values = [[1.0, None], [3.0, 3.0]]
    maps = [{"key": "lam", "method": 1, "round": [2, 4], "values": values}]
    document = {"recorded": {"lam": labels}, "methods": methods, "heatmaps": maps}
    axis = recorded_figure(document, methods[1:], "lam", "").axes[0]
    assert [line.get_marker() for line in axis.lines] == ["None", ".", "."]
    assert [line.get_ydata()[0] for line in axis.lines] == [2.0, 1.0, 3.0]
    assert all(tick == round(tick) for tick in axis.get_xticks())
    labels["entries"] = "class"
    assert len(recorded_figure(document, methods, "lam", "").axes[0].lines) == 2


def test_cells_without_a_value_have_stripes_and_signs_have_two_colours() -> None:
    """0 is in the middle of the colours where there are values of both signs."""
    document: dict[str, Any] = {"recorded": {}, "heatmaps": []}
    for key, values in (("both", [[-0.5, None], [0.25, 0.0]]), ("one", [[1.0, 2.0]])):
        document["recorded"][key] = {"title": key, "unit": "", "entries": "client"}
        document["heatmaps"].append(
            {"key": key, "label": "fedavg()", "round": [1, 2], "rows": ["0", "1"][: len(values)],
             "values": values, "section": "", "settings": "", "seed": 0}
        )  # fmt: skip
    figures = dict(recorded_heat_maps(document))
    cells = {key: figure.axes[0].collections[0] for key, figure in figures.items()}
    assert {key: one.get_clim() for key, one in cells.items()} == {
        "both": (-0.5, 0.5),
        "one": (1.0, 2.0),
    }
    assert cells["both"].cmap(0.5)[:3] == pytest.approx(cells["one"].cmap(0.0)[:3], abs=0.01)
    assert cells["both"].get_array().mask.tolist() == [[False, True], [False, False]]
    assert figures["both"].axes[0].patch.get_hatch()


def test_maps_of_places_and_recovered_images(tmp_path: Path) -> None:
    """One map for each area of a test set, the queries with what they retrieve, one sheet each."""
    run = write_run(tmp_path / "a")
    example = {"area": "b", "right": False, "possible": True, "metres": 90_000.0}
    queries = [
        {"area": "a", "x": 0.0, "y": 1.0, "right": True, "possible": True, "metres": 2.0},
        {"area": "a", "x": 5.0, "y": 1.0, "right": False, "possible": False, "metres": 40.0},
        {"x": 9.0, "y": 1.0, **example},
    ]
    found = {
        "queries": queries,
        "database": [{"area": "a", "x": 1.0, "y": 1.0}, {"area": "b", "x": 9.0, "y": 3.0}],
        "examples": [
            {"x": 9.0, "y": 1.0, **example, "query": picture(1), "found": picture(2)},
        ],
        "recall": [0.5, 0.5, 0.5],
        "without_positive": 1,
    }
    clients = [{"client": 0, "images": 1, "points": [["a", 2.0, 2.0]]}]
    write_analysis(
        run, "places", {"model": "server"}, {"sets": {"test": found}, "clients": clients}
    )
    recovery = {"client": 3, "requests": 5, "real": 9, "made": 9, "features": "a network"}
    recovery |= {"distance": 60.81, "test": 1.0, "untrained": 100.0}
    recovery |= {"originals": picture(1), "recovered": picture(2)}
    write_analysis(run, "recovery", {"model": "server"}, recovery)
    write_report([run], tmp_path / "r.html", figures=tmp_path / "figures", formats=["svg"])
    texts = {path.stem: path.read_text() for path in (tmp_path / "figures").iterdir()}
    assert {"places-a", "places-b", "places-examples", "recovered"} <= set(texts)
    assert {name for name in texts if ">no image in the radius<" in texts[name]} == {"places-a"}
    assert {name for name in texts if ">wrong<" in texts[name]} == {"places-b"}
    assert ">another area<" in texts["places-examples"]
    assert ">Fréchet distance 60.8<" in texts["recovered"]


def test_a_constant_curve_has_short_numbers(tmp_path: Path) -> None:
    score = 1 / 24
    run = write_headline_run(tmp_path / "a", MIOU, [score, score + 1e-9])
    write_report([run], tmp_path / "r.html", figures=tmp_path / "figures", formats=["svg"])
    drawn = (tmp_path / "figures" / "miou.svg").read_text()
    ticks = re.findall(r">(\d\.\d+)<", drawn)
    assert ticks
    assert all(len(tick) <= len("4.125") for tick in ticks)


def test_a_long_legend_leaves_the_axes_their_height(tmp_path: Path) -> None:
    plots = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    runs = [write_run(tmp_path / str(i), method=f"fedprox(mu=0.{i})") for i in range(1, 9)]
    heights = []
    for own in (runs[:2], runs):
        with plots.rc_context(STYLE):
            _, figure = next(curve_figures(collect(own)))
            figure.canvas.draw()
            plots.close(figure)
        assert figure.get_figwidth() == 3.25
        heights.append(figure.axes[0].get_position().height * figure.get_figheight())
        assert len(figure.legends[0].get_texts()) == len(own)
    assert heights[1] >= 0.9 * heights[0]
