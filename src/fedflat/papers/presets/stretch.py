"""Stretch a run to fewer or more rounds: every number of rounds keeps its share of the run.

    stretch(find("fedgloss/cifar10-cnn-alpha0").arguments(), rounds=500)
                              T_s=2000 of 10,000 rounds becomes 100 of 500
    unfinished(arguments)     what does not end within the rounds of a run

This concerns warm-ups, cosines, polynomials, steps and cycles, FedGloSS's ``T_s``, SWA's cycle and
WiMA's window. A decay reaches the same value at the end. LADD's teachers are refreshed and averaged
at the same shares of the run. What is not a number of rounds (rates, radii, momenta, clients)
stays.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from fedflat.errors import number
from fedflat.registry.specs import find
from fedflat.settings.groups import SETTINGS, last_tenth

COUNTED = {
    "warmup": ("rounds",), "cosine": ("rounds",), "poly": ("rounds",), "cyclic": ("cycle",),
    "steps": ("rounds", "values"), "decay": ("rate",), "fedgloss": ("T_s",),
    "swa": ("start", "cycle"), "wima": ("window",), "ladd": ("omega", "t_start"), "self_training": ("omega", "t_start"),
    "fedcg": ("every", "graph_from"),
}  # fmt: skip
"""The arguments that are numbers of rounds, or belong to them."""
SCHEDULED = tuple(one.name for one in SETTINGS if one.kind == "Scalar")
"""The settings that may be schedules."""

CountedArguments = dict[str, Any]
"""The counted arguments of one call, with defaults."""


def stretch(arguments: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    """Return the arguments of `fedflat.experiment` for the same run in `rounds` rounds.

    Evaluations keep their share too. In a shorter run at most the last tenth of the rounds counts.

    >>> paper = {"method": "fedgloss(T_s=2000)", "rounds": 10_000, "lr": "decay(0.1, 0.999)"}
    >>> short = stretch(paper, 100)
    >>> short["method"], short["rounds"], short["lr"]
    ('fedgloss(T_s=20)', 100, 'decay(0.1, 0.9047921471)')
    """
    number("stretch", "rounds", rounds, low=1, whole=True)
    share = rounds / arguments["rounds"]
    short = {**arguments, "rounds": rounds}
    for name in _texts(arguments):
        short[name] = stretch_text(str(short[name]), share)
    if short.get("eval_every") is not None:
        short["eval_every"] = _scaled(short["eval_every"], share)
    if share < 1 and short.get("eval_last") is not None:
        short["eval_last"] = min(short["eval_last"], last_tenth(rounds))
    return short


def stretch_text(text: str, share: float) -> str:
    """Return the text of a method or a schedule for this share of the rounds.

    >>> stretch_text("fedsam(rho=warmup(0.001, 0.15, 2000)) + swa(cycle=20)", 0.1)
    'fedsam(rho=warmup(0.001, 0.15, 200)) + swa(cycle=2)'
    """
    return _through(text, lambda name, given: _CHANGES.get(name, _counts)(given, share))


def unfinished(arguments: Mapping[str, Any]) -> list[str]:
    """Return descriptions of what does not end within the rounds of a run.

    >>> unfinished({"method": "fedgloss(rho_s=0.1, rho_l=0.1, T_s=2000)", "rounds": 500})
    ['T_s=2000']
    """
    descriptions: list[str] = []

    def check(name: str, given: CountedArguments) -> CountedArguments:
        words = _late(name, given, arguments["rounds"])
        descriptions.extend([words] if words else [])
        return given

    for name in _texts(arguments):
        _through(str(arguments[name]), check)
    return descriptions


def _texts(arguments: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that are methods or schedules."""
    return [
        n for n in ("method", *SCHEDULED) if not isinstance(arguments.get(n), int | float | None)
    ]


def _late(name: str, given: CountedArguments, rounds: int) -> str:
    """Return a description of what does not end in time, or ""."""
    match name, given:
        case (("warmup" | "cosine" | "poly"), {"rounds": over}) if over > rounds:
            return f"the {'warm-up' if name == 'warmup' else name} over {over:,} rounds"
        case "steps", {"rounds": [*_, last]} if last >= rounds:
            return f"the step in round {last:,}"
        case (("ladd" | "self_training"), {"t_start": int(first)}) if first >= rounds:
            return f"the mean of teachers from round {first:,} on"
        case "fedgloss", {"T_s": over} if over > rounds:
            return f"T_s={over}"
        case "swa", {"start": start, "cycle": cycle}:
            first = start if isinstance(start, int) else int(start * rounds + 1e-9)
            return f"SWA's first cycle of {cycle} rounds" if rounds - first < cycle else ""
    return ""


def _scaled(count: int, share: float) -> int:
    return max(1, round(count * share)) if count else 0  # 0 means none


def _counts(given: CountedArguments, share: float) -> CountedArguments:
    # Swa(start=0.75).
    return {name: _scaled(int(n), share) if n and n >= 1 else n for name, n in given.items()}


def _decay(given: CountedArguments, share: float) -> CountedArguments:
    return {"rate": float(f"{given['rate'] ** (1 / share):.10g}")}


def _steps(given: CountedArguments, share: float) -> CountedArguments:
    """If several steps fall into one round, the last one counts."""
    pairs = zip(given["rounds"], given["values"], strict=True)
    steps = {_scaled(at, share): value for at, value in pairs}
    return {"rounds": list(steps), "values": list(steps.values())}


_CHANGES: dict[str, Callable[[CountedArguments, float], CountedArguments]] = {
    "decay": _decay,
    "steps": _steps,
}


def _through(text: str, change: Callable[[str, CountedArguments], CountedArguments]) -> str:
    """Return the text with the counted arguments of each call changed."""
    return ast.unparse(_Calls(change).visit(ast.parse(text.strip(), mode="eval")))


class _Calls(ast.NodeTransformer):
    def __init__(self, change: Callable[[str, CountedArguments], CountedArguments]) -> None:
        self.change = change

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """``swa`` means ``swa()``."""
        return self.visit_Call(ast.Call(node, [], [])) if node.id in COUNTED else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Change the arguments of a call, inner calls first."""
        node.args = [self.visit(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in COUNTED:
            parameters = find(name).signature.parameters
            texts = dict(zip(parameters, node.args, strict=False)) | {
                k.arg: k.value for k in node.keywords if k.arg
            }
            given = {
                n: ast.literal_eval(texts[n]) if n in texts else parameters[n].default
                for n in COUNTED[name]
            }
            now = {n: value for n, value in self.change(name, given).items() if value != given[n]}
            self._write_values(node, list(parameters), now)
        return node

    @staticmethod
    def _write_values(node: ast.Call, names: list[str], now: CountedArguments) -> None:
        """Replace values in place, or append them by name."""
        for name, value in now.items():
            text = ast.parse(repr(value), mode="eval").body
            by_name = [keyword for keyword in node.keywords if keyword.arg == name]
            if names.index(name) < len(node.args):
                node.args[names.index(name)] = text
            elif by_name:
                by_name[0].value = text
            else:
                node.keywords.append(ast.keyword(name, text))
