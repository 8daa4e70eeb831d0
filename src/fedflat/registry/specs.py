"""The text language for methods, data sets, models and schedules.

    feddyn(alpha=0.01) + sam(rho=warmup(0.001, 0.15, 2000))
    cifar10(lda(0), clients=100)

Calls of registered names, numbers, strings, lists, and ``+`` between methods: nothing else. The
text is read with ``ast`` and never evaluated. What is read prints as the same text again
(`TextSpec`).
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cached_property
from keyword import iskeyword
from typing import Any, TypeVar
from unicodedata import normalize

from fedflat.errors import SpellingError, nearest, shown
from fedflat.registry.builtin_modules import import_all, import_homes
from fedflat.registry.hints import QUOTES, hint_for_kind, hint_for_path, hint_for_text
from fedflat.registry.plain_values import PlainFields
from fedflat.registry.plugins import (
    MAINS,
    Plugin,
    any_installed,
    is_ours,
    load_installed,
    plugin_of,
    registering_module,
)

KINDS = {
    "method": "methods",
    "model": "models",
    "data set": "datasets",
    "partition": "partitions",
    "task": "tasks",
    "topology": "topologies",
    "grouping": "groupings",
    "growth": "growths",
    "initializer": "initializers",
    "schedule": "schedules",
    "clock": "clocks",
    "availability": "availability",
    "distribution": "distributions",
    "attack": "attacks",
    "executor": "executors",
    "metric": "metrics",
    "logger": "loggers",
    "analysis": "analyses",
    "command": "commands",
    "describer": "describers",
    "instruction": "",
    "attacker": "",
    "measure": "",
}
"""The kinds of names, and how `fedflat list` calls each. Those without a name there are written by
the server only."""
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class RegisteredName:
    """A registered name: its kind, what makes it, and the module that registered it."""

    name: str
    kind: str
    make: Callable[..., Any]
    home: str

    @property
    def plugin(self) -> Plugin | None:
        """The plugin it comes from; None: fedflat itself."""
        return plugin_of(self.home)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The arguments it takes."""
        return inspect.signature(self.make)

    @property
    def required(self) -> bool:
        """Whether it has an argument without a default."""
        given = self.signature.parameters.values()
        return any(one.default is one.empty and one.kind is not one.VAR_POSITIONAL for one in given)

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring, in one line."""
        return " ".join((inspect.getdoc(self.make) or "").split("\n\n")[0].split())


_REGISTRY: dict[str, RegisteredName] = {}
_NAMES: dict[Any, str] = {}


def register(kind: str, name: str | None = None) -> Callable[[F], F]:
    """Register a class or function, so that texts can use it under ``name`` or its own name.

        @register("partition", "by_half")
        @dataclass(frozen=True, repr=False)
        class ByHalf(Partition): ...

    ``kind`` is one of `KINDS`; methods have `fedflat.method`. The same name again takes the place
    of the earlier one, as when a notebook's cell is run again, unless it is one of fedflat's.
    """
    if kind not in KINDS:
        raise SpellingError(
            f"register: there is no kind {shown(kind)}.{nearest(str(kind), KINDS)} {_kinds()}"
        )
    if name is not None:
        _refuse_unwritable(name)

    def keep(make: F) -> F:
        registered_name = make.__name__ if name is None else name
        _refuse_unwritable(registered_name)
        home = registering_module(make)
        if not is_ours(home):
            import_all()  # so that names are compared with all of ours
            load_installed()
        before = _REGISTRY.get(registered_name)
        if before and (before.kind != kind or _of_another(before.home, home)):
            where = before.home if before.plugin is None else before.plugin.name
            raise SpellingError(
                f"{registered_name!r} is the name of a {before.kind} already, in {where}. Choose "
                "another name."
            )
        _REGISTRY[registered_name] = RegisteredName(registered_name, kind, make, home)
        _NAMES[make] = registered_name
        return make

    return keep


def _refuse_unwritable(name: object) -> None:
    """Refuse a name that `parse` could never find in a text."""
    if (
        not isinstance(name, str)
        or not name.isidentifier()
        or iskeyword(name)
        or normalize("NFKC", name) != name  # as Python reads it
    ):
        raise SpellingError(
            f"register: {shown(name)} cannot be written as a name in a text. Choose a name of "
            "letters, digits and _ "
            "that does not begin with a digit and is no keyword of Python."
        )


def _kinds() -> str:
    return f"Known: {', '.join(KINDS)}."


def _of_another(before: str, now: str) -> bool:
    """Whether the name belongs to other code. A notebook may replace any name but fedflat's."""
    if before == now or (not is_ours(before) and {before, now} & set(MAINS)):
        return False
    old, new = plugin_of(before), plugin_of(now)
    return old is None or new is None or not old.same(new)


