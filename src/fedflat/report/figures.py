"""Figures for papers, drawn with matplotlib: curves, densities, planes and clients. `surface_figures`,
`analysis_figures` and `place_figures` have the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fedflat.data.figures import partition_figure
from fedflat.errors import SettingError, choice
from fedflat.files import unwritable
from fedflat.plot_style import COLUMN, LEGEND, PAGE, STYLE, in_lines, legend, look, plain
from fedflat.report.analysis_figures import (
    barriers,
    corruption_bars,
    description_maps,
    eigenvalue_stems,
    file_name,
    layer_dots,
    recorded_heat_maps,
)
from fedflat.report.collect import Document
from fedflat.report.figure_style import (
    COLUMNS,
    NamedFigure,
    canvas,
    comparable,
    height_map,
    known,
    numbers,
    panels,
    plain_powers,
    title_letters,
    wide,
)
from fedflat.report.place_figures import (
    confusion_matrices,
    example_pictures,
    place_maps,
    recovered_images,
    retrieved_images,
    styled_images,
)
from fedflat.report.surface_figures import client_surfaces, surfaces, surfaces_together


def partitions(document: Document) -> Iterator[NamedFigure]:
    """Examples of each class at each client."""
    for one in document["partition"]:
        board = document["methods"][one["method"]]["board"]
        figure = partition_figure(one["counts"], one.get("names") or (), wide(PAGE))
        yield f"partition-seed{one['seed']}" + (f"-{board + 1}" if board else ""), figure


def local_global_dots(document: Document) -> Iterator[NamedFigure]:
    """The largest eigenvalue of clients' models on their own data and on everyone's data."""
    for name, items in comparable(document["local_global"]):
        figure, axis = canvas(COLUMN, 2.4)
        for one in items:
            own, everyone = (
                numbers([client[side] for client in one["clients"]]) for side in ("local", "global")
            )
            color, label = look(one["look"])["color"], in_lines(one["label"], LEGEND)
            axis.plot(own, everyone, "o", color=color, markersize=3.5, label=label)
        low, high = (end(*axis.get_xlim(), *axis.get_ylim()) for end in (min, max))
        axis.plot([low, high], [low, high], color="#999999", linewidth=0.6, zorder=0)
        axis.set(xlabel="on the client's own data", ylabel="on everyone's data")
        axis.set_title("largest eigenvalue of clients' models", loc="left")
        legend(figure)
        yield f"local-global{name}", figure


def group_maps(document: Document) -> Iterator[NamedFigure]:
    """Shares of the classes at clients in the order of their groups, and in the groups."""
    for place, one in enumerate(document["groups"]):
        if not one.get("before"):
            continue
        figure, axes = canvas(PAGE, 2.4, nrows=2, squeeze=False)
        for axis, rows, what in zip(
            axes.flat, (one["before"], one["after"]), ("client, by group", "group"), strict=True
        ):
            drawn = axis.imshow(
                _shares(rows),
                aspect="auto",
                cmap="Blues",
                vmin=0,
                vmax=100,
                interpolation="nearest",
            )
            axis.set(xlabel=what, ylabel="class")
        figure.colorbar(drawn, ax=axes, label="examples, %")
        yield "groups" + (f"-{place + 1}" if place else ""), figure


def _shares(rows: Sequence[Sequence[float]]) -> Any:
    """The share of each class in per cent, one row a class."""
    import numpy as np

    counts = np.array(rows, dtype=float)
    return 100 * (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)).T


def style_maps(document: Document) -> Iterator[NamedFigure]:
    """The styles of the clients' images along their two main directions, coloured by cluster."""
    for name, items in comparable(document["styles"]):
        figure, axes = panels(len(items), 0.8)
        for axis, one in zip(axes, items, strict=True):
            for cluster in sorted({client["cluster"] for client in one["clients"]}):
                own = [client for client in one["clients"] if client["cluster"] == cluster]
                x, y = (numbers([client[side] for client in own]) for side in ("x", "y"))
                color = look(cluster)["color"]
                axis.plot(x, y, "o", color=color, markersize=3.5, label=f"cluster {cluster}")
            axis.set(xlabel="first direction", ylabel="second direction")
        legend(figure)
        yield f"styles{name}", figure


FORMATS = ("png", "pdf", "svg")
COSTS = {"clock": ("simulated hours", 1 / 3600), "bytes": ("gigabytes sent", 1e-9)}
"""What scores are drawn against besides rounds where there is a clock, in which unit."""


