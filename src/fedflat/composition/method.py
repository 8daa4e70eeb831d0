"""Methods: client pieces, server pieces and model averages; ``+`` combines two methods."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ParamSpec

from fedflat.client.piece import Piece
from fedflat.composition.info import MethodInfo
from fedflat.core.stage import Stage
from fedflat.errors import SettingError
from fedflat.registry.plain_values import plain
from fedflat.registry.specs import parse, register, spell_call
from fedflat.server.aggregators import Aggregator
from fedflat.server.averaging import ModelAverage
from fedflat.server.client_evaluation import ClientEvaluation
from fedflat.server.piece import ServerPiece

if TYPE_CHECKING:
    from fedflat.composition.cost import Cost
    from fedflat.topologies.topology import Topology

P = ParamSpec("P")
Named = Callable[[], None]
"""A function of which only the name and the docstring are used."""


@dataclass(frozen=True, repr=False)
class Method:
    """What clients do, what the server does, and what is evaluated besides the server's model.

    ``+`` sorts pieces by their stage, which is the order in the papers; `chain` keeps the written
    order.
    """

    client: tuple[Piece, ...] = ()
    """Client pieces, the one nearest to the data first."""
    server: tuple[ServerPiece, ...] = ()
    """Server pieces, the one nearest to the replies first."""
    averages: tuple[ModelAverage, ...] = ()
    """Averages of the server's models."""
    evaluations: tuple[ClientEvaluation, ...] = ()
    """What is measured at the clients."""
    weighting: str | None = None
    """"sized", "uniform", or None if any will do (then "sized")."""
    aggregator: Aggregator | None = None
    """What replaces the mean of the replies, or None."""
    topology: Topology | None = None
    """The topology, or None if any will do (then a star)."""
    virtual: int | None = None
    """Number of examples of a virtual client (FedVC). Clients are selected by size and weighted
    equally."""
    pooled: bool = False
    """True if all data are in one place: centralised training."""
    chained: bool = field(default=False, compare=False)
    """True if the pieces keep their written order."""
    text: str = field(default="", compare=False)
    """The text that makes the method."""

    def __post_init__(self) -> None:
        if not self.chained:
            object.__setattr__(self, "client", tuple(sorted(self.client, key=lambda p: p.stage)))
            object.__setattr__(self, "server", tuple(sorted(self.server, key=lambda p: p.stage)))
        _refuse_same_keys("client", self.client)
        _refuse_same_keys("server", self.server)
        _refuse_same_keys("evaluation", self.observers)
        self._refuse_conflicts()
        _refuse_double_steps("client", self.client, self.chained)
        _refuse_double_steps("server", self.server, self.chained)

    def _refuse_conflicts(self) -> None:
        """Refuse combinations that would run but have no meaning."""
        probes = [piece for piece in self.client if piece.stage is Stage.PROBE]
        if len(probes) > 1 and not self.chained:
            raise SettingError(
                f"{probes[0]} and {probes[1]} both choose where a client's gradient is taken. "
                "Leave one of them out, or nest them on purpose with chain(...)."
            )
        owners = [piece for piece in self.server if piece.owns_step]
        if len(owners) > 1:
            raise SettingError(
                f"{owners[0]} and {owners[1]} both decide where the server steps to, so one would "
                "undo the other. Leave one of them out."
            )
        for i, piece in enumerate(self.server):
            inner = self.server[:i] if self.chained else self.server
            for rate in (other for other in inner if piece.averages and other.stage is Stage.SCALE):
                raise SettingError(
                    f"{piece} averages the replies itself and decides where the server steps to, "
                    f"so there is nothing for {rate} to scale. Leave it out."
                )
        idle = [*self.server, *(one for one in (self.aggregator, self.topology) if one)]
        if self.pooled and idle:
            raise SettingError(
                f"centralised training has no server, so {idle[0]} has nothing to do. Leave it out."
            )

    def __repr__(self) -> str:
        return (
            self.text
            or f"Method(client={self.client}, server={self.server}, averages={self.averages})"
        )

    def __add__(self, other: object) -> Method:
        other = parse(other, "method") if isinstance(other, str) else other
        if not isinstance(other, Method):
            return NotImplemented
        return _join(self, other, f"{self} + {other}", chained=self.chained or other.chained)

    def __radd__(self, other: object) -> Method:
        if not isinstance(other, str):
            return NotImplemented
        first: Method = parse(other, "method")
        return first + self

    @property
    def reply_listeners(self) -> tuple[ModelAverage | ClientEvaluation, ...]:
        """Model averages and client evaluations that need every single reply."""
        return (*(average for average in self.averages if average.needs_replies), *self.evaluations)

    @property
    def observers(self) -> tuple[ModelAverage | ClientEvaluation, ...]:
        """What is measured besides the server's model."""
        return (*self.averages, *self.evaluations)

    @property
    def topology_settings(self) -> dict[str, Any]:
        """The run's settings that the method decides, by name.

        A user who sets them must set the same values.
        """
        found: dict[str, Any] = {} if self.topology is None else {"topology": self.topology}
        if self.virtual is not None:
            found |= {"sampler": "by_size", "virtual": self.virtual, "weighting": "uniform"}
        return found

    def info(self) -> MethodInfo:
        """What reports say about the method."""
        settings = {
            name: value if isinstance(value, int | str) else repr(value)
            for name, value in self.topology_settings.items()
        }
        return MethodInfo(self.stack(), settings)

    @property
    def cost(self) -> Cost:
        """Cost of a round for each client, and stored state."""
        from fedflat.composition.cost import cost  # it imports Method

        return cost(self)

    def stack(self) -> str:
        """Return the sorted pieces as text, the one nearest to the data first.

        >>> from fedflat import feddyn, sam
        >>> for part in (feddyn(alpha=0.1) + sam(rho=0.5)).stack().split("; "):
        ...     print(part)
        client: sam(rho=0.5) -> dual(alpha=0.1, by_size=False)
        server: dual(alpha=0.1, scale='paper')
        """
        aggregator = (self.aggregator,) if self.aggregator else ()
        parts = [
            ("client", self.client),
            ("replies", aggregator),
            ("server", self.server),
            ("evaluated", self.observers),
        ]
        lines = [
            f"{name}: {' -> '.join(p.full() for p in pieces)}" for name, pieces in parts if pieces
        ]
        if self.virtual:
            lines.append(f"virtual clients: {self.virtual} examples each, drawn by size")
        if self.topology:
            lines.append(f"topology: {self.topology}")
        return "; ".join(lines) or "client: plain steps; server: plain average"


