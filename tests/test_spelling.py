"""The text language: every text that is read prints again, others are refused, and nothing is
evaluated."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflat.composition.method import Method
from fedflat.core.schedules import Decay, Warmup
from fedflat.errors import FedflatError, SpellingError
from fedflat.registry.builtin_modules import KIND_HOMES, import_all
from fedflat.registry.specs import (
    TextSpec,
    find,
    parse,
    parse_list,
    register,
    registered,
    spell,
    spell_call,
)

positive = st.floats(1e-6, 0.99)
schedules = st.one_of(
    st.builds("warmup({!r}, {!r}, {})".format, positive, positive, st.integers(0, 9)),
    st.builds("decay({!r}, {!r})".format, positive, positive),
    st.builds("steps([0, {}], [{!r}, {!r}])".format, st.integers(1, 9), positive, positive),
)
scalars = st.one_of(positive.map(repr), schedules)
pieces = {
    "sam": st.builds("sam(rho={})".format, scalars),
    "prox": st.builds("prox({})".format, scalars),
    "mixup": st.builds("mixup(alpha={})".format, scalars),
    "clip": st.builds("clip(norm={})".format, scalars),
    "cutout": st.builds("cutout(side={})".format, st.integers(1, 20)),
    "server_sgd": st.builds("server_sgd(lr={})".format, scalars),
    "adam": st.builds(
        "fedadam(lr={}, flavour={!r})".format, scalars, st.sampled_from(["paper", "torch"])
    ),
    "dual": st.builds("feddyn(alpha={})".format, scalars),
    "swa": st.builds("swa(start={}, cycle={})".format, st.integers(0, 9), st.integers(1, 9)),
    "wima": st.builds(
        "wima({}, scope={!r})".format, st.integers(1, 9), st.sampled_from(["all", "classifier"])
    ),
}
sums = st.lists(st.sampled_from(sorted(pieces)), min_size=1, unique=True).flatmap(
    lambda names: st.tuples(*(pieces[name] for name in names)).map(" + ".join)
)


@given(sums)
@settings(max_examples=60)
def test_its_text_is_printed_again(text: str) -> None:
    method = parse(text, "method")
    assert isinstance(method, Method)
    again = parse(repr(method), "method")
    assert again == method
    assert repr(again) == repr(method)


@given(sums)
@settings(max_examples=30)
def test_order_and_brackets_of_a_sum_do_not_matter(text: str) -> None:
    parts = text.split(" + ")
    backwards = parse(" + ".join(reversed(parts)), "method")
    forwards = parse(text, "method")
    nested = parse(
        "".join(f"({part} + " for part in parts[:-1]) + parts[-1] + ")" * (len(parts) - 1), "method"
    )
    assert nested == forwards
    assert set(backwards.client) == set(forwards.client)
    assert [p.stage for p in backwards.client] == [p.stage for p in forwards.client]
    assert backwards.server == forwards.server


values = st.recursive(
    st.one_of(
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.none(),
        st.text(),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@dataclass(frozen=True, repr=False)
class Thing(TextSpec):
    """For this test only."""

    a: Any
    b: Any = 1
    key = "thing"


@given(values, values)
def test_values_keep_their_value_and_kind(a: Any, b: Any) -> None:
    """What ``spell`` writes, the language reads: here by way of any argument."""
    from fedflat.registry import specs as spelling

    entry = spelling.RegisteredName("thing", "model", Thing, __name__)
    spelling._REGISTRY["thing"] = entry
    try:
        thing = Thing(a, b)
        read = parse(repr(thing), "model")
        assert read == thing
        assert repr(read) == repr(thing)
        assert repr(read.a) == repr(a)
        assert parse(thing.full(), "model") == thing
    finally:
        del spelling._REGISTRY["thing"]


def test_defaults_are_left_out() -> None:
    assert repr(Thing(2)) == "thing(2)"
    assert repr(Thing(2, 1)) == "thing(2)"
    assert repr(Thing(2, b=(1, "x"))) == "thing(2, b=[1, 'x'])"
    assert Thing(2).full() == "thing(a=2, b=1)"
    assert spell([1, (2.5, None)]) == "[1, [2.5, None]]"


def test_required_arguments_by_place_and_others_by_name() -> None:
    def make(a: int, *rest: int, b: int, c: int = 0) -> None: ...

    signature = inspect.signature(make)
    assert (
        spell_call("make", signature, {"a": 1, "rest": (2, 3), "b": 4, "c": 5})
        == "make(1, 2, 3, b=4, c=5)"
    )


FORBIDDEN = [
    "",
    "   ",
    "1",
    "'fedavg'",
    "None",
    "__import__('os').system('true')",
    "__import__('os')",
    "lambda: fedavg()",
    "fedavg().client",
    "fedavg.__class__",
    "sam(rho=sam.__doc__)",
    "[fedavg() for _ in [1]]",
    "(f for f in [1])",
    "f'{fedavg()}'",
    "sam(rho=f'{1}')",
    "fedavg() - sam()",
    "fedavg() * 2",
    "fedavg() + 1",
    "1 + fedavg()",
    "fedavg() + 'sam'",
    "fedavg() if True else sam()",
    "fedavg() and sam()",
    "not fedavg()",
    "fedavg() == sam()",
    "sam(rho=1 + 1)",
    "sam(rho=2**3)",
    "sam(rho=1j)",
    "sam(rho=b'1')",
    "sam(rho=...)",
    "sam(rho={'a': 1})",
    "sam(rho={1})",
    "sam(*[0.1])",
    "sam(**{'rho': 0.1})",
    "sam(rho=0.1, rho=0.2)",
    "sam(0.1, 0.2)",
    "sam(0.1, rho=0.2)",
    "(x := fedavg())",
    "await fedavg()",
    "fedavg()()",
    "fedavg()[0]",
    "fedavg(); sam()",
    "fedavg()\nsam()",
    "sam(rho=",
    "sam(rho=0.1))",
    "sam(rho=not 1)",
    "sam(rho=~1)",
    "sam(rho=--1)",
    "sam(rho=nan)",
    "sam(rho=inf)",
    "sam(rho=print)",
    "open('/etc/passwd')",
    "eval('1')",
    "sam(rho=open('x'))",
    "warmup(0, 1, 2)",
    "digits()",
    "\x00",
    "\ud800",
    "fedavg(" * 300,
    "-" * 5000 + "1",
    "(" * 5000 + ")" * 5000,
    "[" * 200 + "]" * 200,
    "fedavg()" + " + fedavg()" * 20000,
    "fedavg()" + " + fedavg()" * 1500,
    "sam(rho=" + "-" * 700 + "1)",
    "chain(" * 3000 + "fedavg()" + ")" * 3000,
    "sam(rho=" + "9" * 5000 + ")",
]


@pytest.mark.parametrize("text", FORBIDDEN, ids=lambda text: ascii(text)[:40])
def test_what_is_not_in_the_language(text: str) -> None:
    with pytest.raises(SpellingError):
        parse(text, "method")


def test_nothing_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("evaluated")

    import builtins

    for name in ("eval", "exec", "__import__"):
        monkeypatch.setattr(builtins, name, never)
    for text in ("__import__('os')", "eval('1')", "sam(rho=exec('1'))"):
        with pytest.raises(SpellingError):
            parse(text, "method")
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("feddin()", "unknown method 'feddin'. Did you mean 'feddyn'?"),
        ("sam(roh=0.1)", "sam() has no argument 'roh'. Did you mean 'rho'? It takes: rho."),
        ("fedavg(lr=1)", "fedavg() has no argument 'lr'. It takes: nothing."),
        ("sam(rho=warmpu(0, 1, 2))", "unknown name 'warmpu'. Did you mean 'warmup'?"),
        (
            "digits()",
            "'digits' is a data set, not a method. A data set is given as on (--on). `fedflat list "
            "methods` shows all of them.",
        ),
        ("sam(rho=0.1, rho=0.2)", "sam() is given 'rho' twice"),
        ("sam(0.1, 0.2)", "sam(rho"),
        ("sam(rho=", "cannot read 'sam(rho=' near column"),
    ],
)
def test_errors_help(text: str, hint: str) -> None:
    with pytest.raises(SpellingError) as caught:
        parse(text, "method")
    assert hint in str(caught.value)


def test_other_kinds() -> None:
    with pytest.raises(SpellingError, match=r"'sam' is a method, not a schedule\. Known: cosine"):
        parse("sam()", "schedule")
    with pytest.raises(
        SpellingError, match=r"is a method, not a topology\. Did you mean 'chains'\?"
    ):
        parse("chain()", "topology")
    with pytest.raises(SpellingError, match="Did you mean 'digits'"):
        parse("digit()", "data set")
    with pytest.raises(SpellingError):
        parse("digits() + digits()", "data set")
    assert repr(parse("mlp([8, 4])", "model")) == "mlp(hidden=[8, 4])"
    assert find("sam").kind == "method"


arguments = st.one_of(
    st.sampled_from(
        [
            "None",
            "True",
            "'x'",
            "''",
            "[]",
            "[1, 'a']",
            "0",
            "-1",
            "1",
            "2.5",
            "1e999",
            "1e400",
            "sam()",
            "warmup(0, 1, 2)",
            "decay(-1, 0.5)",
            "iid()",
            "'paper'",
            "'torch'",
            "'repo'",
            "'all'",
        ]
    ),
    st.integers(-3, 10**30).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)


@pytest.mark.parametrize("entry", list(registered("method")), ids=lambda entry: entry.name)
@settings(max_examples=25)
@given(data=st.data())
def test_any_argument_is_taken_or_refused_with_an_error_of_ours(
    entry: Any, data: st.DataObject
) -> None:
    parameters = list(entry.signature.parameters.values())
    if entry.name == "chain":
        given_arguments = data.draw(st.lists(arguments, max_size=3))
    else:
        names = (
            data.draw(st.lists(st.sampled_from([p.name for p in parameters]), unique=True))
            if parameters
            else []
        )
        given_arguments = [f"{name}={data.draw(arguments)}" for name in names]
    text = f"{entry.name}({', '.join(given_arguments)})"
    try:
        method = parse(text, "method")
    except FedflatError:
        return
    assert parse(repr(method), "method") == method


def test_a_name_of_no_kind_is_refused() -> None:
    with pytest.raises(
        SpellingError,
        match=r"there is no kind 'dataset'\. Did you mean 'data set'\? Known: method, ",
    ):
        register("dataset", "mine")


@pytest.mark.parametrize("kind", KIND_HOMES)
def test_kinds_that_are_read_alone_are_all_in_their_modules(kind: str) -> None:
    import_all()
    homes = tuple(f"fedflat.{home}" for home in KIND_HOMES[kind])
    ours = [
        entry.make.__module__
        for entry in registered(kind)
        if entry.make.__module__.startswith("fedflat.")
    ]
    assert all(module.startswith(homes) for module in ours)
    assert bool(ours) == bool(homes)


def test_a_list_is_read_item_by_item() -> None:
    assert parse_list("decay(0.1, 0.5), warmup(0, 1, 5),", "schedule") == (
        Decay(0.1, 0.5),
        Warmup(0, 1, 5),
    )
    assert parse_list("decay(0.1, 0.5)", "schedule") == (Decay(0.1, 0.5),)
    for wrong in ("decay(0.1, 0.5), 3", "decay(0.1, 0.5); 3", "fedavg,", "(((" * 99):
        with pytest.raises(SpellingError):
            parse_list(wrong, "schedule")
