"""JSON schemas of the results of each kind of analysis, and of partial results."""

from __future__ import annotations

from fedflat.core.json_schema import NUMBER, Schema

_SOME = {"*": object}
_TABLE = ([[NUMBER]], None)
_GRID = {"x": [NUMBER], "y": [NUMBER], "loss?": _TABLE, "error?": _TABLE, "*": object}
_POINT = {"name": str, "x?": NUMBER, "y?": NUMBER, "loss?": NUMBER, "error?": NUMBER, "*": object}
_PICTURE = {
    "place": int,
    "image": str,
    "truth": str,
    "mask": str,
    "score?": NUMBER,
    "domain?": str,
    "*": object,
}
_STYLE = {
    "client": int,
    "x": NUMBER,
    "y": NUMBER,
    "cluster": int,
    "domain?": str,
    "image?": (str, None),
    "*": object,
}
_CLIENT = {"client": (int, str), "local?": NUMBER, "global?": NUMBER, "*": object}

RESULTS: dict[str, Schema] = {
    "curvature": {
        "loss?": NUMBER,
        "norm?": NUMBER,
        "lambda_1?": NUMBER,
        "ratio?": NUMBER,
        "eigenvalues?": [NUMBER],
        "residuals?": [NUMBER],
        "power?": [NUMBER],
        "examples?": int,
        "of?": int,
        "trace?": {"mean?": NUMBER, "stderr?": NUMBER, "*": object},
        "sharpness?": _SOME,
        "subsample?": {"lambda_1_spread?": NUMBER, "*": object},
        "density?": {"x": [NUMBER], "y": [NUMBER], "*": object},
        "layers?": {"*": NUMBER},
        "*": object,
    },
    "surface": {**_GRID, "center?": {"*": NUMBER}, "length?": NUMBER},
    "plane": {**_GRID, "points?": [_POINT]},
    "interpolate": {
        "gamma": [NUMBER],
        "loss?": ([NUMBER], None),
        "error?": ([NUMBER], None),
        "barrier?": NUMBER,
        "*": object,
    },
    "local_global": {
        "clients": [_CLIENT],
        "round?": NUMBER,
        "local?": NUMBER,
        "global?": NUMBER,
        "*": object,
    },
    "corruptions": {
        "kinds": {"*": [NUMBER]},
        "clean?": NUMBER,
        "mean?": NUMBER,
        "source?": str,
        "*": object,
    },
    "recovery": {
        "client": int,
        "visits": int,
        "features": str,
        "real": int,
        "made": int,
        "accuracy?": NUMBER,
        "distance": NUMBER,
        "test?": NUMBER,
        "untrained?": NUMBER,
        "recovered": str,
        "originals": str,
        "*": object,
    },
    "partition": {"counts": [[NUMBER]], "clients?": int, "*": object},
    "pictures": {"names": [str], "colours": [[int]], "sets": {"*": [_PICTURE]}, "*": object},
    "confusion": {"names": [str], "sets": {"*": [[int]]}, "*": object},
    "styles": {
        "clients": [_STYLE],
        "shares": [NUMBER],
        "silhouette?": NUMBER,
        "groups?": (str, None),
        "of?": int,
        "aspect?": NUMBER,
        "*": object,
    },
}

_VALUES = [[NUMBER]]
PARTIAL: dict[str, Schema] = {
    "curvature": {"*": RESULTS["curvature"]},
    "surface": _VALUES,
    "plane": _VALUES,
    "interpolate": _VALUES,
    "local_global": [{"client": int, "local": float, "global": float}],
    "corruptions": {"*": [float]},
}