def chain(*methods: Method) -> Method:
    """Join methods and keep their pieces in the written order, the first nearest to the data."""
    if not methods:
        raise SettingError(
            "chain() needs at least one method, as in chain(feddyn(alpha=0.1), sam(rho=0.05))."
        )
    for method in methods:
        if not isinstance(method, Method):
            raise SettingError(
                f"chain() joins methods, found {method!r}. Write them as in chain(feddyn(), sam())."
            )
    text = f"chain({', '.join(map(repr, methods))})"
    joined = replace(methods[0], chained=True)
    for method in methods[1:]:
        joined = _join(joined, replace(method, chained=True), text, chained=True, blend=False)
    return replace(joined, text=text)


def _join(a: Method, b: Method, text: str, *, chained: bool, blend: bool = True) -> Method:
    for where in ("client", "server"):
        if chained and blend and getattr(a, where) and getattr(b, where):
            raise SettingError(
                f"{a} + {b}: both have {where} pieces and one of them is a chain, whose order '+' "
                "would break. Write all of them inside the chain(...)."
            )
    if a.weighting and b.weighting and a.weighting != b.weighting:
        raise SettingError(
            f"{a} needs {a.weighting} weighting of clients, {b} needs {b.weighting} weighting. "
            "Leave one of them out."
        )
    if a.aggregator and b.aggregator:
        raise SettingError(
            f"{a.aggregator} and {b.aggregator} both replace the mean of the replies. Leave one of "
            "them out."
        )
    if a.topology and b.topology:
        raise SettingError(f"{a} and {b} both set the topology. Leave one of them out.")
    if a.virtual and b.virtual:
        raise SettingError(f"{a} and {b} both make clients virtual. Leave one of them out.")
    return Method(
        client=a.client + b.client if chained else _joined_probes(a.client + b.client),
        server=a.server + b.server,
        averages=a.averages + b.averages,
        evaluations=a.evaluations + b.evaluations,
        weighting=a.weighting or b.weighting,
        aggregator=a.aggregator or b.aggregator,
        topology=a.topology or b.topology,
        virtual=a.virtual or b.virtual,
        pooled=a.pooled or b.pooled,
        chained=chained,
        text=text,
    )


