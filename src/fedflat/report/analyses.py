"""The analyses of a run, checked and cut down to what the page shows.

Each kind of analysis has a function here that takes its result apart. What does not fit is
`Damaged`, and the caller says which file it was; numbers that are not finite become None and are
drawn as gaps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedflat.core.json_schema import check
from fedflat.files import Damaged
from fedflat.report.series import short, thinned

SIDE = 61
"""Most points on a side of a surface."""
CURVE = 400
"""Most points of a density or an interpolation."""
Result = dict[str, Any]


class Unusable(ValueError):
    """An analysis that is whole but cannot be shown."""


@dataclass(frozen=True)
class Analysis:
    """One finished analysis of one run."""

    kind: str
    model: str
    """Which model was looked at, empty if that is not a question."""
    settings: str
    """The other settings for people; equal texts mean comparable results."""
    result: Result


def checked(saved: dict[str, Any]) -> Analysis:
    """The analysis a file holds."""
    kind, settings = saved["kind"], dict(saved["settings"])
    if kind not in _TAKE_APART:
        raise Unusable(f"this version does not know analyses of the kind {kind!r}.")
    check(settings, _SETTINGS, "settings")
    model = settings.pop("model", "")
    for name in ("models", "a", "b"):  # the result names them
        settings.pop(name, None)
    return Analysis(
        kind, model, _said(settings), _TAKE_APART[kind](saved["result"], saved["settings"])
    )


def _said(settings: dict[str, Any]) -> str:
    """Settings for people; what is off or zero goes without saying.

    >>> _said({"set": "test", "examples": 500, "of": 10000, "seed": 0, "power": True, "probes": 0, "method": "hutch++"})
    '500 of 10,000 test examples, power'
    >>> _said({"set": "client:3", "examples": None, "of": 40, "models": ["a", "b"], "span": 1.0})
    'all 40 examples of client:3, models a+b, span 1.0'
    """
    rest = {name: value for name, value in settings.items() if value not in (None, False, 0)}
    if not rest.get("probes"):
        rest.pop("method", None)
    parts = []
    if "set" in rest and "of" in rest:
        where, whole, used = str(rest.pop("set")), rest.pop("of"), rest.pop("examples", None)
        count = f"all {whole:,}" if used is None else f"{used:,} of {whole:,}"
        parts.append(
            f"{count} examples of {where}" if ":" in where else f"{count} {where} examples"
        )
    for name, value in rest.items():
        text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
        parts.append(name if value is True else f"{name} {text}")
    return ", ".join(parts)


def _numbers(values: list[Any]) -> list[float | None]:
    return [short(value) for value in values]


def _same_length(*columns: list[Any]) -> None:
    if len({len(column) for column in columns}) != 1:
        raise Damaged(
            f"columns of lengths {', '.join(str(len(column)) for column in columns)} should be equal"
        )


def _table(columns: dict[str, Any], limit: int = CURVE) -> Result:
    """Columns of one length, thinned together."""
    read = {name: _numbers(values) for name, values in columns.items()}
    _same_length(*read.values())
    kept = thinned(len(next(iter(read.values()))), limit)
    return {name: [values[i] for i in kept] for name, values in read.items()}


def _curvature(result: Result, settings: Result) -> Result:
    found: Result = {
        name: short(result[name])
        for name in ("loss", "norm", "lambda_1", "ratio")
        if name in result
    }
    found |= {
        name: _numbers(result[name])
        for name in ("eigenvalues", "residuals", "power")
        if name in result
    }
    if found.get("lambda_1") is None and found.get("eigenvalues"):
        found["lambda_1"] = found["eigenvalues"][0]
    if found.get("lambda_1") is not None and found.get("norm") is not None:
        found["scaled"] = short(found["lambda_1"] * found["norm"] * found["norm"])
    for name in ("examples", "of"):
        if name in result:
            found[name] = result[name]
    for name in ("trace", "sharpness", "subsample"):
        if isinstance(result.get(name), dict):
            found[name] = {
                key: short(value) for key, value in result[name].items() if short(value) is not None
            }
    if "density" in result:
        found["density"] = _table({name: result["density"][name] for name in ("x", "y")})
    if "layers" in result:
        found["layers"] = {str(name): short(value) for name, value in result["layers"].items()}
    return found


def _grid(result: Result) -> Result:
    """Axes and values, every so many of them if there are more than can be seen."""
    x, y = _numbers(result["x"]), _numbers(result["y"])
    if not x or not y:
        raise Damaged("it has no points")
    columns, rows = thinned(len(x), SIDE), thinned(len(y), SIDE)
    found: Result = {
        "x": [x[i] for i in columns],
        "y": [y[i] for i in rows],
        "points": [len(x), len(y)],
    }
    for name in ("loss", "error"):
        if result.get(name) is None:
            continue
        values = result[name]
        _same_length(y, values)
        for row in values:
            _same_length(x, row)
        found[name] = [[short(values[j][i], 4) for i in columns] for j in rows]
    if "loss" not in found and "error" not in found:
        raise Damaged("it has neither loss nor error")
    return found


def _surface(result: Result, settings: Result) -> Result:
    center = {name: short(value) for name, value in result.get("center", {}).items()}
    return {**_grid(result), "center": center, "length": short(result.get("length"))}


def _plane(result: Result, settings: Result) -> Result:
    points = [
        {
            "name": str(point["name"]),
            **{key: short(point.get(key)) for key in ("x", "y", "loss", "error")},
        }
        for point in result.get("points", [])
    ]
    models = settings.get("models")
    return {
        **_grid(result),
        "marks": points,
        "models": list(map(str, models)) if isinstance(models, list) else [],
    }


def _interpolate(result: Result, settings: Result) -> Result:
    """Losses from the model ``b``, at gamma = 0, to the model ``a``, at gamma = 1, and beyond
    both."""
    named = {"gamma": result["gamma"]}
    named |= {name: result[name] for name in ("loss", "error") if result.get(name) is not None}
    ends = {name: str(settings.get(name, name)) for name in ("a", "b")}
    return {**_table(named), **ends, "barrier": short(result.get("barrier"))}


def _local_global(result: Result, settings: Result) -> Result:
    clients = [
        {
            "client": str(one["client"]),
            "local": short(one.get("local")),
            "global": short(one.get("global")),
        }
        for one in result["clients"]
    ]
    return {
        "round": short(result.get("round")),
        "clients": clients,
        "local": short(result.get("local")),
        "global": short(result.get("global")),
    }


def _corruptions(result: Result, settings: Result) -> Result:
    kinds = {str(name): _numbers(values) for name, values in result["kinds"].items()}
    means = {name: short(result.get(name)) for name in ("clean", "mean")}
    return {**means, "kinds": kinds, "source": str(result.get("source", ""))}


def _partition(result: Result, settings: Result) -> Result:
    counts = [_numbers(row) for row in result["counts"]]
    if not counts or not counts[0]:
        raise Damaged("it has no clients")
    _same_length(*counts)
    return {"counts": counts, "clients": result.get("clients", len(counts)), "shown": len(counts)}


def _png(text: str) -> str:
    """The letters of a PNG file, and nothing else."""
    if not text.startswith("iVBORw0KGgo") or not re.fullmatch("[A-Za-z0-9+/]+={0,2}", text):
        raise Damaged("a picture is no PNG file")
    return text


def _pictures(result: Result, settings: Result) -> Result:
    sets = {
        str(where): [
            {
                "place": one["place"],
                "score": short(one.get("score")),
                "domain": str(one.get("domain", "")),
            }
            | {name: _png(one[name]) for name in ("image", "truth", "mask")}
            for one in some
        ]
        for where, some in result["sets"].items()
    }
    if not sets or any(
        len(colour) != 3 or not all(0 <= part < 256 for part in colour)
        for colour in result["colours"]
    ):
        raise Damaged("it has no pictures, or colours that are none")
    return {"names": result["names"], "colours": result["colours"], "sets": sets}


def _confusion(result: Result, settings: Result) -> Result:
    for matrix in result["sets"].values():
        _same_length(result["names"], matrix, *matrix)
    if not result["sets"]:
        raise Damaged("it has no test set")
    return {"names": result["names"], "sets": result["sets"]}


def _styles(result: Result, settings: Result) -> Result:
    clients = [
        {
            "client": one["client"],
            "x": short(one["x"]),
            "y": short(one["y"]),
            "cluster": one["cluster"],
            "domain": str(one.get("domain", "")),
            "image": _png(one["image"]) if one.get("image") else None,
        }
        for one in result["clients"]
    ]
    if not clients:
        raise Damaged("it has no clients")
    shares = [short(share, 3) for share in result["shares"][:2]]
    return {
        "clients": clients,
        "shares": shares,
        "silhouette": short(result.get("silhouette"), 3),
        "groups": result.get("groups"),
        "of": result.get("of", len(clients)),
        "aspect": short(result.get("aspect")) or 1.0,
    }


def _recovery(result: Result, settings: Result) -> Result:
    numbers = {
        name: short(result.get(name)) for name in ("distance", "test", "untrained", "accuracy")
    }
    told = {name: result[name] for name in ("client", "visits", "real", "made")}
    pictures = {name: _png(result[name]) for name in ("recovered", "originals")}
    return {**numbers, **told, **pictures, "features": str(result["features"])}


_SETTINGS = {
    "model?": str,
    "set?": str,
    "of?": int,
    "examples?": (int, None),
    "a?": str,
    "b?": str,
    "probes?": int,
    "*": object,
}
_TAKE_APART: dict[str, Callable[[Result, Result], Result]] = {
    "curvature": _curvature,
    "surface": _surface,
    "plane": _plane,
    "interpolate": _interpolate,
    "local_global": _local_global,
    "corruptions": _corruptions,
    "partition": _partition,
    "pictures": _pictures,
    "confusion": _confusion,
    "styles": _styles,
    "recovery": _recovery,
}
