"""A default is written once: in the piece, or in the method if the piece has none."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING, dataclass, fields

import pytest

import fedflat as ff
from fedflat.client.sharpness import Sam
from fedflat.registry import specs as spelling
from fedflat.registry.builtin_modules import import_all
from fedflat.registry.specs import RegisteredName, registered

OURS = [
    entry for entry in registered("method") if entry.make.__module__.startswith("fedflat.methods.")
]


def literals(entry: RegisteredName) -> set[str]:
    """The arguments whose default is a number, a text or a flag in the method's own lines."""
    [function] = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(entry.make)))).body
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args.args[len(function.args.args) - len(function.args.defaults) :]
    pairs = zip(arguments, function.args.defaults, strict=True)
    return {argument.arg for argument, default in pairs if isinstance(default, ast.Constant)}


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: entry.name)
def test_a_default_that_a_piece_has_is_not_written_again(entry: RegisteredName) -> None:
    made = entry.make()
    pieces = [
        *made.client,
        *made.server,
        *made.averages,
        *([made.aggregator] if made.aggregator else []),
    ]
    known = {
        (field.name, field.default)
        for piece in pieces
        for field in fields(piece)
        if field.default is not MISSING
    }
    output = {(name, parameter.default) for name, parameter in entry.signature.parameters.items()}
    twice = {name for name, _ in known & output} & literals(entry)
    assert not twice, (
        f"{entry.name}: take these defaults from the piece, as in rho=Sam.rho, or use made_of"
    )


def test_made_of_takes_arguments_defaults_and_checks_from_the_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import_all()  # what is registered from here on is forgotten afterwards
    monkeypatch.setattr(spelling, "_REGISTRY", dict(spelling._REGISTRY))

    @dataclass(frozen=True, repr=False)
    class Steep(Sam):
        rho: float = 0.3
        key = "steep"

    @ff.made_of(Steep)
    def steep() -> None:
        """Steeper."""

    @ff.made_of(steep)
    def fedsteep() -> None:
        """FedAvg with it."""

    assert str(inspect.signature(steep)) == "(rho: 'float' = 0.3) -> 'Method'"
    assert inspect.signature(fedsteep) == inspect.signature(steep)
    assert steep().client == fedsteep().client == (Steep(0.3),)
    assert repr(ff.parse("fedsteep(rho=0.5) + swa()", "method")) == "fedsteep(rho=0.5) + swa()"
    assert spelling.find("fedsteep").summary == "FedAvg with it."
    with pytest.raises(ff.SettingError, match="rho"):
        steep(-1)


def test_made_of_takes_a_piece_of_any_kind() -> None:
    assert len(ff.sam().client) == len(ff.server_sgd().server) == len(ff.ema().averages) == 1
    assert ff.median().aggregator is not None