def _fill(kind: str | None = None) -> None:
    """Import the modules that register names, so that any text of this kind can be read."""
    import_homes(kind)
    load_installed()


def registered(kind: str, *, plugins: bool = True) -> Iterator[RegisteredName]:
    """All entries of one kind, by name; without ``plugins``, none is loaded for it."""
    if plugins:
        _fill(kind)
    else:
        import_homes(kind)
    return iter(sorted((e for e in _REGISTRY.values() if e.kind == kind), key=lambda e: e.name))


def has_plugins() -> bool:
    """Whether other packages, files or notebooks register names, or may do so when loaded."""
    return any_installed() or any(not is_ours(entry.home) for entry in _REGISTRY.values())


def names_in(text: str) -> Iterator[RegisteredName]:
    """The registered names that a text uses; none if it cannot be read."""
    _fill()
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return iter(())
    names = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return (_REGISTRY[name] for name in names if name in _REGISTRY)


def known(name: str) -> RegisteredName | None:
    """The entry of that name, if there is one."""
    _fill()
    return _REGISTRY.get(name)


def name_of(make: type) -> str:
    """The name under which texts use this class."""
    return _NAMES.get(make, str(getattr(make, "key", make.__name__)))


def spell(value: object) -> str:
    """The text of one value.

    >>> spell(0.01), spell((1, 2)), spell("fine")
    ('0.01', '[1, 2]', "'fine'")
    """
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(spell, value)) + "]"
    return repr(value)


def spell_call(name: str, signature: inspect.Signature, arguments: dict[str, Any]) -> str:
    """``name(...)`` with required arguments by place, the others by name."""
    by_place: list[str] = []
    by_name: list[str] = []
    for key, value in arguments.items():
        parameter = signature.parameters[key]
        if parameter.kind is parameter.VAR_POSITIONAL:
            by_place += map(spell, value)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            by_place.append(spell(value))
        else:
            by_name.append(f"{key}={spell(value)}")
    return f"{name}({', '.join(by_place + by_name)})"


def _fields(spec: object) -> Sequence[Field[Any]]:
    """The fields of a dataclass; a piece of a test or a script may be a plain class."""
    return fields(spec) if is_dataclass(spec) else ()


class TextSpec(PlainFields):
    """A frozen dataclass whose ``repr`` is the text that makes it again; defaults are left out."""

    def __repr__(self) -> str:
        return self._spell(terse=True)

    def full(self) -> str:
        """The text with every argument, defaults too, by name."""
        return self._spell(terse=False)

    def _spell(self, terse: bool) -> str:
        given: dict[str, Any] = {}
        for field in _fields(self):
            value = getattr(self, field.name)
            default = (
                field.default_factory() if field.default_factory is not MISSING else field.default
            )
            if field.init and (not terse or default is MISSING or value != default):
                given[field.name] = value
        name = name_of(type(self))
        if not terse:
            return f"{name}({', '.join(f'{key}={spell(value)}' for key, value in given.items())})"
        return spell_call(name, inspect.signature(type(self)), given)


def parse(text: str, kind: str) -> Any:
    """Parse ``text`` as a value of this ``kind``, one of `KINDS`."""
    tree = _tree(text, kind)
    try:
        return _read(tree, kind, text.strip())
    except RecursionError:
        raise _too_deep(text) from None


def parse_list(text: str, kind: str) -> tuple[Any, ...]:
    """Read a list of values of one kind, separated by commas; the text of each is a name or a call.

    >>> parse_list("decay(0.1, 0.5), warmup(0, 1, 5)", "schedule")
    (decay(0.1, 0.5), warmup(0, 1, 5))
    """
    tree = _tree(text, kind)
    try:
        return tuple(
            _read(node, kind, text.strip())
            for node in (tree.elts if isinstance(tree, ast.Tuple) else [tree])
        )
    except RecursionError:
        raise _too_deep(text) from None


