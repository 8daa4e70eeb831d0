"""Figures of confusion matrices, of pictures with their labels and predictions, and of recovered
images."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

from fedflat.plot_style import PAGE, in_lines, plain
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
