"""What was not measured of the runs on a page, and how to measure it."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]
SHARED = ("partition", "styles", "plane", "interpolate", "recovery")
"""Analyses that are kept with one run, though of several, or that not every run has something
for."""


def missing(document: Document) -> list[str]:
    """A sentence for all that nobody measured, and one for each thing that was measured of some
    methods only."""
    words = _words(document)
    lacking = [said for kind, said in words.items() if not document[kind]]
    said = (
        [f"Not analysed: {', '.join(lacking)}. `fedflat analyse RUN` adds them."] if lacking else []
    )
    if not document["recorded"]:
        said.append("No metrics were recorded during training. `fedflat run --record` adds them.")
    for kind in words:
        if document[kind] and kind not in SHARED:
            with_it = {one["method"] for one in document[kind]}
            for place, board in enumerate(document["boards"]):
                own = {
                    at: m["name"] for at, m in enumerate(document["methods"]) if m["board"] == place
                }
                without = sorted(name for at, name in own.items() if at not in with_it)
                of = "" if len(without) == len(own) > 1 else f" of {', '.join(without)}"
                on = f" on {board['title']}" if len(document["boards"]) > 1 else ""
                said += [f"No {words[kind]}{of}{on}."] if without else []
    return said


def _words(document: Document) -> dict[str, str]:
    """What can be analysed of these runs, by what they are judged by."""
    judged = {board["headline"]["name"]: board["headline"]["label"] for board in document["boards"]}
    spied = any(run["settings"].get("attack", "").startswith("gan(") for run in document["runs"])
    masks, classes = "miou" in judged, bool({"miou", "accuracy"} & set(judged))
    return {
        **({"pictures": "pictures of masks"} if masks or document["pictures"] else {}),
        **({"confusion": "confusions of classes"} if classes or document["confusion"] else {}),
        "curvature": "eigenvalues and traces of the Hessian",
        "surface": "loss surfaces",
        "plane": "planes through models",
        "interpolate": "losses between models",
        "local_global": "local against global models",
        "corruptions": f"{' and '.join(judged.values()) or 'scores'} on corrupted images",
        "partition": "who holds which classes",
        **({"styles": "styles of the clients"} if masks or document["styles"] else {}),
        **({"recovery": "images recovered from models"} if spied else {}),
    }