def draw_figures(
    document: Document,
    folder: Path,
    formats: Sequence[str] = FORMATS,
    columns: int | None = None,
) -> list[str]:
    """Draw what there is into ``folder``; give a sentence about what could not be drawn.

    ``columns`` is how many columns of a paper every figure is wide, 1 or 2; None: as many as it
    needs.
    """
    for name in formats:
        choice("report", "format", name, FORMATS)
    try:
        import matplotlib
    except ImportError:
        return [
            "Figures need matplotlib, which is not installed: `pip install 'fedflat[figures]'` "
            "brings it."
        ]
    matplotlib.use("agg")
    from matplotlib import pyplot

    drawn = []
    COLUMNS.set(columns)
    with pyplot.rc_context(STYLE):  # type: ignore[arg-type]
        for draw in _FIGURES:
            for name, figure in draw(document):
                _save(figure, folder / name, formats)
                pyplot.close(figure)
                drawn.append(name)
    return [] if drawn else ["There was nothing to draw figures of."]


def _save(figure: Any, path: Path, formats: Sequence[str]) -> None:
    """Lay the figure out once, then write it in each format."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for name in formats:
            metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[name]
            figure.savefig(f"{path}.{name}", metadata=metadata)
    except OSError as error:
        raise unwritable(path, error) from error


def _curves(document: Document) -> Iterator[NamedFigure]:
    """Scores and losses against rounds, with a clock also against time and bytes: the mean over
    seeds, and from the least to the largest."""
    for place, board in enumerate(document["boards"]):
        headline, more = board["headline"], f"-{place + 1}" if place else ""
        title = board["title"] if len(document["boards"]) > 1 else ""
        members = [m for m in document["methods"] if m["board"] == place]
        found = dict.fromkeys(name for m in members for name in m["curves"])
        for name in (name for name in found if "/" not in name):  # domains are in tables
            label, factor = _measure(name, headline)
            there = [m for m in members if name in m["curves"]]
            file = f"{name.replace('tests.', 'test-')}{more}"
            yield file, _curve(there, name, label, factor, title=title)
            timed = [m for m in there if "clock" in m["curves"][name]]
            if (
                timed and name == headline["name"]
            ):  # then what it costs is of interest, by all measures of it
                for along, (called, scale) in COSTS.items():
                    yield (
                        f"{name}{more}-{along}",
                        _curve(timed, name, label, factor, along, called, scale, title),
                    )
        for key in dict.fromkeys(key for m in members for key in m["recorded"]):
            yield f"recorded-{file_name(key)}{more}", _recorded(document, members, key, title)


def _measure(name: str, headline: Document) -> tuple[str, float]:
    """The label and the factor of a curve."""
    if name == "loss" and name != headline["name"]:
        return "test loss", 1.0
    if name == "train_loss":
        return "training loss", 1.0
    unit = f", {headline['unit']}" if headline["unit"] else ""
    words = {
        headline["name"]: headline["label"],
        "personal": f"personal {headline['label']}",
        "clients": f"clients' {headline['label']}",
    }
    return words.get(
        name, f"{headline['label']} on {name.removeprefix('tests.')}"
    ) + unit, headline["factor"]


def _recorded(document: Document, methods: Sequence[Document], key: str, title: str) -> Any:
    """The curve of a recorded metric; of one that clients have, with a mark for each of them."""
    labels = document["recorded"][key]
    factor = 100.0 if labels["unit"] == "%" else 1.0
    named = labels["title"] + (f", {labels['unit']}" if labels["unit"] else "")
    there = [m for m in methods if key in m["recorded"]]
    figure = _curve(there, key, in_lines(named, 34), factor, title=title, field="recorded")
    if labels["entries"] == "client":
        _mark_clients(figure.axes[0], document, there, key, factor)
    return figure


def _mark_clients(
    axis: Any, document: Document, methods: Sequence[Document], key: str, factor: float
) -> None:
    for one in document["heatmaps"]:
        method = document["methods"][one["method"]]
        if one["key"] == key and any(method is other for other in methods):
            color = look(method["look"])["color"]
            for row in one["values"]:
                axis.plot(one["round"], numbers(row, factor), ".", color=color, alpha=0.35, ms=3)


def _curve(
    methods: Sequence[Document],
    measure: str,
    label: str,
    factor: float,
    along: str = "round",
    called: str = "round",
    scale: float = 1.0,
    title: str = "",
    field: str = "curves",
) -> Any:
    figure, axis = canvas(COLUMN, 2.4)
    axis.set_title(in_lines(title, LEGEND))
    for method in methods:
        curve = method[field][measure]
        x = numbers(curve[along], scale)
        band = {name: numbers(curve[name], factor) for name in ("mean", "low", "high")}
        style = look(method["look"])
        axis.plot(x, band["mean"], label=in_lines(method["name"], LEGEND), **style)
        axis.fill_between(
            x, band["low"], band["high"], color=style["color"], alpha=0.15, linewidth=0
        )
    axis.set(xlabel=called, ylabel=label if field == "recorded" else plain(label))
    if along == "round":
        axis.xaxis.get_major_locator().set_params(integer=True)
    axis.margins(x=0.01)
    _widen(axis)
    legend(figure)
    return figure


def _widen(axis: Any) -> None:
    """Give curves that are almost constant an axis with short labels."""
    low, high = axis.dataLim.intervaly
    least = 1e-2 * max(abs(low), abs(high))
    if least > 0 and high - low < least:
        axis.set_ylim(low - least, high + least)


def _densities(document: Document) -> Iterator[NamedFigure]:
    """Densities of the Hessian's eigenvalues on a logarithmic axis."""
    for name, items in comparable([one for one in document["curvature"] if "density" in one]):
        figure, axis = canvas(COLUMN, 2.8)
        top = max(value for one in items for value in known(one["density"]["y"]))
        for one in items:
            x, y = (numbers(one["density"][along]) for along in ("x", "y"))
            axis.plot(x, y, label=in_lines(one["label"], LEGEND), **look(one["look"]))
        axis.set(xlabel="eigenvalue", ylabel="density", yscale="log", ylim=(top * 1e-7, top * 2))
        plain_powers(axis.yaxis)
        legend(figure)
        yield f"density{name}", figure


