"""A method is a stack of pieces at the client, one at the server, and shadows; ``+`` puts two
together."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ParamSpec

from fedflat.client.piece import Piece
from fedflat.core.stage import Stage
from fedflat.errors import SettingError
from fedflat.registry.plain_values import plain
from fedflat.registry.specs import register, spell_call
from fedflat.server.aggregators import Aggregator
from fedflat.server.averaging import ModelAverage
from fedflat.server.client_evaluation import ClientEvaluation
from fedflat.server.piece import ServerPiece

if TYPE_CHECKING:
    from fedflat.composition.cost import Cost
    from fedflat.topologies.topology import Topology

P = ParamSpec("P")
Named = Callable[[], None]
"""A function of which only its name and its documentation are wanted."""


@dataclass(frozen=True, repr=False)
class Method:
    """What clients do, what the server does, what is evaluated besides the server's model.

    ``+`` orders pieces by their stage, which is the order of the papers; `chain` keeps the order
    written.
    """

    client: tuple[Piece, ...] = ()
    server: tuple[ServerPiece, ...] = ()
    averages: tuple[ModelAverage, ...] = ()
    evaluations: tuple[ClientEvaluation, ...] = ()
    """What is measured at the clients themselves."""
    weighting: str | None = None
    """"sized", "uniform", or None for no opinion (then "sized")."""
    aggregator: Aggregator | None = None
    """What replaces the mean of the replies."""
    topology: Topology | None = None
    """Who talks to whom, or None for no opinion (then a star)."""
    virtual: int | None = None
    """Examples of each visit where clients are virtual: drawn by their sizes, and counting alike
    (FedVC)."""
    pooled: bool = False
    """Whether all data are brought to one place: centralised training."""
    chained: bool = field(default=False, compare=False)
    text: str = field(default="", compare=False)
    """The text that makes it."""

    def __post_init__(self) -> None:
        if not self.chained:
            object.__setattr__(self, "client", tuple(sorted(self.client, key=lambda p: p.stage)))
            object.__setattr__(self, "server", tuple(sorted(self.server, key=lambda p: p.stage)))
        _refuse_same_keys("client", self.client)
        _refuse_same_keys("server", self.server)
        _refuse_same_keys("evaluation", self.observers)
        self._refuse_nonsense()
        _refuse_double_steps("client", self.client, self.chained)
        _refuse_double_steps("server", self.server, self.chained)

    def _refuse_nonsense(self) -> None:
        """Refuse what would run but mean nothing."""
        probes = [piece for piece in self.client if piece.stage is Stage.PROBE]
        if len(probes) > 1 and not self.chained:
            raise SettingError(
                f"{probes[0]} and {probes[1]} both choose where a client's gradient is taken. Leave one of them out, "
                "or nest them on purpose with chain(...)."
            )
        owners = [piece for piece in self.server if piece.owns_step]
        if len(owners) > 1:
            raise SettingError(
                f"{owners[0]} and {owners[1]} both decide where the server steps to, so one would undo the other. "
                "Leave one of them out."
            )
        for i, piece in enumerate(self.server):
            scaled = self.server[:i] if self.chained else self.server
            for rate in (
                other for other in scaled if piece.averages and other.stage is Stage.SCALE
            ):
                raise SettingError(
                    f"{piece} averages the replies itself and decides where the server steps to, so there is nothing "
                    f"for {rate} to scale. Leave it out."
                )
        idle = [*self.server, *(one for one in (self.aggregator, self.topology) if one)]
        if self.pooled and idle:
            raise SettingError(
                f"centralised training has no server, so {idle[0]} has nothing to do. Leave it out."
            )

    def __repr__(self) -> str:
        return (
            self.text
            or f"Method(client={self.client}, server={self.server}, shadows={self.averages})"
        )

    def __add__(self, other: object) -> Method:
        if not isinstance(other, Method):
            return NotImplemented
        return _join(self, other, f"{self} + {other}", chained=self.chained or other.chained)

    @property
    def reply_listeners(self) -> tuple[ModelAverage | ClientEvaluation, ...]:
        """Shadows and protocols that want every single reply."""
        return (*(average for average in self.averages if average.needs_replies), *self.evaluations)

    @property
    def observers(self) -> tuple[ModelAverage | ClientEvaluation, ...]:
        """What is measured besides the server's model."""
        return (*self.averages, *self.evaluations)

    @property
    def topology_settings(self) -> dict[str, Any]:
        """The settings of a run that it decides, by name; whoever says them must say the same."""
        found: dict[str, Any] = {} if self.topology is None else {"topology": self.topology}
        if self.virtual is not None:
            found |= {"sampler": "by_size", "virtual": self.virtual, "weighting": "uniform"}
        return found

    @property
    def cost(self) -> Cost:
        """What a round costs each client, and what is kept."""
        from fedflat.composition.cost import cost  # which runs a method dry, and so knows methods

        return cost(self)

    def stack(self) -> str:
        """The sorted stacks, left near the data, for people to read.

        >>> from fedflat import feddyn, sam
        >>> print((feddyn(alpha=0.1) + sam(rho=0.5)).stack())
        client: sam(rho=0.5) -> dual(alpha=0.1, by_size=False); server: dual(alpha=0.1, scale='paper')
        """
        aggregator = (self.aggregator,) if self.aggregator else ()
        parts = [
            ("client", self.client),
            ("replies", aggregator),
            ("server", self.server),
            ("evaluated", self.observers),
        ]
        said = [
            f"{name}: {' -> '.join(p.full() for p in pieces)}" for name, pieces in parts if pieces
        ]
        said += (
            [f"virtual clients: {self.virtual} examples a visit, drawn by size"]
            if self.virtual
            else []
        )
        said += [f"topology: {self.topology}"] if self.topology else []
        return "; ".join(said) or "client: plain steps; server: plain average"


