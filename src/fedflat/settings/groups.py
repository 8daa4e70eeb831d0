"""Every setting of a run: what decides its numbers, and where the computing is done.

Python's signatures, the options of the command line, what run.json may hold and the commands that
are printed follow from these fields. `Experiment`, `Sampler`, `LocalTraining`, `Evaluate` and
`ExecutionConfig` are these with what they do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedflat.core.schedules import Scalar
from fedflat.errors import LARGEST_SEED, MOST_AT_ONCE, MOST_BYTES, MOST_PROCESSES, number
from fedflat.registry.plain_values import PlainFields
from fedflat.settings.setting import about, check, setting, settings_of

if TYPE_CHECKING:
    from fedflat.client.learner import ModelLike
    from fedflat.data.federation import DataSpec
    from fedflat.execution.client_pool import ExecutorLike
    from fedflat.experiments.initializers import Initializer
    from fedflat.simulation.attacks.attack import Attack
    from fedflat.simulation.clock import Clock
    from fedflat.tasks.task import Task
    from fedflat.topologies.topology import Topology

Cohorts = Sequence[Sequence[int]]
"""For each round: the clients that are asked."""
Orders = Sequence[Mapping[int, Sequence[Sequence[int]]]]
"""For each round: client -> its batches, each a list of places in the client's own data."""
AUTO, CONTIGUOUS, CHANNELS_LAST = LAYOUTS = ("auto", "contiguous", "channels-last")
DIRECT, QUICK = "direct", "quick"
EXECUTORS = ("auto", "in-process", "workers", "stacked")


@dataclass(frozen=True, kw_only=True)
class RunSettings(PlainFields):
    """What is run, and with which numbers."""

    on: DataSpec = field(
        metadata=about("data and who holds them", metavar="DATA", text=True, typed="digits(lda(0))")
    )
    model: ModelLike = field(
        metadata=about(
            'such as cnn, resnet20, "mlp(hidden=[64, 64])"',
            metavar="NAME",
            text=True,
            unsaid="by the data",
        )
    )
    rounds: int = field(metadata=about("server steps", low=1, typed=500))
    topology: Topology = setting(
        None,
        'who talks to whom: star, "chains(groups=20)", "clusters(4, shared=\'features\')", hierarchy(4)',
        metavar="WHO",
        registered="topology",
        otherwise="star()",
        unsaid="the method's, else star",
    )
    init: Initializer = setting(
        "fresh()",
        'weights to begin with: fresh, \'from_run("runs/mine")\', "pretrained(mnist(), rounds=5)"',
        metavar="START",
        registered="start",
    )
    task: Task = setting(
        "classification()",
        "what is learnt: classification, segmentation, retrieval, next_character or regression",
        metavar="TASK",
        registered="task",
        unsaid="what the data are for",
    )
    server_data: DataSpec | None = setting(
        None,
        "data that the server itself holds, for starts and methods that use some",
        metavar="DATA",
        registered="data set",
    )
    attack: Attack | None = setting(
        None,
        'who attacks the run, and how: "label_flip(L_S=0.3, L=0.5, pairs=[[0, 2]])", gan',
        metavar="HOW",
        registered="attack",
    )
    clock: Clock | None = setting(
        None,
        'devices of the clients, to simulate time: "devices(speed=lognormal(100, 0.5), deadline=60)", '
        "\"measured('devices.json')\"",
        metavar="CLOCK",
        registered="clock",
    )
    seed: int = setting(0, "decides every random draw", metavar="S", low=0, high=LARGEST_SEED)
    weighting: str | None = setting(
        None,
        "clients count by their examples or all alike",
        metavar="KIND",
        allowed=("sized", "uniform"),
        unsaid="the method's, else sized",
    )
    dtype: str = setting(
        "float32",
        "mixed is float32 with bfloat16 in training's passes where that is safe",
        metavar="TYPE",
        allowed=("float32", "float64", "mixed"),
    )
    layout: str = setting(
        AUTO,
        "images in memory in training; the sums are the same but for their rounding",
        metavar="KIND",
        allowed=LAYOUTS,
    )
    convolutions: str = setting(
        AUTO,
        "how a CPU makes them; quick by fewer products, the same sums but for their rounding",
        metavar="KIND",
        allowed=(AUTO, DIRECT, QUICK),
        later=True,
    )
    on_bad: str = setting(
        "raise",
        "what to do with a reply that is not finite; to stop calls the run diverged",
        metavar="POLICY",
        allowed=("raise", "skip", "stop"),
    )
    min_replies: int | None = setting(
        None,
        "a round goes on without clients that crash or are too late, if so many reply",
        low=1,
        later=True,
        unsaid="a client that crashes ends the run",
    )

    def __post_init__(self) -> None:
        check("run", self)


