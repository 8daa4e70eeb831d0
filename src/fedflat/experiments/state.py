"""Where a run stands between two rounds, and how that is laid out in groups of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from fedflat.core.flat import Model
from fedflat.core.json_schema import check
from fedflat.core.messages import Broadcast
from fedflat.errors import FedflatError, RunError
from fedflat.execution.client_states import ClientStates
from fedflat.experiments.run_folder.checkpoints import Group, Store
from fedflat.experiments.run_folder.jsonl_log import LOGS, LogPosition
from fedflat.experiments.run_folder.schema import CHECKPOINT
from fedflat.files import Damaged
from fedflat.server.piece import ServerState
from fedflat.topologies.topology import SERVER

CLIENTS = "clients"
"""The group that says where the clients' memories are."""


@dataclass(frozen=True)
class Ledger:
    """What a run has cost so far."""

    down: int = 0
    """Bytes from the server to clients."""
    up: int = 0
    """Bytes from clients to the server."""
    c2c: int = 0
    """Bytes from client to client, in chains."""
    samples: int = 0
    """Examples trained on, epochs counted."""
    training: float = 0.0
    """Seconds in exchanges."""
    seconds: float = 0.0
    """Seconds in all."""
    models_s2c: int = 0
    """Models from the server to clients: vectors of the model's size, as the papers count
    exchanges."""
    models_c2s: int = 0
    """Models from clients to the server."""
    models_c2c: int = 0
    """Models from client to client."""
    missing: int = 0
    """Visits that ended without a reply that could be used."""
    clock: float | None = None
    """Simulated seconds on the clients' devices, if the run has a clock."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """The same of each slot, where there are several."""
    busy: Mapping[str, float] = field(default_factory=dict)
    """Clients that are at work when a slot begins its next round, and until when, where slots share
    clients."""

    @property
    def sent(self) -> int:
        """Bytes in all directions."""
        return self.down + self.up + self.c2c

    @property
    def spent(self) -> dict[str, Any]:
        """All of it by name; what goes from client to client, and who was missing, only where there
        is something, and simulated time only where there is a clock."""
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

    def plus(self, **more: int) -> Ledger:
        """The same with more sent, trained on, or missing, by the names of its counts."""
        new = object.__new__(Ledger)  # for every reply: `replace` would go through all fields
        vars(new).update(vars(self))
        for name, count in more.items():
            vars(new)[name] += count
        return new

    def until(self, clock: float, slot: str | None = None) -> Ledger:
        """The same at a later simulated time, of a slot if there are several."""
        clocks = self.clocks if slot is None else {**self.clocks, slot: clock}
        return replace(self, clock=max(self.clock or 0.0, clock), clocks=clocks)

    def at_work(self, busy: Mapping[int, float]) -> Ledger:
        """The same with those at work until then; who is done before any slot goes on is of no
        interest."""
        least = min(self.clocks.values(), default=0.0)
        return replace(
            self, busy={str(client): until for client, until in busy.items() if until > least}
        )

    def with_time(self, training: float, seconds: float) -> Ledger:
        """The same with more time spent."""
        return replace(self, training=self.training + training, seconds=self.seconds + seconds)


@dataclass
class RunState:
    """All that changes from round to round."""

    round: int
    models: dict[str, Model]
    """The server's, by slot."""
    server: dict[str, ServerState]
    """What the server's pieces remember, by slot."""
    averages: dict[str, dict[str, Tensor]]
    clients: ClientStates = field(default_factory=ClientStates)
    ledger: Ledger = Ledger()
    sent: dict[int, Broadcast] = field(default_factory=dict)
    """What somebody is still at work on, by the round in which it was sent; nothing where rounds
    wait for replies."""

    @property
    def model(self) -> Model:
        """The server's model, where it has one."""
        [model] = self.models.values()
        return model

    def groups(self) -> dict[str, Group]:
        """The tensors in groups; what changes together sits together. Clients' memories are in a
        file of their own."""
        groups: dict[str, Group] = {}
        for slot, model in self.models.items():
            at = "" if slot == SERVER else f"slot/{slot}/"
            groups[f"{at}model"] = {"params": model.params, "buffers": model.buffers}
            groups |= {
                f"{at}server/{key}": state for key, state in self.server.get(slot, {}).items()
            }
        for round, broadcast in self.sent.items():
            extras = {
                f"{key}/{name}": tensor
                for key, named in broadcast.extras.items()
                for name, tensor in named.items()
            }
            groups[f"sent/{round}"] = {
                "params": broadcast.params,
                "buffers": broadcast.buffers,
                **extras,
            }
        for key, notes in self.averages.items():
            groups[f"shadow/{key}"] = {}  # there, even with nothing to note yet
            for name, tensor in notes.items():
                groups[f"shadow/{key}/{name}"] = {"value": tensor}
        return groups | {CLIENTS: self.clients.table(self.round)}

    def facts(self) -> dict[str, Any]:
        """The numbers that are not tensors."""
        busy = {"busy": dict(self.ledger.busy)} if self.ledger.busy else {}
        return {"ledger": self.ledger.spent | busy}


