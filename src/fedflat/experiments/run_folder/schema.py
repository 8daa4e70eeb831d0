"""The JSON schemas of the files in a run folder, and files that carry a digest of their own content.

A file written by `write_signed` has its digest in the field ``digest``. `verified` refuses a file
whose content does not match it, so an edited file or a damaged byte is found when the file is read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedflat.core.json_schema import NUMBER, Schema
from fedflat.files import Damaged, digest, write_file
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import EvaluateSettings, LocalSettings, RunSettings, SamplerSettings
from fedflat.settings.setting import Setting, settings_of

SCALAR = (float, str)
"""A number, or the text of a schedule."""
KINDS: dict[str, Schema] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "Scalar": SCALAR,
    "Cohorts": [[int]],
    "Orders": [{"*": [[int]]}],
    "DataSpec": (str, None),
    "ModelLike": (str, None),
    "ExecutorLike": (str, None),
    "OnRoundEnd": str,
}
"""How a setting of each kind is written; what was given in Python is null."""


def _group(settings: Sequence[Setting], perhaps: str = "") -> dict[str, Schema]:
    """The object that holds these settings."""
    return {
        one.path[-1] + ("?" if one.about.registered or one.about.absent_in_old_runs else perhaps): (
            (kind, None) if one.type.endswith("None") else kind
        )
        for one in settings
        for kind in [str if one.about.registered else KINDS[one.kind]]
    }


EXECUTION = _group(MACHINE, "?")
HEADLINE = {"name": str, "label": str, "unit": str, "factor": float, "higher_is_better": bool}
EXPERIMENT = {
    "method": str,
    **_group(settings_of(RunSettings)),
    "local": _group(settings_of(LocalSettings)),
    "sampler": _group(settings_of(SamplerSettings)),
    "evaluate": _group(settings_of(EvaluateSettings)),
    "loss": (str, None),
    "headline?": HEADLINE,
    "plugins?": [
        {
            "name": str,
            "version": (str, None),
            "digest": (str, None),
            "place": (str, None),
            "names": [str],
        }
    ],
}
MARK = {"lines": int, "size": int, "chain": str}
FILE = {"file": str, "bytes": int, "digest": str}
"""A file beside its list, and what must be in it."""
RUN = {
    "fedflat": str,
    "identity": str,
    "status": {"running", "done", "early", "diverged"},
    "experiment": EXPERIMENT,
    "origin": {
        "data?": str,
        "place?": (str, None),
        "shape?": [int],
        "classes?": int,
        "outputs?": int,
        "inputs?": [{"shape": [int], "whole": bool}],
        "module?": str,
        "start?": str,
        "server?": str,
        "clock?": str,
        "parameters?": int,
        "clients?": int,
        "examples?": int,
        "test_examples?": int,
        "prepared?": {"bytes": bool, "mean": [float], "std": [float]},
    },
    "how": EXECUTION,
    "made": str,
    "machine": {"*": (str, int, None)},
    "info?": {
        "method": {"stack": str, "settings": {"*": (int, str)}},
        "data": (
            {
                "name": str,
                "partition": str,
                "usual_task": str,
                "class_names": ([str], None),
                "notes": [str],
                "client_names?": [str],
                "column_names?": [str],
            },
            None,
        ),
    },
    "recorded?": {"*": {"title": str, "note": str, "entries": str, "unit": str, "drawing?": str}},
    "tried?": int,
    "end?": {
        "metrics": MARK,
        "recorded": MARK,
        "models": {"*": FILE},
        "reported": str,
        "digest": str,
    },
}
STUDY = {
    "fedflat": str,
    "runs": [{"folder": str, "experiment": EXPERIMENT, "tried?": int}],
    "how": EXECUTION,
    "place": (str, None),
    "target?": float,
    "search?": {"*": object},
    "digest": str,
}
OF_ANY_VERSION = {"fedflat": str, "*": object}
LEDGER = {
    "down": int,
    "up": int,
    "c2c?": int,
    "samples": int,
    "training": float,
    "seconds": float,
    "evaluation?": float,
    "missing?": int,
    "clock?": float,
    "clocks?": {"*": float},
    "busy?": {"*": float},
    "models_s2c?": int,
    "models_c2s?": int,
    "models_c2c?": int,
}
TESTS = {"*": {"*": NUMBER}}
METRICS = {
    "round": int,
    **LEDGER,
    "loss?": NUMBER,
    "accuracy?": NUMBER,
    "train_loss?": NUMBER,
    "personal?": NUMBER,
    "clients?": NUMBER,
    "model?": str,
    "models?": {"*": {"tests?": TESTS, "*": NUMBER}},
    "tests?": TESTS,
    "tuned?": bool,
    "*": object,
}
RECORDED = {"round": int, "*": object}
ASKED = {
    "by": str,
    "client": int,
    "down": int,
    "up": int,
    "samples": int,
    "seconds?": float,
    "dtype": str,
    "shape": [int],
    "offset": int,
    "digest": str,
}
ROWS: dict[str, Schema] = {"metrics": METRICS, "recorded": RECORDED, "asked": ASKED}
CHECKPOINT = {"run": str, "round": int, "ledger": LEDGER, "metrics": MARK, "recorded": MARK}


def sign(value: object) -> str:
    """A digest of plain values, the same for what is read of them later."""
    plain = json.loads(json.dumps(value))  # in which all names are texts
    return digest(json.dumps(plain, sort_keys=True).encode()).hex()


def signed(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "digest": sign(content)}


def write_signed(path: Path, content: dict[str, Any], indent: int | None = None) -> None:
    """Write a JSON file with its digest."""
    write_file(path, json.dumps(signed(content), indent=indent).encode())


def verified(found: dict[str, Any]) -> dict[str, Any]:
    """The content of a file without its digest; `Damaged` if the two do not match."""
    content = {name: value for name, value in found.items() if name != "digest"}
    if found.get("digest") != sign(content):
        raise Damaged("it does not have the digest it had when it was written")
    return content
