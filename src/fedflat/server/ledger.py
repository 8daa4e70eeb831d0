"""The cost of a run: bytes, models, examples and seconds. It does not need torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fedflat.text_table import duration


@dataclass(frozen=True)
class Ledger:
    """The cost of a run so far."""

    down: int = 0
    """Bytes from the server to clients."""
    up: int = 0
    """Bytes from clients to the server."""
    c2c: int = 0
    """Bytes from client to client, in chains."""
    samples: int = 0
    """Examples trained on, epochs counted."""
    training: float = 0.0
    """Seconds in exchanges and server steps."""
    seconds: float = 0.0
    """Seconds in all."""
    evaluation: float = 0.0
    """Seconds in evaluations."""
    models_s2c: int = 0
    """Models from the server to clients: vectors of the model's size, as papers count them."""
    models_c2s: int = 0
    """Models from clients to the server."""
    models_c2c: int = 0
    """Models from client to client."""
    missing: int = 0
    """Requests without a usable reply."""
    clock: float | None = None
    """Simulated seconds on the clients' devices, if the run has a clock."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """The same of each slot, where there are several."""
    busy: Mapping[str, float] = field(default_factory=dict)
    """Until when clients work, by client, where slots share clients."""

    @property
    def sent(self) -> int:
        """Bytes in all directions."""
        return self.down + self.up + self.c2c

    @property
    def spent(self) -> dict[str, Any]:
        """All counts by name, without those between clients, of failures and of simulated time if
        there are none."""
        perhaps: dict[str, Any] = {
            "c2c": 0,
            "models_c2c": 0,
            "missing": 0,
            "clock": None,
            "clocks": {},
        }
        named = {name: value for name, value in asdict(self).items() if name != "busy"}
        return {name: value for name, value in named.items() if value != perhaps.get(name, ...)}

    @property
    def models(self) -> int:
        """Models in all directions."""
        return self.models_s2c + self.models_c2s + self.models_c2c

    def plus(self, **more: float) -> Ledger:
        """The same with counts added, by name."""
        new = object.__new__(Ledger)  # for every reply: `replace` would go through all fields
        vars(new).update(vars(self))
        for name, count in more.items():
            vars(new)[name] += count
        return new

    def until(self, clock: float, slot: str | None = None) -> Ledger:
        """The same at a later simulated time, of a slot if there are several."""
        clocks = self.clocks if slot is None else {**self.clocks, slot: clock}
        return replace(self, clock=max(self.clock or 0.0, clock), clocks=clocks)

    def with_clocks(self, clocks: Mapping[str, float]) -> Ledger:
        """The same with the simulated time of all slots set."""
        return replace(self, clocks=clocks)

    def at_work(self, busy: Mapping[int, float]) -> Ledger:
        """The same with clients that work until then; those done before all slots are dropped."""
        least = min(self.clocks.values(), default=0.0)
        return replace(
            self, busy={str(client): until for client, until in busy.items() if until > least}
        )

    def with_time(self, training: float, seconds: float, evaluation: float = 0.0) -> Ledger:
        """The same with more time spent."""
        return self.plus(training=training, seconds=seconds, evaluation=evaluation)


def time_spent(ledgers: Sequence[Ledger]) -> str:
    """How long runs took: training, evaluation, and the rest.

    >>> time_spent([Ledger(training=70, seconds=100, evaluation=25)])
    '1m40s (training 1m10s, evaluation 25s, other 5s)'
    >>> time_spent([Ledger(training=70, seconds=100)])  # of a version that did not measure it
    '1m40s (training 1m10s)'
    """
    total, training, evaluation = (
        sum(getattr(one, name) for one in ledgers) for name in ("seconds", "training", "evaluation")
    )
    parts = f"training {duration(training)}"
    if evaluation:
        other = max(0.0, total - training - evaluation)
        parts += f", evaluation {duration(evaluation)}, other {duration(other)}"
    return f"{duration(total)} ({parts})"