def read_checkpoint(
    store: Store, round: int, identity: str, clients: ClientStates
) -> tuple[RunState, dict[str, LogPosition]]:
    """Where the run ``identity`` stood at a checkpoint, and how long its diaries were; ``clients``
    are restored.

    `Damaged` if the checkpoint is not what was written; an error if it is that of another run.
    """
    groups, facts = store.read(round)
    check(facts, CHECKPOINT)
    if facts["run"] != identity:
        raise RunError(
            f"{store.folder}: the checkpoint of round {round} is not of this run, but of another one. Put back the "
            "run's own, or remove the folder to start from the beginning."
        )
    try:
        clients.restore(
            {known: store.group(known, CLIENTS) for known in store.rounds() if known <= round}
        )
        run = state_of_groups(round, groups, facts, clients)
    except FedflatError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise Damaged(f"its tensors are not those of a run: {error}") from None
    return run, {name: LogPosition(**facts[name]) for name in LOGS}


def last_state(folder: Path, identity: str) -> RunState:
    """Where a run stands, by its newest checkpoint that is whole. Nothing in the folder is
    changed."""
    store = Store(folder / "checkpoint")
    for round in store.rounds():
        try:
            return read_checkpoint(store, round, identity, ClientStates(folder=store.folder))[0]
        except Damaged:
            continue
    raise RunError(
        f"{folder} has no checkpoint that can be read: there is no model to look at. Run it again, or "
        f"`fedflat resume {folder}`."
    )


def state_of_groups(
    round: int, groups: dict[str, Group], facts: dict[str, Any], clients: ClientStates
) -> RunState:
    """What `RunState.groups` and `RunState.facts` describe, with the memories that ``clients`` has
    restored."""
    models: dict[str, Model] = {}
    states: dict[str, ServerState] = {}
    averages: dict[str, dict[str, Tensor]] = {}
    sent: dict[int, Broadcast] = {}
    for name, group in groups.items():
        slot, name = name.split("/", 2)[1:] if name.startswith("slot/") else (SERVER, name)
        kind, _, rest = name.partition("/")
        if kind == "model":
            models[slot] = Model(group["params"], group["buffers"])
        elif kind == "sent":
            sent[int(rest)] = _mail(int(rest), group)
        elif kind == "server":
            states.setdefault(slot, {})[rest] = group
        elif kind == "shadow":
            key, _, note = rest.partition("/")
            notes = averages.setdefault(key, {})
            if note:
                notes[note] = group["value"]
    if not models:
        raise KeyError("model")
    states = {slot: states.get(slot, {}) for slot in models}
    return RunState(round, models, states, averages, clients, Ledger(**facts["ledger"]), sent)


def _mail(round: int, group: Group) -> Broadcast:
    """What was sent in a round; what was asked, and at which rate, the run's settings say."""
    extras: dict[str, dict[str, Tensor]] = {}
    for path, tensor in group.items():
        key, _, name = path.partition("/")
        if name:
            extras.setdefault(key, {})[name] = tensor
    return Broadcast(round, group["params"], group["buffers"], 0.0, extras)
