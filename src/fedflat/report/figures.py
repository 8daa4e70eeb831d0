"""Figures for papers, drawn with matplotlib: curves, densities, surfaces, planes, and who holds
which classes.

Widths are those of a column (3.3 inches) or of a page (6.9 inches); text stays text in PDF and SVG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from fedflat.errors import SettingError, choice
from fedflat.files import unwritable
from fedflat.report.collect import Document

FORMATS = ("png", "pdf", "svg")
COLUMN, PAGE = 3.3, 6.9
LEGEND, TITLE = 46, 26
"""Letters in a line of a legend a column wide, and of the title of one of four panels."""
COLORS = (
    "#0067a5",
    "#c44d00",
    "#007f5b",
    "#a0468a",
    "#85690a",
    "#2584b8",
    "#5d5d5d",
    "#7a3b0c",
    "#4b4bb5",
    "#b0063f",
)
DASHES = (
    "-",
    "--",
    ":",
    "-.",
    (0, (1, 3)),
    (0, (8, 2)),
    (0, (4, 1, 1, 1)),
    (0, (2, 4)),
    (0, (6, 1)),
    (0, (3, 1)),
)
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "savefig.dpi": 300,
    "axes.formatter.useoffset": False,
    "svg.hashsalt": "fedflat",  # drawn twice, the same bytes
}
COSTS = {"clock": ("simulated hours", 1 / 3600), "bytes": ("gigabytes sent", 1e-9)}
"""What scores are drawn against besides rounds where there is a clock, in which unit."""
Drawn = tuple[str, Any]
"""A name, and the figure of that name."""


def draw_figures(document: Document, folder: Path, formats: Sequence[str] = FORMATS) -> list[str]:
    """Draw what there is into ``folder``; give a sentence about what could not be drawn."""
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


def _canvas(width: float, height: float, **options: Any) -> tuple[Any, Any]:
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(width, height), layout="constrained", **options)


def _panels(count: int, **options: Any) -> tuple[Any, list[Any]]:
    """A page wide of equal squares, at most four in a row."""
    columns = min(count, 4)
    rows = -(-count // columns)
    height = rows * PAGE / max(columns, 2)
    figure, axes = _canvas(
        PAGE, height, nrows=rows, ncols=columns, squeeze=False, subplot_kw=options
    )
    for unused in axes.flat[count:]:
        unused.remove()
    return figure, list(axes.flat[:count])


def _legend(figure: Any) -> None:
    figure.legend(loc="outside upper left", ncols=1)


def _plain(text: str) -> str:
    """Text that matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def _lines(text: str, letters: int) -> str:
    """The same in lines of at most so many letters."""
    return _plain("\n".join(wrap(text, letters)))


