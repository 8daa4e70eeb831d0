"""Code of others that registers names: a file or a module that somebody names, or an installed
package.

    fedflat run "my_sam(rho=0.1)" --plugin my_methods.py
    fedflat run "my_sam(rho=0.1)" --plugin package.module

An installed package is loaded unnamed if it has an entry point in the group ``fedflat.plugins``.
Nothing else is ever loaded: what a run folder says of a plugin is compared with what is there, and
shown to people.
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
from importlib import import_module, metadata
from pathlib import Path
from shlex import quote
from types import ModuleType

from fedflat.errors import FedflatError, SettingError, shown

GROUP = "fedflat.plugins"
MAINS = ("__main__", "__mp_main__")
"""What the module that a person started is called, in its own process and in those that import
it."""
HAND_MADE = "a notebook or a script"
KINDS = "a plugin must be a Python file such as my_methods.py, or a module such as package.module"


class _NotPython(Exception):
    """What was named as a plugin is neither a file nor a module. The text says what it is."""


@dataclass(frozen=True)
class Plugin:
    """Where registered names come from: an installed package by its version, anything else by its
    digest.

    What is defined in the module that a person started has neither: a script changes with every
    setting in it.
    """

    name: str
    version: str | None = None
    digest: str | None = None
    place: str | None = field(default=None, compare=False)
    """Where the file was, for people to read."""

    def same(self, other: Plugin) -> bool:
        """Whether it is the same code; a file may have got another name."""
        named = self.name == other.name or self.digest is not None
        return named and (self.version, self.digest) == (other.version, other.digest)


@dataclass(frozen=True)
class Named:
    """A plugin that a person has named, so that other processes can load the same."""

    said: str
    digest: str | None = None
    """Of a file."""


_NAMED: dict[str, Named] = {}
_FILES: dict[str, Plugin] = {}
"""Modules that were made of files."""
_INSTALLED: dict[str, Plugin] = {}
"""Top-level modules whose entry points were loaded."""


def load_plugin(said: str) -> None:
    """Load what registers names: a file (``my_methods.py``), or a module that can be imported
    (``package.module``).

    A file that has changed is loaded again, and what it registers takes the place of what it had
    registered.
    """
    said = str(said)
    if said.endswith(".py") or os.sep in said:
        with _told(said, os.path.basename(said)):
            path = Path(said).expanduser().resolve()
            _NAMED[str(path)] = Named(str(path), _load_file(path))
        return
    if not all(part.isidentifier() for part in said.split(".")):
        raise SettingError(f"plugin: {KINDS}, found {shown(said)}.")
    sys.path.append(os.getcwd())  # looked at last, and only for what was named
    try:
        with _told(said, said.replace(".", os.sep)):
            module = import_module(said)
            if hasattr(module, "__path__") and module.__file__ is None:
                raise _NotPython("is a folder without an __init__.py")
    finally:
        sys.path.pop()
    _NAMED[said] = Named(said)


def load_same(named: Named) -> None:
    """Load, in another process, what was named in the first one."""
    load_plugin(named.said)
    if _NAMED[named.said].digest != named.digest:
        raise SettingError(
            f"plugin: {named.said} has changed since the run began. Put it back, or begin anew."
        )


def named_plugins() -> tuple[Named, ...]:
    """What was named so far, in this order."""
    return tuple(_NAMED.values())


def plugin_words() -> str:
    """The words that name them again on a command line, with a blank before."""
    return "".join(f" --plugin {quote(named.said)}" for named in _NAMED.values())


@cache
def load_installed() -> None:
    """Load what installed packages offer; one that cannot be loaded is a warning, and no obstacle
    to the others."""
    for entry in metadata.entry_points(group=GROUP):
        if entry.dist is not None:
            _INSTALLED[entry.module.partition(".")[0]] = Plugin(
                entry.dist.name, version=entry.dist.version
            )
        try:
            entry.load()
        except Exception as error:
            warnings.warn(
                f"the installed plugin {entry.name!r} ({entry.value}) cannot be loaded: {type(error).__name__}: "
                f"{error}. Mend or uninstall it.",
                stacklevel=2,
            )


def registering_module(make: object) -> str:
    """The module whose code is registering ``make`` now, by the import system and not by what
    ``make`` says of itself.

    It is the nearest caller outside fedflat, or the module of fedflat that is being imported. A
    script may register what it has imported from somewhere else: then that module counts, unless it
    is one of fedflat's.
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
    """The name of the module with these globals; of code that no module holds, as in a notebook,
    that of a script."""
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
    """Whether a module is one of fedflat's own."""
    return module.partition(".")[0] == __name__.partition(".")[0]


def plugin_of(module: str) -> Plugin | None:
    """Where names come from that are registered in ``module``; None: from fedflat itself."""
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
        name = _distributions()[top][0]
        return Plugin(name, version=metadata.version(name))
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
    return dict(metadata.packages_distributions())


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _load_file(path: Path) -> str:
    """Run a file as a module of its own, unless it is there already; the digest of what was run."""
    if not path.is_file():
        found = (
            "is a folder"
            if path.is_dir()
            else "is not a regular file"
            if path.exists()
            else "does not exist"
        )
        raise _NotPython(found)
    content = path.read_bytes()
    digest = _digest(content)
    name = f"fedflat_plugin_{path.stem}_{_digest(os.fsencode(path))[:8]}"
    before = sys.modules.get(name), _FILES.get(name)
    if before[1] is not None and before[1].digest == digest:
        return digest
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # where dataclasses and pickle look for it
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
def _told(said: str, file: str) -> Iterator[None]:
    """Say in a sentence why a plugin cannot be loaded, and in which of its lines."""
    try:
        yield
    except _NotPython as found:
        raise SettingError(f"plugin: {said!r:.199} {found}; {KINDS}.") from None
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
            f"plugin: {said!r:.199} cannot be loaded ({why}{where}). Mend it, or leave it out."
        )
        raise SettingError(sentence) from error
