"""Figures of images: confusion matrices, predictions, recovered images, places and their queries."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from math import floor
from typing import Any

from fedflat.plot_style import COLORS, PAGE, in_lines, legend, plain
from fedflat.report.analysis_figures import file_name
from fedflat.report.collect import Document
from fedflat.report.figure_style import NamedFigure, canvas, comparable, panels, title_letters

NAMED = 30
"""Most classes whose names are drawn."""


def confusion_matrices(document: Document) -> Iterator[NamedFigure]:
    """The confusion matrix of each test set, rows in per cent of the true class."""
    import numpy as np

    for name, items in comparable(document["confusion"]):
        for where in dict.fromkeys(where for one in items for where in one["sets"]):
            there = [one for one in items if where in one["sets"]]
            figure, axes = panels(len(there), 1.1)
            for axis, one in zip(axes, there, strict=True):
                counts = np.array(one["sets"][where], dtype=float)
                shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
                drawn = axis.imshow(shares, cmap="Blues", vmin=0, vmax=100, interpolation="nearest")
                axis.set_title(in_lines(one["label"], title_letters(len(there))))
                axis.set(xlabel="predicted class", ylabel="true class")
                _class_ticks(axis, one["names"])
            figure.colorbar(drawn, ax=axes, shrink=0.7, label="share of the true class, %")
            more = "" if where == "test" else f"-{where}"
            yield f"confusion{more}{name}", figure


def _class_ticks(axis: Any, names: list[str]) -> None:
    """The names of the classes on both sides, or their numbers if there are many."""
    if len(names) > NAMED:
        return
    texts = [plain(str(name)) for name in names]
    turned = any(len(text) > 2 for text in texts)
    axis.set_xticks(range(len(texts)), texts, rotation=90 if turned else 0)
    axis.set_yticks(range(len(texts)), texts)


def example_pictures(document: Document) -> Iterator[NamedFigure]:
    """Examples: the image, its labels, and the mask that each method predicts."""
    for name, items in comparable(document["pictures"]):
        for where in dict.fromkeys(where for one in items for where in one["sets"]):
            there = [one for one in items if one["sets"].get(where)]
            examples = min(len(one["sets"][where]) for one in there)
            rows = ["image", "labels", *(one["label"] for one in there)]
            figure, axes = canvas(
                PAGE, 1.1 * len(rows), nrows=len(rows), ncols=examples, squeeze=False
            )
            for column in range(examples):
                first = there[0]["sets"][where][column]
                shown = [first["image"], first["truth"]]
                shown += [one["sets"][where][column]["mask"] for one in there]
                for axis, text, row in zip(axes[:, column], shown, rows, strict=True):
                    axis.imshow(image_of(document, text), interpolation="nearest")
                    axis.set(xticks=[], yticks=[])
                    if column == 0:
                        axis.set_ylabel(in_lines(row, 14), fontsize=7)
            more = "" if where == "test" else f"-{where}"
            yield f"pictures{more}{name}", figure


def styled_images(document: Document) -> Iterator[NamedFigure]:
    """Training images of clients, and below them the same in the styles of others, by method."""
    for name, items in comparable(document["styled"]):
        pairs = items[0]["pairs"]
        rows = ["image", *(one["label"] for one in items)]
        figure, axes = canvas(
            PAGE, 0.75 * len(rows), nrows=len(rows), ncols=len(pairs), squeeze=False
        )
        for column, pair in enumerate(pairs):
            shown = [pair["before"], *(one["pairs"][column]["after"] for one in items)]
            for axis, picture, row in zip(axes[:, column], shown, rows, strict=True):
                axis.imshow(image_of(document, picture), interpolation="nearest", cmap="gray")
                axis.set(xticks=[], yticks=[])
                if column == 0:
                    axis.set_ylabel(in_lines(row, 14), fontsize=7)
            axes[0][column].set_title(f"client {pair['client']}", fontsize=7)
        yield f"styled{name}", figure


def recovered_images(document: Document) -> Iterator[NamedFigure]:
    """Some real training images, and those that an attacker recovered from each method."""
    for name, items in comparable(document["recovery"]):
        figure, axes = panels(1 + len(items), 1.1)
        titles = ["real training images", *(one["label"] for one in items)]
        sheets = [items[0]["originals"], *(one["recovered"] for one in items)]
        for axis, title, sheet in zip(axes, titles, sheets, strict=True):
            axis.imshow(image_of(document, sheet), interpolation="nearest", cmap="gray")
            axis.set(xticks=[], yticks=[])
            axis.set_title(in_lines(title, title_letters(len(axes))))
        for axis, one in zip(axes[1:], items, strict=True):
            axis.set_xlabel(f"Fréchet distance {one['distance']:.3g}")
        yield f"recovered{name}", figure


def image_of(document: Document, picture: Any) -> Any:
    """A picture that is pasted as text, or that is named by its place in the album."""
    from matplotlib.image import imread

    text = document["album"][picture] if isinstance(picture, int) else picture
    return imread(io.BytesIO(base64.b64decode(text.partition(",")[2] or text)), format="png")


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
