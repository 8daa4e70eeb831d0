"""Figures of place recognition: maps of the queries, and queries beside the images they
retrieve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor
from typing import Any

from fedflat.plot_style import COLORS, PAGE, in_lines, legend
from fedflat.report.analysis_figures import file_name
from fedflat.report.collect import Document
from fedflat.report.figure_style import NamedFigure, canvas, comparable, panels, title_letters
from fedflat.report.picture_figures import image_of

RIGHT, WRONG, DATABASE = COLORS[2], COLORS[1], "0.6"
CLIENTS = tuple(color for color in COLORS if color != "#5d5d5d")
"""Colours of clients: all but the grey, which is the database's."""
ANOTHER_AREA = 50_000
"""Metres. Areas are further from each other than this, and none is as wide."""


def place_maps(document: Document) -> Iterator[NamedFigure]:
    """The queries of each area, right or wrong, with the database and the clients' images."""
    for where, name, items in _by_test_set(document):
        found = [query["area"] for one in items for query in one["sets"][where]["queries"]]
        areas = list(dict.fromkeys(found))
        for area in areas:
            origin = _origin(items, where, area)
            figure, axes = panels(len(items), 1.1)
            for axis, one in zip(axes, items, strict=True):
                _map(axis, one, where, area, origin)
                axis.set_title(in_lines(one["label"], title_letters(len(items))))
            legend(figure)
            more = f"-{file_name(area)}" if len(areas) > 1 else ""
            yield f"places{_ending(where)}{more}{name}", figure


def retrieved_images(document: Document) -> Iterator[NamedFigure]:
    """A row for each method with its queries, and below each the nearest image."""
    for where, name, items in _by_test_set(document):
        there = [one for one in items if one["sets"][where]["examples"]]
        if not there:
            continue
        columns = max(len(one["sets"][where]["examples"]) for one in there)
        figure, axes = canvas(
            PAGE, 1.7 * len(there), nrows=2 * len(there), ncols=columns, squeeze=False
        )
        for axis in axes.flat:
            axis.set_axis_off()
        for row, one in enumerate(there):
            for column, example in enumerate(one["sets"][where]["examples"]):
                answer = f"{'right' if example['right'] else 'wrong'},\n{_away(example['metres'])}"
                _picture(axes[2 * row][column], document, example["query"], answer)
                _picture(axes[2 * row + 1][column], document, example["found"], "")
            label = in_lines(one["label"], 14)
            _row_label(axes[2 * row][0], f"{label}\nquery")
            _row_label(axes[2 * row + 1][0], "nearest")
        yield f"places-examples{_ending(where)}{name}", figure


def _by_test_set(document: Document) -> Iterator[tuple[str, str, Sequence[Document]]]:
    for name, items in comparable(document["places"]):
        for where in dict.fromkeys(where for one in items for where in one["sets"]):
            yield where, name, [one for one in items if where in one["sets"]]


def _origin(items: Sequence[Document], where: str, area: str) -> tuple[float, float]:
    """The most western and the most southern of the queries of an area, in whole metres."""
    queries = [
        query for one in items for query in one["sets"][where]["queries"] if query["area"] == area
    ]
    return floor(min(query["x"] for query in queries)), floor(min(query["y"] for query in queries))


def _map(axis: Any, one: Document, where: str, area: str, origin: tuple[float, float]) -> None:
    found = one["sets"][where]
    near = [query for query in found["queries"] if query["area"] == area]
    label = "clients, a colour each"
    for client in one["clients"]:
        points = [point[1:] for point in client["points"] if point[0] == area]
        color = CLIENTS[client["client"] % len(CLIENTS)]
        _dots(axis, points, origin, marker=".", ms=2, color=color, alpha=0.5, label=label)
        label = "" if points else label
    database = [point[1:] for point in found["database"] if point[0] == area]
    _dots(axis, database, origin, marker=".", ms=3, color=DATABASE, label="database")
    for label, style, queries in (
        ("right", {"color": RIGHT, "marker": "o"}, _those(near, True, True)),
        ("wrong", {"color": WRONG, "marker": "x"}, _those(near, True, False)),
        (
            "no image in the radius",
            {"color": RIGHT, "marker": "o", "fillstyle": "none"},
            _those(near, False, False),
        ),
    ):
        _dots(axis, queries, origin, ms=4.5, label=label, **style)
    axis.set_aspect("equal")
    axis.set(xlabel="east, m", ylabel="north, m")
    axis.locator_params(nbins=4)


def _those(queries: Sequence[Document], possible: bool, right: bool) -> list[tuple[float, float]]:
    return [
        (query["x"], query["y"])
        for query in queries
        if query["possible"] == possible and (query["right"] == right or not possible)
    ]


def _dots(
    axis: Any, points: Sequence[Sequence[float]], origin: tuple[float, float], **options: Any
) -> None:
    if points:
        x, y = zip(*points, strict=True)
        east, north = ([value - at for value in xs] for xs, at in zip((x, y), origin, strict=True))
        axis.plot(east, north, linestyle="none", **options)


def _picture(axis: Any, document: Document, picture: Any, title: str) -> None:
    axis.imshow(image_of(document, picture), interpolation="nearest")
    axis.set_title(title, fontsize=7)


def _row_label(axis: Any, text: str) -> None:
    axis.annotate(
        text,
        (0, 0.5),
        (-4, 0),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=7,
    )


def _away(metres: float) -> str:
    return "another area" if metres > ANOTHER_AREA else f"{metres:.3g} m"


def _ending(where: str) -> str:
    return "" if where == "test" else f"-{where}"