def _tree(text: str, kind: str) -> ast.expr:
    if not isinstance(text, str) or len(text) > LONGEST_TEXT:
        raise SpellingError(
            f"cannot read {shown(text)}: a text of at most {LONGEST_TEXT} characters is needed. "
            f"{_SHAPE}"
        )
    text = text.strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's own grammar, which is wider
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        where = f" near column {error.offset}" if error.offset else ""
        hint = hint_for_path(text, kind) or hint_for_text(text, _names(kind))
        raise SpellingError(
            f"cannot read {shown(text)}{where}: {error.msg}. {hint}{_SHAPE}"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SpellingError(
            f"cannot read {shown(text)}: {str(error) or 'it is nested too deeply'}. {_SHAPE}"
        ) from None


def _too_deep(text: str) -> SpellingError:
    return SpellingError(f"cannot read {shown(text)}: it is nested too deeply. {_SHAPE}")


LONGEST_TEXT = 10_000
_SHAPE = (
    "Write calls of known names, numbers, strings, lists and '+', as in \"feddyn(alpha=0.01) + "
    'sam(rho=0.05)".'
)


def _read(node: ast.expr, kind: str | None, text: str) -> Any:
    match node:
        case ast.BinOp(op=ast.Add(), left=left, right=right) if kind in (None, "method"):
            return _read(left, "method", text) + _read(right, "method", text)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            return _call(name, args, keywords, kind, text)
        case ast.Name(id=name):
            return _call(name, [], [], kind, text)
    if kind is None:
        match node:
            case ast.Constant(value=bool() | str() | None):
                return node.value
            case ast.Constant(value=int() | float()):
                return _number(node, text)
            case ast.UnaryOp(
                op=ast.USub(), operand=ast.Constant(value=int() | float()) as positive
            ):
                return -_number(positive, text)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return tuple(_read(element, None, text) for element in elements)
    hint = hint_for_path(text, kind) or hint_for_text(text, _names(kind)) or QUOTES * (kind is None)
    where = hint if kind in (None, "method") else f"as {_a(kind)}. {hint}{_where(kind)} "
    raise SpellingError(
        f"cannot read {_source(node, text)} in {shown(text)}"
        f"{' ' if where != hint else '. '}{where}{_SHAPE}"
    )


def _number(node: ast.Constant, text: str) -> int | float:
    """A number; one like 1e3 is whole, as people mean it."""
    value = node.value
    assert isinstance(value, int | float)
    written = ast.get_source_segment(text, node) or ""
    if isinstance(value, float) and value.is_integer() and "." not in written and value <= 2**53:
        return int(value)
    if isinstance(value, int) and value.bit_length() > 256:
        raise SpellingError(
            f"cannot read {shown(text)}: {shown(written)} is too large for a number."
        )
    return value


def _source(node: ast.AST, text: str) -> str:
    return shown(ast.get_source_segment(text, node) or text)


def _call(
    name: str, args: list[ast.expr], keywords: list[ast.keyword], kind: str | None, text: str
) -> Any:
    entry = find(name, kind)
    for argument in args:
        if isinstance(argument, ast.Starred):
            raise SpellingError(f"cannot read {_source(argument, text)} in {shown(text)}. {_SHAPE}")
    positional = [_read(argument, None, text) for argument in args]
    named: dict[str, Any] = {}
    for keyword in keywords:
        if keyword.arg is None:
            raise SpellingError(f"cannot read '**' in {shown(text)}. {_SHAPE}")
        if keyword.arg in named:
            raise SpellingError(
                f"{name}() is given {shown(keyword.arg)} twice in {shown(text)}. Leave one out."
            )
        if keyword.arg not in entry.signature.parameters:
            known = list(entry.signature.parameters)
            raise SpellingError(
                f"{name}() has no argument {shown(keyword.arg)}.{nearest(keyword.arg, known)} "
                f"It takes: {', '.join(known) or 'nothing'}."
            )
        named[keyword.arg] = _read(keyword.value, None, text)
    try:
        entry.signature.bind(*positional, **named)
    except TypeError as error:
        takes = inspect.Signature(
            [one.replace(annotation=one.empty) for one in entry.signature.parameters.values()]
        )
        raise SpellingError(f"{name}{takes}: {error}.") from None
    return entry.make(*positional, **named)


def find(name: str, kind: str | None = None) -> RegisteredName:
    """The entry called ``name``; an error with the nearest right name if there is none of that
    kind."""
    _fill(kind)
    if name not in _REGISTRY:
        _fill()  # it may be a name of another kind
    entry = _REGISTRY.get(name)
    if entry and (kind is None or entry.kind == kind):
        return entry
    if entry and kind:
        near = nearest(name, _names(kind), likeness=0.9)  # it is no typing error
        hint = hint_for_path(name, kind) or hint_for_kind(name, entry.kind, kind)
        raise SpellingError(
            f"{shown(name)} is {_a(entry.kind)}, not {_a(kind)}.{near} {hint}{_where(kind)}"
        )
    path = hint_for_path(name, kind)
    hint = f" {path}" if path else f"{nearest(name, _names(kind))} {QUOTES * (kind is None)}"
    raise SpellingError(f"unknown {kind or 'name'} {shown(name)}.{hint}{_where(kind)}")


def _names(kind: str | None) -> list[str]:
    """The names of a kind, or all."""
    _fill(kind)
    return [entry.name for entry in _REGISTRY.values() if kind in (None, entry.kind)]


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _where(kind: str | None) -> str:
    if kind in ("method", "data set"):
        return f"`fedflat list {KINDS[kind]}` shows all of them."
    if kind is None:
        return "`fedflat list` shows all kinds of names."
    names = sorted(e.name for e in _REGISTRY.values() if e.kind == kind)
    return f"Known: {', '.join(names)}."
