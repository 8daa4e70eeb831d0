"""The settings of runs, by the names of their options, and those in which runs differ."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fedflat.experiments.run_folder.experiment_texts import ExperimentTexts
from fedflat.settings.groups import SETTINGS

OF_A_RUN = [one for one in SETTINGS if one.name not in ("cohorts", "orders")]


def settings(experiment: ExperimentTexts) -> dict[str, Any]:
    """The settings that a run has, by the names of their options.

    >>> saved = {"method": "fedavg()", "rounds": 5, "local": {"lr": 0.1}, "seed": 1}
    >>> settings(ExperimentTexts.from_json(saved))
    {'rounds': 5, 'lr': 0.1, 'seed': 1}
    """
    return {
        one.name: group[one.path[-1]]
        for one in OF_A_RUN
        if one.path[-1] in (group := experiment.group(one))
    }


def differences(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """For each run, a method and its settings, those settings in which it differs from other runs
    of its method, but for the seed.

    >>> differences([("a", {}), ("b", {"rounds": 1, "seed": 0}), ("b", {"rounds": 2, "seed": 1})])
    [{}, {'rounds': 1}, {'rounds': 2}]
    """
    values: dict[str, dict[str, set[str]]] = {}
    for method, own in runs:
        alike = values.setdefault(method, {})
        for one in OF_A_RUN:
            alike.setdefault(one.name, set()).add(json.dumps(own.get(one.name)))
    return [
        {
            name: value
            for name, value in own.items()
            if name != "seed" and len(values[method][name]) > 1
        }
        for method, own in runs
    ]


def arguments(method: str) -> dict[tuple[int, str], str]:
    """The arguments of the pieces of a method, by the place of the piece and the name.

    >>> arguments("fedsam(rho=warmup(0.1, 0.2, 9)) + swa(start=0.75)")
    {(0, 'rho'): 'warmup(0.1, 0.2, 9)', (1, 'start'): '0.75'}
    """
    found: dict[tuple[int, str], str] = {}
    for place, piece in enumerate(_pieces(ast.parse(method, mode="eval").body)):
        if not isinstance(piece, ast.Call):
            raise ValueError(f"{method} is not a sum of calls")
        found |= {
            (place, f"argument {i + 1}"): ast.unparse(one) for i, one in enumerate(piece.args)
        }
        found |= {(place, str(one.arg)): ast.unparse(one.value) for one in piece.keywords}
    return found


def _pieces(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_pieces(node.left), *_pieces(node.right)]
    return [node]


def method_columns(method: str) -> dict[str, Any]:
    """The arguments of a method as columns; an argument that two pieces have is ``place.name``.

    >>> method_columns("fedsam(rho=0.1) + swa(start=0.75)")
    {'rho': 0.1, 'start': 0.75}
    """
    try:
        found = arguments(method)
    except (SyntaxError, ValueError):
        return {}
    names = [name for _, name in found]
    columns: dict[str, Any] = {}
    for (place, name), text in found.items():
        try:
            value = ast.literal_eval(text)
        except ValueError:
            value = text
        columns[f"{place + 1}.{name}" if names.count(name) > 1 else name] = value
    return columns
