"""Settings as keyword arguments, for type checkers; made by `python -m fedflat.settings.signature`."""

from typing import TypedDict

from fedflat.client.learner import ModelLike
from fedflat.core.schedules import Scalar
from fedflat.data.federation import DataSpec
from fedflat.execution.client_pool import ExecutorLike
from fedflat.experiments.callbacks import OnRoundEnd
from fedflat.experiments.initializers import Initializer
from fedflat.settings.groups import Cohorts, Orders
from fedflat.simulation.attacks.attack import Attack
from fedflat.simulation.clock import Clock
from fedflat.tasks.task import Task
from fedflat.topologies.topology import Topology

class Settings(TypedDict, total=False):
    """The settings that decide the numbers of a run."""

    model: ModelLike | str | None
    clients_per_round: int
    sampler: str | None
    sampler_seed: str
    cohorts: Cohorts | None
    local_epochs: int
    local_steps: int | None
    max_local_steps: int | None
    batch_size: int
    lr: Scalar | str
    weight_decay: Scalar | str
    momentum: Scalar | str
    clip: Scalar | str | None
    virtual: int | None
    drop_last: bool
    orders: Orders | None
    eval_every: int | None
    eval_examples: int | None
    select_by: str | None
    patience: int | None
    eval_last: int | None
    topology: Topology | str | None
    init: Initializer | str
    task: Task | str | None
    server_data: DataSpec | str | None
    validation: float | None
    validation_by: str
    attack: Attack | str | None
    clock: Clock | str | None
    weighting: str | None
    dtype: str
    layout: str
    convolutions: str
    on_bad: str
    min_replies: int | None

class Machine(TypedDict, total=False):
    """The settings of execution."""

    executor: ExecutorLike | str
    workers: int
    threads: int | None
    device: str
    devices: str | None
    state_memory: int | None
    on_round_end: OnRoundEnd | None
    record: str | None
    logger: str | None

class RunSettings(Settings, Machine, total=False):
    """Both."""