def _joined_probes(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """The pieces, with two that choose the point of the gradient joined if they can be."""
    probes = [piece for piece in pieces if piece.stage is Stage.PROBE]
    if len(probes) != 2:
        return pieces
    one, other = probes
    joined = one.joined(other) or other.joined(one)
    if joined is None:
        return pieces
    return (joined, *(piece for piece in pieces if piece is not one and piece is not other))


def _refuse_same_keys(
    where: str, pieces: Sequence[Piece | ServerPiece | ModelAverage | ClientEvaluation]
) -> None:
    for key, times in Counter(p.key for p in pieces).items():
        if times > 1:
            found = " and ".join(repr(p) for p in pieces if p.key == key)
            raise SettingError(
                f"two {where} pieces store their state under the name {key!r}: {found}. Leave one "
                "of them out."
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
                    f"{left} has a state, and {right} to its right makes {right.oracle_calls} "
                    f"{what}: the state would be updated {right.oracle_calls} times. "
                    + (
                        f"{remedy}."
                        if chained
                        else f"Keep one of them, or write {right} first in a chain(...)."
                    )
                )


def method(make: Callable[P, Method]) -> Callable[P, Method]:
    """Register a function that returns a `Method`. The method stores the text of the call.

    A function of the same name replaces an earlier one, as when a notebook's cell is run again. The
    names of fedflat's own methods cannot be replaced.

    make
        The function. Its arguments can be given in texts.
    """
    signature = inspect.signature(make)

    @functools.wraps(make)
    def make_method(*args: P.args, **kwargs: P.kwargs) -> Method:
        call = signature.bind(
            *plain(args), **{name: plain(value) for name, value in kwargs.items()}
        )
        text = spell_call(make.__name__, signature, dict(call.arguments))
        return replace(make(*call.args, **call.kwargs), text=text)

    register("method")(make_method)
    return make_method


def made_of(
    piece: Callable[P, Piece | ServerPiece | ModelAverage | Aggregator | Method],
) -> Callable[[Named], Callable[P, Method]]:
    """Register a method that is one piece or another method, with its arguments and defaults.

        @made_of(Sam)
        def sam() -> None:
            \"""Local sharpness-aware steps (Foret et al., ICLR 2021).\"""

    The function's name is the method's name, and its first line describes it.
    """

    def decorate(named: Named) -> Callable[P, Method]:
        @functools.wraps(named)
        def make(*args: P.args, **kwargs: P.kwargs) -> Method:
            return _method_of(piece(*args, **kwargs))

        signature = inspect.signature(piece).replace(return_annotation="Method")
        make.__signature__ = signature  # type: ignore[attr-defined]
        return method(make)

    return decorate


def _method_of(made: Piece | ServerPiece | ModelAverage | Aggregator | Method) -> Method:
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
