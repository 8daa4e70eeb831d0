"""Settings as keyword arguments, in signatures and, as ``arguments.pyi``, for type checkers.

python -m fedflat.settings.signature     # rewrites arguments.pyi after a setting has changed
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from fedflat.errors import nearest
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import SETTINGS
from fedflat.settings.setting import Setting

Function = TypeVar("Function", bound=Callable[..., Any])
STUB = Path(__file__).with_name("arguments.pyi")
EXPLICIT = ("on", "rounds", "seed")
"""Written in the signatures themselves, since they are required in some functions and absent in
others."""
_HEAD = '''"""Settings as keyword arguments, for type checkers; made by `python -m fedflat.settings.signature`."""

from typing import TypedDict

from fedflat.client.learner import ModelLike
from fedflat.core.schedules import Scalar
from fedflat.data.federation import DataSpec
from fedflat.execution.client_pool import ExecutorLike
from fedflat.experiments.callbacks import OnRoundEnd
from fedflat.experiments.initializers import Initializer
from fedflat.settings.groups import Cohorts, Orders
from fedflat.simulation.attacks.attack import Attack
from fedflat.simulation.clock import Clock
from fedflat.tasks.task import Task
from fedflat.topologies.topology import Topology
'''


def signed(*settings: Setting) -> Callable[[Function], Function]:
    """Add these settings, which the function takes as ``**settings``, to its signature and its
    docstring."""

    def sign(function: Function) -> Function:
        found = inspect.signature(function)
        own = [one for one in found.parameters.values() if one.kind is not one.VAR_KEYWORD]
        more = [
            one for one in settings if one.name not in found.parameters and one.name not in EXPLICIT
        ]
        named = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=one.python_default,
                annotation=one.annotation,
            )
            for one in more
        ]
        function.__signature__ = found.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
        function.__doc__ = "\n".join(
            [
                inspect.getdoc(function) or "",
                "",
                *(f"{one.name}\n    {one.described}" for one in more),
            ]
        )
        return function

    return sign


def refuse_unknown(function: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Raise a `TypeError` for arguments that a signed function does not have."""
    known = inspect.signature(function).parameters
    for name in settings:
        if name not in known:
            raise TypeError(
                f"{function.__name__}() has no argument {name!r}.{nearest(name, known)}"
            )


def stub() -> str:
    """The text of ``arguments.pyi``."""
    what = _typed_dict("Settings", "The settings that decide the numbers of a run.", SETTINGS)
    machine = _typed_dict("Machine", "The settings of execution.", MACHINE)
    both = ["class RunSettings(Settings, Machine, total=False):", '    """Both."""']
    return "\n".join([_HEAD, *what, "", *machine, "", *both, ""])


def _typed_dict(name: str, doc: str, settings: Iterable[Setting]) -> list[str]:
    lines = [f"class {name}(TypedDict, total=False):", f'    """{doc}"""', ""]
    return [
        *lines,
        *(f"    {one.name}: {one.annotation}" for one in settings if one.name not in EXPLICIT),
    ]


if __name__ == "__main__":
    STUB.write_text(stub())