def _look(place: int) -> dict[str, Any]:
    """A colour and a dash; a hundred methods differ, since the dash moves on when the colours
    repeat."""
    return {
        "color": COLORS[place % len(COLORS)],
        "linestyle": DASHES[(place + place // len(COLORS)) % len(DASHES)],
    }


def _numbers(values: Sequence[float | None], factor: float = 1.0) -> list[float]:
    return [float("nan") if value is None else factor * value for value in values]


def _curves(document: Document) -> Iterator[Drawn]:
    """The headlines and losses against rounds, with a clock also against time and bytes: the mean
    over seeds, and from the least to the largest."""
    for place, board in enumerate(document["boards"]):
        judged, more = board["headline"], f"-{place + 1}" if place else ""
        score_label = f"{judged['label']}, {judged['unit']}" if judged["unit"] else judged["label"]
        for name, (label, factor) in {
            "loss": ("test loss", 1.0),
            judged["name"]: (score_label, judged["factor"]),
        }.items():
            there = [
                (i, m)
                for i, m in enumerate(document["methods"])
                if m["board"] == place and name in m["curves"]
            ]
            title = board["title"] if len(document["boards"]) > 1 else ""
            if there:
                yield f"{name}{more}", _curve(there, name, label, factor, title=title)
            timed = [(i, m) for i, m in there if "clock" in m["curves"][name]]
            if (
                timed and name == judged["name"]
            ):  # then what it costs is of interest, by all measures of it
                for along, (called, scale) in COSTS.items():
                    yield (
                        f"{name}{more}-{along}",
                        _curve(timed, name, label, factor, along, called, scale, title),
                    )


def _curve(
    methods: Sequence[tuple[int, Document]],
    measure: str,
    label: str,
    factor: float,
    along: str = "round",
    called: str = "round",
    scale: float = 1.0,
    title: str = "",
) -> Any:
    figure, axis = _canvas(COLUMN, 2.8)
    axis.set_title(_lines(title, LEGEND))
    for place, method in methods:
        curve = method["curves"][measure]
        x = _numbers(curve[along], scale)
        band = {name: _numbers(curve[name], factor) for name in ("mean", "low", "high")}
        axis.plot(x, band["mean"], label=_lines(method["name"], LEGEND), **_look(place))
        axis.fill_between(
            x, band["low"], band["high"], color=_look(place)["color"], alpha=0.15, linewidth=0
        )
    axis.set(xlabel=called, ylabel=_plain(label))
    _legend(figure)
    return figure


def _densities(document: Document) -> Iterator[Drawn]:
    """Densities of the Hessian's eigenvalues on a logarithmic axis."""
    for name, items in _comparable([one for one in document["curvature"] if "density" in one]):
        figure, axis = _canvas(COLUMN, 2.8)
        top = max(value for one in items for value in _known(one["density"]["y"]))
        for one in items:
            x, y = (_numbers(one["density"][along]) for along in ("x", "y"))
            axis.plot(x, y, label=_lines(one["label"], LEGEND), **_look(one["method"]))
        axis.set(xlabel="eigenvalue", ylabel="density", yscale="log", ylim=(top * 1e-7, top * 2))
        _legend(figure)
        yield f"density{name}", figure


def _surfaces(document: Document) -> Iterator[Drawn]:
    """Surfaces side by side, on one scale."""
    import numpy as np

    for name, items in _comparable([one for one in document["surface"] if "loss" in one]):
        low, high = _range(items)
        figure, axes = _panels(len(items), projection="3d")
        for axis, one in zip(axes, items, strict=True):
            far, called = (
                (one["length"], "distance")
                if one["length"]
                else (1.0, "distance / length of the weights")
            )
            x, y = np.meshgrid(_numbers(one["x"], far), _numbers(one["y"], far))
            z = np.array([_numbers(row) for row in one["loss"]])
            axis.plot_surface(
                x, y, z, cmap="viridis", vmin=low, vmax=high, linewidth=0.1, edgecolor="#00000033"
            )
            axis.set(
                title=_lines(one["label"], TITLE), zlim=(low, high), xlabel=called, ylabel=called
            )
        yield f"surface{name}", figure


def _planes(document: Document) -> Iterator[Drawn]:
    """Planes through models, on one scale, with the models where they lie."""
    from matplotlib.colors import BoundaryNorm

    for name, items in _comparable([one for one in document["plane"] if "loss" in one]):
        low, high = _range(items)
        figure, axes = _panels(len(items))
        for axis, one in zip(axes, items, strict=True):
            rows = [_numbers(row) for row in one["loss"]]
            levels = _levels(low, high)
            even = BoundaryNorm(levels, 256)
            drawn = axis.contourf(
                one["x"], one["y"], rows, levels=levels, norm=even, cmap="viridis"
            )
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
            axis.set_title(_plain("\n".join(named)), loc="left", fontsize=6)
            axis.set(xlabel="parameter distance", ylabel="parameter distance")
            axis.set_aspect("equal" if 1 / 3 < wide / tall < 3 else "auto")
        figure.colorbar(drawn, ax=axes, shrink=0.8, label="loss", format="{x:.3g}")
        yield f"plane{name}", figure


def _levels(low: float, high: float) -> list[float]:
    """Contours that lie closer to each other near the least loss."""
    floor = max(0.01 * low, 1e-6)
    rise = (high - low) / floor + 1
    return (
        [low + floor * (rise ** (step / 14) - 1) for step in range(15)]
        if high > low
        else [low, low + floor]
    )


def _partitions(document: Document) -> Iterator[Drawn]:
    """Examples of each class at each client."""
    import numpy as np

    for one in document["partition"]:
        board = document["methods"][one["method"]]["board"]
        figure, axis = _canvas(PAGE, 2.0)
        counts = np.array(one["counts"], dtype=float).T
        drawn = axis.imshow(counts, aspect="auto", cmap="Blues", interpolation="nearest")
        axis.set(xlabel="client", ylabel="class")
        figure.colorbar(drawn, ax=axis, label="examples")
        yield f"partition-seed{one['seed']}" + (f"-{board + 1}" if board else ""), figure


def _comparable(items: Sequence[Document]) -> Iterator[tuple[str, list[Document]]]:
    """Analyses of one section with equal settings and seeds; the first such group has no name of
    its own."""
    groups: dict[tuple[str, str, int], list[Document]] = {}
    for one in items:
        groups.setdefault((one["section"], one["settings"], one["seed"]), []).append(one)
    for place, group in enumerate(groups.values()):
        yield f"-{place + 1}" if place else "", group


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _range(items: Sequence[Document]) -> tuple[float, float]:
    values = [value for one in items for row in one["loss"] for value in _known(row)]
    if not values:
        raise SettingError(
            "a surface without a single finite loss cannot be drawn. Analyse it again, closer by."
        )
    return min(values), max(values)


_FIGURES: tuple[Callable[[Document], Iterator[Drawn]], ...] = (
    _curves,
    _densities,
    _surfaces,
    _planes,
    _partitions,
)