@dataclass(frozen=True, kw_only=True)
class SamplerSettings(PlainFields):
    """Who is asked in a round."""

    clients: int = setting(
        10,
        "clients a round, or their expected number",
        option="clients_per_round",
        says="clients a round",
        low=1,
    )
    kind: str | None = setting(
        None,
        "without replacement, each on its own, or in proportion to examples (FedVC)",
        option="sampler",
        metavar="KIND",
        allowed=("uniform", "bernoulli", "by_size"),
        otherwise="uniform",
        unsaid="the method's, else uniform",
    )
    seeding: str = setting(
        "run",
        "who is drawn depends on the run's seed and the round, or on the round only, alike for all seeds",
        option="sampler_seed",
        metavar="KIND",
        allowed=("run", "round"),
    )
    cohorts: Cohorts | None = setting(
        None, "the clients of each round, in order, instead of any draw"
    )

    def __post_init__(self) -> None:
        check("sampler", self)


@dataclass(frozen=True, kw_only=True)
class LocalSettings(PlainFields):
    """The work of one visit."""

    epochs: int = setting(
        1,
        "how often a visit goes through the client's data",
        option="local_epochs",
        metavar="E",
        low=1,
        either="work",
    )
    steps: int | None = setting(
        None,
        "steps a visit instead of epochs; data are shuffled anew whenever they run out",
        option="local_steps",
        metavar="S",
        low=1,
        either="work",
    )
    batch_size: int = setting(64, "examples a step", metavar="B", low=1)
    lr: Scalar = setting(
        0.1, 'local learning rate, or a schedule: "decay(0.1, 0.998)"', metavar="L", low=0
    )
    weight_decay: Scalar = setting(0.0, "local weight decay", metavar="W")
    momentum: Scalar = setting(0.0, "local momentum", metavar="M")
    clip: Scalar | None = setting(
        None,
        "largest norm of a local direction, before weight decay",
        metavar="G",
        unsaid="no limit",
    )
    virtual: int | None = setting(
        None,
        "examples a visit, drawn anew, with repeats if need be, whatever the client holds (FedVC)",
        low=1,
        high=MOST_AT_ONCE,
    )
    drop_last: bool = setting(False, "leave out the last short batch of an epoch")
    orders: Orders | None = setting(
        None, "the very batches of each round and client, to replay another implementation"
    )

    def __post_init__(self) -> None:
        check("local work", self)


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(PlainFields):
    """When to evaluate."""

    every: int = setting(
        10,
        "rounds between evaluations",
        option="eval_every",
        low=1,
        unsaid="for about 100 in the run",
    )
    last: int = setting(
        100,
        "the result is the mean over the last N rounds, each of which is evaluated",
        option="eval_last",
        low=1,
        unsaid="a tenth, at most 100",
    )

    def __post_init__(self) -> None:
        check("evaluation", self)


def last_tenth(rounds: int) -> int:
    """The default of ``eval_last``: a tenth of all rounds, at most 100, as in the papers.

    >>> last_tenth(100), last_tenth(5), last_tenth(20_000)
    (10, 1, 100)
    """
    number("run", "rounds", rounds, low=1, whole=True)
    return min(100, math.ceil(rounds / 10))


@dataclass(frozen=True, kw_only=True)
class ExecutionSettings(PlainFields):
    """Where the computing is done; changes no number beyond the order of floating-point sums."""

    executor: ExecutorLike = setting(
        "auto",
        "clients one after the other, several at a time in processes, or as one batched computation",
        metavar="KIND",
        allowed=EXECUTORS,
        text=True,
    )
    workers: int = setting(
        0,
        "clients at a time, each in a process of its own; 0: one a core, where there are workers",
        low=0,
        high=MOST_PROCESSES,
    )
    threads: int | None = setting(
        None,
        "threads inside an operation",
        low=1,
        high=MOST_PROCESSES,
        unsaid="by the model, 1 in a worker",
    )
    device: str = setting("cpu", "cpu, cuda or mps", metavar="D")
    state_memory: int | None = setting(
        None,
        "what clients remember is kept in RAM up to here, such as 1GB, then on disk",
        metavar="SIZE",
        low=0,
        high=MOST_BYTES,
        unit="bytes",
        unsaid="a quarter of RAM",
    )
    watch: str | None = setting(
        None,
        "what to look at over the rounds: drift,alignment,norms,features,classes,delta_eps,client_lambda; or all",
        metavar="WHAT",
    )
    track: str | None = setting(
        None, "tell trackers, offline, in the run folder: tensorboard,wandb,mlflow", metavar="WHOM"
    )

    def __post_init__(self) -> None:
        check("run", self)


_RUN = settings_of(RunSettings)
SETTINGS = (
    *_RUN[:3],
    *settings_of(SamplerSettings, "sampler"),
    *settings_of(LocalSettings, "local"),
    *settings_of(EvaluateSettings, "evaluate"),
    *_RUN[3:],
)
"""What decides the numbers of a run, in the order of the command line."""
DESCRIBING = tuple(
    one
    for one in SETTINGS
    if one.path[0] == "local"
    or one.name in ("model", "task", "server_data", "dtype", "layout", "convolutions")
)
"""Those of them by which clients describe themselves before round 0."""
MACHINE = settings_of(ExecutionSettings)
"""Where the computing is done."""
