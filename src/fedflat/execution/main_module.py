"""The module a person started: a script, a notebook, what was typed in.

Worker processes do without it, unless something that is sent to them is defined there. Then they
must import it, which a script without a guard does not survive: it would run again in each of them.
"""

from __future__ import annotations

import ast
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from fedflat.errors import SettingError
from fedflat.registry.plugins import MAINS

REMEDY = (
    "Put it into a module of its own and import it from there, or put what the script does under "
    '`if __name__ == "__main__":`; or run without workers (executor="in-process").'
)


@contextmanager
def hidden() -> Iterator[None]:
    """Processes started in here know nothing of the main module, and so do not import it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@dataclass(frozen=True)
class MainModule:
    """How a worker gets the main module."""

    name: str | None
    """Of the module, if it was started by name (``python -m``)."""
    path: str

    def take(self) -> None:
        """Import it as what it is not: the guarded part does not run."""
        try:
            with importing():
                if self.name is not None:
                    content = runpy.run_module(self.name, run_name=MAINS[1], alter_sys=True)
                else:
                    content = runpy.run_path(self.path, run_name=MAINS[1])
        except SystemExit:
            raise SettingError(
                f"a worker process imported the script, and the script ended it. {REMEDY}"
            ) from None
        module = ModuleType(MAINS[1])
        module.__dict__.update(content)
        for name in MAINS:
            sys.modules[name] = module


_importing = False


@contextmanager
def importing() -> Iterator[None]:
    """In here a worker imports what people wrote, which must not begin a run."""
    global _importing
    _importing = True
    try:
        yield
    finally:
        _importing = False


def refuse_while_importing() -> None:
    """A run that begins while a worker imports the script that it works for would begin for
    ever."""
    if _importing:
        raise SettingError(
            "a worker process imported the script to find what is defined in it, and the script "
            f"began a run. {REMEDY}"
        )


def main_module_of(used: Sequence[str]) -> tuple[MainModule | None, str | None]:
    """How workers get what is ``used`` of the main module, or None and why they cannot; both None
    if nothing is."""
    if not used:
        return None, None
    main = sys.modules["__main__"]
    what = f"{', '.join(used)} {'is' if len(used) == 1 else 'are'} defined in"
    path, name = getattr(main, "__file__", None), getattr(main.__spec__, "name", None)
    if path is None or not Path(path).is_file() or (name or "").endswith("__main__"):
        return (
            None,
            f"{what} a notebook or in what was typed in, which worker processes cannot import",
        )
    if not guarded(Path(path)):
        return (
            None,
            f"{what} {Path(path).name}, which would run again in every worker process that "
            "imports it",
        )
    return MainModule(name, str(Path(path).absolute())), None


def guarded(path: Path) -> bool:
    """Whether a script does its work under ``if __name__ == "__main__":`` only, as far as one can
    see."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError):
        return False
    return any(isinstance(node, ast.If) and _is_guard(node.test) for node in tree.body)


def _is_guard(test: ast.expr) -> bool:
    if not (
        isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)
    ):
        return False
    sides = {ast.unparse(side) for side in (test.left, *test.comparators)}
    return sides == {"__name__", "'__main__'"}
