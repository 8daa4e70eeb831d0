"""The settings that decide the numbers of a run; those of its execution are in `execution.py`.

Python's signatures, the options of the command line, the format of run.json and the commands that
are printed are made from these fields. `Experiment`, `ClientSampler`, `LocalTraining` and
`EvaluationSchedule` add behaviour to these classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedflat.core.schedules import Scalar
from fedflat.errors import LARGEST_SEED, MOST_AT_ONCE, number
from fedflat.registry.plain_values import PlainFields
from fedflat.settings.setting import (
    DATA,
    EVALUATION,
    EXECUTION,
    LOCAL,
    SERVER,
    SIMULATION,
    about,
    check,
    setting,
    settings_of,
)

if TYPE_CHECKING:
    from fedflat.client.learner import ModelLike
    from fedflat.data.federation import DataSpec
    from fedflat.experiments.initializers import Initializer
    from fedflat.simulation.attacks.attack import Attack
    from fedflat.simulation.clock import Clock
    from fedflat.tasks.task import Task
    from fedflat.topologies.topology import Topology

Cohorts = Sequence[Sequence[int]]
"""For each round: the selected clients."""
Orders = Sequence[Mapping[int, Sequence[Sequence[int]]]]
"""For each round: client -> its batches, each a list of indices into the client's own data."""
AUTO, CONTIGUOUS, CHANNELS_LAST = LAYOUTS = ("auto", "contiguous", "channels-last")
DIRECT, QUICK = "direct", "quick"


@dataclass(frozen=True, kw_only=True)
class RunSettings(PlainFields):
    """The experiment: data, model, server."""

    on: DataSpec = field(
        metadata=about(
            "data set and its partition among the clients",
            purpose=DATA,
            metavar="DATA",
            text=True,
            cli_default="digits(lda(0))",
        )
    )
    model: ModelLike = field(
        metadata=about(
            'model, such as cnn, resnet20 or "mlp(hidden=[64, 64])"',
            purpose=DATA,
            metavar="MODEL",
            text=True,
            default_text="chosen by the data set",
        )
    )
    rounds: int = field(metadata=about("number of rounds", purpose=SERVER, low=1, cli_default=500))
    topology: Topology = setting(
        None,
        'star, "chains(groups=20)", "clusters(4, shared=\'features\')" or hierarchy(4)',
        purpose=SERVER,
        metavar="TOPOLOGY",
        registered="topology",
        otherwise="star()",
        default_text="that of the method, otherwise star",
    )
    init: Initializer = setting(
        "fresh()",
        'initial weights: fresh, \'from_run("runs/mine")\', "pretrained(mnist(), rounds=5)"',
        purpose=DATA,
        metavar="INIT",
        registered="initializer",
    )
    task: Task = setting(
        "classification()",
        'learning task, such as classification, "segmentation(ignore=255)" or regression',
        purpose=DATA,
        metavar="TASK",
        registered="task",
        default_text="that of the data set",
    )
    server_data: DataSpec | None = setting(
        None,
        "data set of the server, for initializers and methods that use one",
        purpose=DATA,
        metavar="DATA",
        registered="data set",
    )
    validation: float | None = setting(
        None,
        "share of the training examples that are set aside to choose by: models, rounds and "
        "settings are chosen on them, not on the test set",
        purpose=DATA,
        metavar="SHARE",
        low=0,
        high=1,
        absent_in_old_runs=True,
    )
    validation_by: str = setting(
        "examples",
        "set aside a share of each client's examples, or all examples of a share of the clients",
        purpose=DATA,
        metavar="KIND",
        allowed=("examples", "clients"),
        absent_in_old_runs=True,
    )
    attack: Attack | None = setting(
        None,
        'attack on the run: "label_flip(L_S=0.3, L=0.5, pairs=[[0, 2]])" or gan',
        purpose=SIMULATION,
        metavar="ATTACK",
        registered="attack",
    )
    clock: Clock | None = setting(
        None,
        'simulated clients\' devices and time: "devices(speed=lognormal(100, 0.5), deadline=60)" '
        "or \"measured('devices.json')\"",
        purpose=SIMULATION,
        metavar="CLOCK",
        registered="clock",
    )
    seed: int = setting(
        0, "seed of all random numbers", purpose=SERVER, metavar="S", low=0, high=LARGEST_SEED
    )
    weighting: str | None = setting(
        None,
        "weight clients in the mean by their number of examples, or equally",
        purpose=SERVER,
        metavar="KIND",
        allowed=("sized", "uniform"),
        default_text="that of the method, otherwise sized",
    )
    dtype: str = setting(
        "float32",
        "number type; mixed is float32 with bfloat16 in forward and backward passes where that is "
        "safe",
        purpose=EXECUTION,
        metavar="TYPE",
        allowed=("float32", "float64", "mixed"),
    )
    layout: str = setting(
        AUTO,
        "memory format of images in training. Results differ only by rounding.",
        purpose=EXECUTION,
        metavar="KIND",
        allowed=LAYOUTS,
    )
    convolutions: str = setting(
        AUTO,
        "CPU convolution algorithm: `direct` (PyTorch), `quick` (Winograd) or `auto`. Results "
        "differ only by "
        "rounding.",
        purpose=EXECUTION,
        metavar="KIND",
        allowed=(AUTO, DIRECT, QUICK),
        absent_in_old_runs=True,
    )
    on_bad: str = setting(
        "raise",
        "on a reply with NaN or infinity, end with an error, skip the reply, or stop the run as "
        "diverged",
        purpose=SERVER,
        metavar="ACTION",
        allowed=("raise", "skip", "stop"),
    )
    min_replies: int | None = setting(
        None,
        "a round continues without clients that fail or are late if at least N reply",
        purpose=SERVER,
        low=1,
        absent_in_old_runs=True,
        default_text="a client that fails ends the run",
    )

    def __post_init__(self) -> None:
        check("run", self)


