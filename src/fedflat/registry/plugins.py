"""Plugins: user code that registers names, in a file, a module or an installed package.

    fedflat run "my_sam(rho=0.1)" --plugin my_methods.py
    fedflat run "my_sam(rho=0.1)" --plugin package.module

An installed package with an entry point in the group ``fedflat.plugins`` is loaded automatically.
Nothing else is ever loaded. The plugins recorded in a run folder are only compared with those
loaded now and shown to the user.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import TYPE_CHECKING

from fedflat.errors import FedflatError, SettingError, shown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "fedflat.plugins"
MAINS = ("__main__", "__mp_main__")
"""Names of the main module, in its own process and in processes that import it."""
HAND_MADE = "a notebook or a script"
KINDS = "a plugin must be a Python file such as my_methods.py, or a module such as package.module"


class _NotPython(Exception):
    """The plugin is neither a file nor a module. The message says what it is."""


@dataclass(frozen=True)
class Plugin:
    """Origin of registered names: a package with its version, or code with its digest.

    Names defined in the main module have neither, because a script changes with every setting.
    """

    name: str
    version: str | None = None
    digest: str | None = None
    place: str | None = field(default=None, compare=False)
    """Path of the file, for display."""

    def same(self, other: Plugin) -> bool:
        """True if both are the same code; a file may have been renamed."""
        named = self.name == other.name or self.digest is not None
        return named and (self.version, self.digest) == (other.version, other.digest)


@dataclass(frozen=True)
class Named:
    """A plugin that the user has named, so that other processes can load the same."""

    text: str
    digest: str | None = None
    """Digest of the file; None for a module."""


_NAMED: dict[str, Named] = {}
_FILES: dict[str, Plugin] = {}
"""Modules that were loaded from files."""
_INSTALLED: dict[str, Plugin] = {}
"""Top-level modules whose entry points were loaded."""


def load_plugin(name: str) -> None:
    """Load a plugin: a file (``my_methods.py``) or an importable module (``package.module``).

    A file that has changed is loaded again and replaces the names it registered before.

    name
        Path of the file, or name of the module.
    """
    name = str(name)
    if name.endswith(".py") or os.sep in name:
        with _explain_failure(name, os.path.basename(name)):
            path = Path(name).expanduser().resolve()
            _NAMED[str(path)] = Named(str(path), _load_file(path))
        return
    if not all(part.isidentifier() for part in name.split(".")):
        raise SettingError(f"plugin: {KINDS}, found {shown(name)}.")
    sys.path.append(os.getcwd())  # searched last, and only for this plugin
    try:
        with _explain_failure(name, name.replace(".", os.sep)):
            module = import_module(name)
            if hasattr(module, "__path__") and module.__file__ is None:
                raise _NotPython("is a folder without an __init__.py")
    finally:
        sys.path.pop()
    _NAMED[name] = Named(name)


def loaded_module(name: str) -> ModuleType:
    """The module of a plugin that was loaded by this name."""
    if name.endswith(".py") or os.sep in name:
        path = str(Path(name).expanduser().resolve())
        key = next(key for key, plugin in _FILES.items() if plugin.place == path)
        return sys.modules[key]
    return sys.modules[name]


def load_same(named: Named) -> None:
    """Load in a worker process the plugin that the main process has loaded."""
    load_plugin(named.text)
    if _NAMED[named.text].digest != named.digest:
        raise SettingError(
            f"plugin: {named.text} has changed since the run began. Restore it, or start a new run."
        )


def named_plugins() -> tuple[Named, ...]:
    """The plugins that the user has named, in this order."""
    return tuple(_NAMED.values())


def plugin_words() -> str:
    """The command-line options that name the plugins again, with a leading space."""
    return "".join(f" --plugin {quote(named.text)}" for named in _NAMED.values())


@cache
def load_installed() -> None:
    """Load the entry points of installed packages. One that fails causes a warning only."""
    for entry in _entry_points():
        if entry.dist is not None:
            _INSTALLED[entry.module.partition(".")[0]] = Plugin(
                entry.dist.name, version=entry.dist.version
            )
        try:
            entry.load()
        except Exception as error:
            warnings.warn(
                f"the installed plugin {entry.name!r} ({entry.value}) cannot be loaded: "
                f"{type(error).__name__}: {error}. Fix or uninstall it.",
                stacklevel=2,
            )


def any_installed() -> bool:
    """True if an installed package has an entry point for fedflat."""
    return bool(_entry_points())


def _entry_points() -> EntryPoints:
    """Those of installed packages; searching them takes long, so only what needs plugins does."""
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def registering_module(make: object) -> str:
    """The module whose code is registering ``make`` now.

    It is determined from the call stack, not from attributes of ``make``: the nearest caller
    outside fedflat, or the module of fedflat that is being imported. If a script registers
    something that it has imported, the module of that object counts, unless it belongs to fedflat.
    """
    frame = sys._getframe(1)
    module = _module_of(frame.f_globals)
    while is_ours(module) and frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
        module = _module_of(frame.f_globals)
    claimed = getattr(make, "__module__", None)
    if (
        module in MAINS
        and isinstance(claimed, str)
        and claimed in sys.modules
        and not is_ours(claimed)
    ):
        return claimed
    return module


def _module_of(namespace: dict[str, object]) -> str:
    """Name of the module with these globals; code outside modules counts as a script."""
    name = namespace.get("__name__")
    if isinstance(name, str) and getattr(sys.modules.get(name), "__dict__", None) is namespace:
        return name
    names = (
        name
        for name, module in list(sys.modules.items())
        if getattr(module, "__dict__", None) is namespace
    )
    return next(names, MAINS[0])


def is_ours(module: str) -> bool:
    """True if a module belongs to fedflat."""
    return module.partition(".")[0] == __name__.partition(".")[0]


def plugin_of(module: str) -> Plugin | None:
    """Origin of the names that ``module`` registers; None for fedflat itself."""
    top = module.partition(".")[0]
    if is_ours(module):
        return None
    if module in _FILES:
        return _FILES[module]
    if top in _INSTALLED:
        return _INSTALLED[top]
    file = getattr(sys.modules.get(module), "__file__", None)
    if module in MAINS or file is None:
        return Plugin(HAND_MADE, place=file)
    if top in _distributions():
        from importlib.metadata import version

        name = _distributions()[top][0]
        return Plugin(name, version=version(name))
    package = getattr(sys.modules.get(top), "__file__", None)
    if package is None or not hasattr(sys.modules[top], "__path__"):
        return Plugin(Path(file).name, digest=_digest(Path(file).read_bytes()), place=file)
    folder = Path(package).parent
    code = [
        (str(path.relative_to(folder)), _digest(path.read_bytes()))
        for path in sorted(folder.rglob("*.py"))
    ]
    return Plugin(top, digest=_digest(repr(code).encode()), place=str(folder))


@cache
def _distributions() -> dict[str, list[str]]:
    from importlib.metadata import packages_distributions

    return dict(packages_distributions())


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _load_file(path: Path) -> str:
    """Run a file as a module, unless it is loaded already. Returns the digest of its content."""
    if not path.is_file():
        problem = (
            "is a folder"
            if path.is_dir()
            else "is not a regular file"
            if path.exists()
            else "does not exist"
        )
        raise _NotPython(problem)
    content = path.read_bytes()
    digest = _digest(content)
    name = f"fedflat_plugin_{path.stem}_{_digest(os.fsencode(path))[:8]}"
    before = sys.modules.get(name), _FILES.get(name)
    if before[1] is not None and before[1].digest == digest:
        return digest
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and pickle look for it there
    _FILES[name] = Plugin(path.name, digest=digest, place=str(path))
    try:
        exec(compile(content, str(path), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name], _FILES[name]
        if before[0] is not None and before[1] is not None:
            sys.modules[name], _FILES[name] = before[0], before[1]
        raise
    return digest


@contextmanager
def _explain_failure(name: str, file: str) -> Iterator[None]:
    """Turn errors of a plugin into a `SettingError` with the reason and the plugin's line."""
    try:
        yield
    except _NotPython as problem:
        raise SettingError(f"plugin: {name!r:.199} {problem}; {KINDS}.") from None
    except (Exception, SystemExit) as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if file in frame.filename
        ]
        lines += [error.lineno] if isinstance(error, SyntaxError) else []
        where = f", in its line {lines[-1]}" if lines else ""
        why = (
            str(error).rstrip(".")
            if isinstance(error, FedflatError)
            else f"{type(error).__name__}: {error}"
        )
        why = str(error.strerror) if isinstance(error, OSError) else why
        sentence = (
            f"plugin: {name!r:.199} cannot be loaded ({why}{where}). Fix the plugin or remove it."
        )
        raise SettingError(sentence) from error
