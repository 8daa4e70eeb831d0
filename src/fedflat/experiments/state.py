"""The state of a run between two rounds, and its layout in groups of tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
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
from fedflat.server.ledger import Ledger
from fedflat.server.piece import ServerState
from fedflat.topologies.topology import SERVER

CLIENTS = "clients"
"""The group with the places of the clients' states in the file."""


@dataclass
class RunState:
    """All that changes from round to round."""

    round: int
    models: dict[str, Model]
    """The server's, by slot."""
    server: dict[str, ServerState]
    """The state of the server's pieces, by slot."""
    averages: dict[str, dict[str, Tensor]]
    clients: ClientStates = field(default_factory=ClientStates)
    ledger: Ledger = Ledger()
    sent: dict[int, Broadcast] = field(default_factory=dict)
    """Broadcasts that clients still work on, by round; only with an asynchronous server."""

    @property
    def model(self) -> Model:
        """The server's model, if it has one only."""
        [model] = self.models.values()
        return model

    def groups(self) -> dict[str, Group]:
        """The tensors in groups that change together; the state of clients has its own file."""
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
            groups[f"average/{key}"] = {}  # there, even with nothing to note yet
            for name, tensor in notes.items():
                groups[f"average/{key}/{name}"] = {"value": tensor}
        return groups | {CLIENTS: self.clients.table(self.round)}

    def values(self) -> dict[str, Any]:
        """The numbers that are not tensors."""
        busy = {"busy": dict(self.ledger.busy)} if self.ledger.busy else {}
        return {"ledger": self.ledger.spent | busy}


def read_checkpoint(
    store: Store, round: int, identity: str, clients: ClientStates
) -> tuple[RunState, dict[str, LogPosition]]:
    """The state of the run ``identity`` at a checkpoint, and the lengths of its logs.

    ``clients`` are restored, and all tensors are put on their device. Raises `Damaged` if the
    checkpoint is not what was written, and `RunError` if it belongs to another run.
    """
    groups, values = store.read(round)
    check(values, CHECKPOINT)
    if values["run"] != identity:
        raise RunError(
            f"{store.folder}: the checkpoint of round {round} is not of this run, but of another "
            "one. Put back the run's own, or remove the folder to start from the beginning."
        )
    try:
        clients.restore(
            {known: store.group(known, CLIENTS) for known in store.rounds() if known <= round}
        )
        there = {
            name: {key: tensor.to(clients.device) for key, tensor in group.items()}
            for name, group in groups.items()
        }
        run = state_of_groups(round, there, values, clients)
    except FedflatError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise Damaged(f"its tensors are not those of a run: {error}") from None
    return run, {name: LogPosition(**values[name]) for name in LOGS}


def last_state(folder: Path, identity: str) -> RunState:
    """The state at the newest checkpoint that is not damaged; the folder is not changed."""
    store = Store(folder / "checkpoint")
    for round in store.rounds():
        try:
            return read_checkpoint(store, round, identity, ClientStates(folder=store.folder))[0]
        except Damaged:
            continue
    raise RunError(
        f"{folder} has no checkpoint that can be read: there is no model to look at. Run it "
        f"again, or `fedflat resume {folder}`."
    )


def state_of_groups(
    round: int, groups: dict[str, Group], values: dict[str, Any], clients: ClientStates
) -> RunState:
    """The inverse of `RunState.groups` and `RunState.values`, with the restored ``clients``."""
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
            sent[int(rest)] = _broadcast(int(rest), group)
        elif kind == "server":
            states.setdefault(slot, {})[rest] = group
        elif kind == "average":
            key, _, note = rest.partition("/")
            notes = averages.setdefault(key, {})
            if note:
                notes[note] = group["value"]
    if not models:
        raise KeyError("model")
    states = {slot: states.get(slot, {}) for slot in models}
    return RunState(round, models, states, averages, clients, Ledger(**values["ledger"]), sent)


def _broadcast(round: int, group: Group) -> Broadcast:
    """A broadcast of an earlier round; its rate and instruction are in the run's settings."""
    extras: dict[str, dict[str, Tensor]] = {}
    for path, tensor in group.items():
        key, _, name = path.partition("/")
        if name:
            extras.setdefault(key, {})[name] = tensor
    return Broadcast(round, group["params"], group["buffers"], 0.0, extras)