def chain(*methods: Method) -> Method:
    """Join methods and keep their pieces in the order written, first nearest to the data."""
    if not methods:
        raise SettingError(
            "chain() needs at least one method, as in chain(feddyn(alpha=0.1), sam(rho=0.05))."
        )
    for method in methods:
        if not isinstance(method, Method):
            raise SettingError(
                f"chain() joins methods, found {method!r}. Write them as in chain(feddyn(), sam())."
            )
    said = f"chain({', '.join(map(repr, methods))})"
    whole = replace(methods[0], chained=True)
    for method in methods[1:]:
        whole = _join(whole, replace(method, chained=True), said, chained=True, blend=False)
    return replace(whole, text=said)


def _join(a: Method, b: Method, said: str, *, chained: bool, blend: bool = True) -> Method:
    for where in ("client", "server"):
        if chained and blend and getattr(a, where) and getattr(b, where):
            raise SettingError(
                f"{a} + {b}: both bring {where} pieces and one of them is a chain, whose order '+' would "
                "break. Write all of them inside the chain(...)."
            )
    if a.weighting and b.weighting and a.weighting != b.weighting:
        raise SettingError(
            f"{a} averages clients {a.weighting}, {b} {b.weighting}: they cannot stand together."
        )
    if a.aggregator and b.aggregator:
        raise SettingError(
            f"{a.aggregator} and {b.aggregator} both replace the mean of the replies. Leave one of them out."
        )
    if a.topology and b.topology:
        raise SettingError(f"{a} and {b} both say who talks to whom. Leave one of them out.")
    if a.virtual and b.virtual:
        raise SettingError(f"{a} and {b} both make clients virtual. Leave one of them out.")
    return Method(
        client=a.client + b.client,
        server=a.server + b.server,
        averages=a.averages + b.averages,
        evaluations=a.evaluations + b.evaluations,
        weighting=a.weighting or b.weighting,
        aggregator=a.aggregator or b.aggregator,
        topology=a.topology or b.topology,
        virtual=a.virtual or b.virtual,
        pooled=a.pooled or b.pooled,
        chained=chained,
        text=said,
    )


def _refuse_same_keys(
    where: str, pieces: Sequence[Piece | ServerPiece | ModelAverage | ClientEvaluation]
) -> None:
    for key, times in Counter(p.key for p in pieces).items():
        if times > 1:
            found = " and ".join(repr(p) for p in pieces if p.key == key)
            raise SettingError(
                f"two {where} pieces keep their memory under the name {key!r}: {found}. Leave one of them out."
            )


def _refuse_double_steps(where: str, pieces: Sequence[Piece | ServerPiece], chained: bool) -> None:
    what = "gradients a step" if where == "client" else "exchanges a round"
    for i, left in enumerate(pieces):
        for right in pieces[i + 1 :]:
            if left.stateful and right.oracle_calls > 1:
                sorts = right.stage < left.stage
                remedy = f"Write {right} first" + (
                    ", or add them with '+', which orders them" if sorts else ""
                )
                raise SettingError(
                    f"{left} keeps a memory, and {right} to its right asks for {right.oracle_calls} {what}: the memory "
                    f"would be moved {right.oracle_calls} times. "
                    + (
                        f"{remedy}."
                        if chained
                        else f"Keep one of them, or write {right} first in a chain(...)."
                    )
                )


def method(make: Callable[P, Method]) -> Callable[P, Method]:
    """Register a function that returns a `Method`; what it returns remembers how it was said.

    A function of the same name takes its place, as when a notebook's cell is run again, unless it
    is one of fedflat's.
    """
    signature = inspect.signature(make)

    @functools.wraps(make)
    def say(*args: P.args, **kwargs: P.kwargs) -> Method:
        call = signature.bind(
            *plain(args), **{name: plain(value) for name, value in kwargs.items()}
        )
        said = spell_call(make.__name__, signature, dict(call.arguments))
        return replace(make(*call.args, **call.kwargs), text=said)

    register("method")(say)
    return say


def made_of(
    piece: Callable[P, Piece | ServerPiece | ModelAverage | Aggregator | Method],
) -> Callable[[Named], Callable[P, Method]]:
    """Register a method that is one piece, or another method, under a name of its own; with its
    arguments and defaults.

        @made_of(Sam)
        def sam() -> None:
            \"""Local sharpness-aware steps (Foret et al., ICLR 2021).\"""

    The function's name is the name, and its first line says what it is.
    """

    def name(named: Named) -> Callable[P, Method]:
        @functools.wraps(named)
        def make(*args: P.args, **kwargs: P.kwargs) -> Method:
            return _alone(piece(*args, **kwargs))

        takes = inspect.signature(piece).replace(return_annotation="Method")
        make.__signature__ = takes  # type: ignore[attr-defined]
        return method(make)

    return name


def _alone(made: Piece | ServerPiece | ModelAverage | Aggregator | Method) -> Method:
    match made:
        case Piece():
            return Method(client=(made,))
        case ServerPiece():
            return Method(server=(made,))
        case ModelAverage():
            return Method(averages=(made,))
        case Aggregator():
            return Method(aggregator=made)
    return made


register("method")(chain)
