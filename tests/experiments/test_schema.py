"""What the JSON of a run folder must look like."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from experiments.small import EVERYTHING, experiment
from fedflat.core.json_schema import check
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.run_folder.schema import EXECUTION, EXPERIMENT
from fedflat.files import Damaged


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        (
            {"a": {"b": [1, "x"]}},
            {"a": {"b": [int]}},
            r"a\.b\[1\] must be a whole number, found 'x'",
        ),
        ({}, {"a": int}, "a is missing"),
        ({"b": 1}, {"a?": int}, "b is not known to this version"),
        ({"b": 1}, {"a?": int, "*": str}, "b must be a text, found 1"),
        (True, int, "it must be a whole number, found True"),
        (2**63, int, "it must be a whole number, found 9"),
        (10**400, (float, None), "it must be a number or null, found 1"),
        ("c", {"a", "b"}, "it must be 'a' or 'b', found 'c'"),
        ([[]], {"a": int}, "it must be an object, found"),
        (None, ([int], str), "it must be a list or a text, found None"),
        ([], ((float, str), None), r"it must be a number or a text or null, found \[\]"),
    ],
)
def test_what_does_not_fit(value: Any, schema: Any, message: str) -> None:
    with pytest.raises(Damaged, match=message):
        check(value, schema)


def test_what_fits() -> None:
    check(
        {"a": 1, "c": [0.5, None], "d": {"x": True}},
        {"a": float, "b?": str, "c": [(float, None)], "*": object},
    )


def test_every_setting_is_known() -> None:
    """A new one must be added to the schema."""
    check(json.loads(json.dumps(experiment(EVERYTHING).as_json())), EXPERIMENT)
    check(json.loads(json.dumps(asdict(ExecutionConfig()))), EXECUTION)


def test_alternatives_in_alternatives() -> None:
    for value in (1, 0.5, "cosine(1)", None):
        check(value, ((float, str), None))