def _planes(document: Document) -> Iterator[NamedFigure]:
    """Planes through models, on one scale, with the models where they lie: loss and error."""
    for measure, called in (("loss", "plane"), ("error", "plane-error")):
        there = [one for one in document["plane"] if measure in one]
        for name, items in comparable(there):
            yield f"{called}{name}", _plane(items, measure)


def _plane(items: Sequence[Document], measure: str) -> Any:
    from matplotlib.colors import BoundaryNorm

    factor = 100.0 if measure == "error" else 1.0
    low, high = (factor * end for end in _range(items, measure))
    levels = _levels(low, high) if measure == "loss" else _even_levels(low, high)
    figure, axes = panels(len(items))
    for axis, one in zip(axes, items, strict=True):
        rows = [numbers(row, factor) for row in one[measure]]
        even = BoundaryNorm(levels, 256)
        drawn = axis.contourf(one["x"], one["y"], rows, levels=levels, norm=even, cmap=height_map())
        axis.contour(one["x"], one["y"], rows, levels=levels, colors="white", linewidths=0.3)
        lettered = list(zip("ABC", one["marks"], strict=False))
        for letter, mark in lettered:
            axis.plot(
                mark["x"], mark["y"], "o", color="white", markeredgecolor="black", markersize=4
            )
            right = mark["x"] > (one["x"][0] + one["x"][-1]) / 2
            place = {
                "xytext": (-5 if right else 5, 0),
                "ha": "right" if right else "left",
                "va": "center",
            }
            at = (mark["x"], mark["y"])
            axis.annotate(
                letter, at, textcoords="offset points", color="white", weight="bold", **place
            )
        named = [f"{letter} {mark['name']}" for letter, mark in lettered]
        wide, tall = (abs(one[along][-1] - one[along][0]) for along in ("x", "y"))
        texts = [in_lines(text, title_letters(len(items))) for text in named]
        axis.set_title("\n".join(texts), loc="left", fontsize=7)
        axis.locator_params(nbins=4)
        axis.set(xlabel="parameter distance", ylabel="parameter distance")
        axis.set_aspect("equal" if 1 / 3 < wide / tall < 3 else "auto")
    label = "error, %" if measure == "error" else "loss"
    figure.colorbar(drawn, ax=axes, shrink=0.8, label=label, format="{x:.3g}")
    return figure


def _levels(low: float, high: float) -> list[float]:
    """Contours that lie closer to each other near the least loss."""
    floor = max(0.01 * low, 1e-6)
    rise = (high - low) / floor + 1
    return (
        [low + floor * (rise ** (step / 14) - 1) for step in range(15)]
        if high > low
        else [low, low + floor]
    )


def _even_levels(low: float, high: float) -> list[float]:
    """Contours at equal steps.

    >>> _even_levels(0.0, 7.0)[:3], _even_levels(2.0, 2.0)[-1]
    ([0.0, 0.5, 1.0], 3.0)
    """
    step = ((high - low) or 1.0) / 14
    return [low + step * place for place in range(15)]


def _range(items: Sequence[Document], measure: str = "loss") -> tuple[float, float]:
    values = [value for one in items for row in one[measure] for value in known(row)]
    if not values:
        raise SettingError(
            f"a surface without a single finite {measure} cannot be drawn. Analyse it again, closer by."
        )
    return min(values), max(values)


_FIGURES: tuple[Callable[[Document], Iterator[NamedFigure]], ...] = (
    _curves,
    eigenvalue_stems,
    _densities,
    surfaces,
    surfaces_together,
    client_surfaces,
    _planes,
    barriers,
    corruption_bars,
    description_maps,
    recorded_heat_maps,
    layer_dots,
    local_global_dots,
    confusion_matrices,
    group_maps,
    style_maps,
    example_pictures,
    place_maps,
    retrieved_images,
    recovered_images,
    styled_images,
    partitions,
)
