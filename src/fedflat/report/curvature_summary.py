"""The curvature of each method over its seeds, for the table of results."""

from __future__ import annotations

from collections import Counter
from statistics import mean, stdev
from typing import Any

from fedflat.analysis.shown_values import short

Document = dict[str, Any]


def add_curvature(document: Document) -> None:
    """Add the largest eigenvalue and the trace of each method of a section.

    They are from the settings with which most runs of the section were analysed, on most examples.
    Their spread is the larger of two: over the seeds, and within a run over parts of the examples.
    """
    for board in document["boards"]:
        among = [one for one in document["curvature"] if one["section"] == board["title"]]
        examples = {one["settings"]: one.get("examples") or 0 for one in among}
        often = Counter(one["settings"] for one in among)
        board["curvature_of"] = max(
            examples, key=lambda text: (often[text], examples[text]), default=""
        )
    for place, method in enumerate(document["methods"]):
        settings = document["boards"][method["board"]]["curvature_of"]
        own = [
            one
            for one in document["curvature"]
            if one["method"] == place and one["settings"] == settings
        ]
        last = {one["run"]: one for one in own}.values()
        for name, found in (
            ("lambda_1", [(one.get("lambda_1"), _top_spread(one)) for one in last]),
            ("scaled", [(one.get("scaled"), _scaled_spread(one)) for one in last]),
            ("trace", [(one.get("trace", {}).get("mean"), _trace_spread(one)) for one in last]),
        ):
            numbers = [value for value, _ in found if value is not None]
            within = [off for value, off in found if value is not None and off is not None]
            spreads = [stdev(numbers)] if len(numbers) > 1 else []
            spreads += [mean(within)] if within else []
            method[name] = short(mean(numbers)) if numbers else None
            method[f"{name}_spread"] = short(max(spreads)) if spreads else None


def _top_spread(one: Document) -> float | None:
    """The standard deviation of the largest eigenvalue over parts of the examples, if they were not
    all used."""
    found: float | None = one.get("subsample", {}).get("lambda_1_spread")
    return found


def _scaled_spread(one: Document) -> float | None:
    top, norm = _top_spread(one), one.get("norm")
    return None if top is None or norm is None else top * norm * norm


def _trace_spread(one: Document) -> float | None:
    """The larger of its standard error over random vectors and its standard deviation over parts of
    the examples."""
    both = [one.get("trace", {}).get("stderr"), one.get("subsample", {}).get("trace_spread")]
    return max((value for value in both if value is not None), default=None)