@dataclass(frozen=True, kw_only=True)
class SamplerSettings(PlainFields):
    """How the clients of a round are selected."""

    clients: int = setting(
        10,
        "number of clients per round, or its expectation",
        purpose=SERVER,
        option="clients_per_round",
        label="clients a round",
        low=1,
    )
    kind: str | None = setting(
        None,
        "select clients without replacement, each independently, or in proportion to their "
        "examples (FedVC)",
        purpose=SERVER,
        option="sampler",
        metavar="KIND",
        allowed=("uniform", "bernoulli", "by_size"),
        otherwise="uniform",
        default_text="that of the method, otherwise uniform",
    )
    seeding: str = setting(
        "run",
        "select clients by the seed of the run and the round, or by the round only, equal for all "
        "seeds",
        purpose=SERVER,
        option="sampler_seed",
        metavar="KIND",
        allowed=("run", "round"),
    )
    cohorts: Cohorts | None = setting(
        None, "the clients of each round, in order, instead of random selection"
    )

    def __post_init__(self) -> None:
        check("sampler", self)


@dataclass(frozen=True, kw_only=True)
class LocalSettings(PlainFields):
    """Local training of a client for one request.

    A round may send a client several requests: two exchanges, or a chain that passes it twice.
    """

    epochs: int = setting(
        1,
        "local epochs per round",
        amount=True,
        purpose=LOCAL,
        option="local_epochs",
        metavar="E",
        low=1,
        either="work",
    )
    steps: int | None = setting(
        None,
        "local steps per round, instead of epochs; data are reshuffled whenever they run out",
        amount=True,
        purpose=LOCAL,
        option="local_steps",
        metavar="S",
        low=1,
        either="work",
    )
    max_steps: int | None = setting(
        None,
        "most local steps per round, for clients with many examples",
        amount=True,
        purpose=LOCAL,
        option="max_local_steps",
        metavar="S",
        low=1,
        absent_in_old_runs=True,
        default_text="no limit",
    )
    batch_size: int = setting(64, "examples per step", purpose=LOCAL, metavar="B", low=1)
    lr: Scalar = setting(
        0.1,
        'local learning rate, or a schedule: "decay(0.1, 0.998)"',
        purpose=LOCAL,
        metavar="LR",
        low=0,
    )
    weight_decay: Scalar = setting(0.0, "local weight decay", purpose=LOCAL, metavar="W", low=0)
    momentum: Scalar = setting(0.0, "local momentum", purpose=LOCAL, metavar="M", low=0, high=1)
    clip: Scalar | None = setting(
        None,
        "largest norm of the gradient of a local step, after the method's corrections, before "
        "weight decay",
        purpose=LOCAL,
        metavar="NORM",
        low=0,
        open_low=True,
        default_text="no limit",
    )
    virtual: int | None = setting(
        None,
        "examples per client and round, drawn with repetition if the client has fewer (FedVC)",
        amount=True,
        purpose=LOCAL,
        low=1,
        high=MOST_AT_ONCE,
    )
    drop_last: bool = setting(
        False, "drop the last batch of an epoch if it is not full", purpose=LOCAL
    )
    orders: Orders | None = setting(
        None, "the batches of each round and client, to replay another implementation", amount=True
    )

    def __post_init__(self) -> None:
        check("local training", self)


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(PlainFields):
    """When to evaluate, and on how many examples."""

    every: int = setting(
        10,
        "rounds between evaluations",
        purpose=EVALUATION,
        option="eval_every",
        low=1,
        default_text="about 100 evaluations in the run, in at most a fifth of the time",
    )
    examples: int | None = setting(
        None,
        "evaluate on N random examples of each test set, the same in all rounds and runs; clients' "
        "own tests are not changed",
        purpose=EVALUATION,
        option="eval_examples",
        low=1,
        absent_in_old_runs=True,
        default_text="all",
    )
    select_by: str | None = setting(
        None,
        "report the mean over the last rounds, or the model of the round with the best score on the "
        "validation set, which is kept as the model of the run",
        purpose=EVALUATION,
        metavar="KIND",
        allowed=("last", "validation"),
        absent_in_old_runs=True,
        default_text="last; validation with --patience",
    )
    patience: int | None = setting(
        None,
        "stop if the score on the validation set has not improved in N rounds",
        purpose=EVALUATION,
        low=1,
        absent_in_old_runs=True,
        default_text="never",
    )
    last: int = setting(
        100,
        "the reported score is the mean over the last N rounds, each of which is evaluated",
        purpose=EVALUATION,
        option="eval_last",
        low=1,
        default_text="a tenth of the rounds, at most 100, in at most a tenth of the time",
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


_RUN = settings_of(RunSettings)
SETTINGS = (
    *_RUN[:3],
    *settings_of(SamplerSettings, "sampler"),
    *settings_of(LocalSettings, "local"),
    *settings_of(EvaluateSettings, "evaluate"),
    *_RUN[3:],
)
"""The settings that decide the numbers of a run."""
DESCRIBING = tuple(
    one
    for one in SETTINGS
    if one.path[0] == "local"
    or one.name in ("model", "task", "server_data", "dtype", "layout", "convolutions")
)
"""Those of them that matter when clients describe themselves before the first round."""
