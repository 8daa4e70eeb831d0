"""The settings of a run's execution and recording: where clients train, and what is written.

Results differ between them only by the order of floating-point sums. `ExecutionConfig` adds
behaviour to this class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.errors import MOST_BYTES, MOST_PROCESSES
from fedflat.registry.plain_values import PlainFields
from fedflat.settings.setting import EXECUTION, RECORDING, check, setting, settings_of

if TYPE_CHECKING:
    from fedflat.execution.client_pool import ExecutorLike
    from fedflat.experiments.callbacks import OnRoundEnd


@dataclass(frozen=True, kw_only=True)
class ExecutionSettings(PlainFields):
    """How the run is executed; results differ only by the order of floating-point sums."""

    executor: ExecutorLike = setting(
        "auto",
        "where clients are trained, such as workers, stacked, in-process or auto; see `fedflat "
        "list executors`",
        purpose=EXECUTION,
        metavar="NAME",
        text=True,
    )
    workers: int = setting(
        0,
        "clients trained at a time, each in its own process; 0: one per core if workers are used",
        purpose=EXECUTION,
        low=0,
        high=MOST_PROCESSES,
    )
    threads: int | None = setting(
        None,
        "threads per process",
        purpose=EXECUTION,
        low=1,
        high=MOST_PROCESSES,
        default_text="chosen by the size of the model, 1 in a worker",
    )
    device: str = setting("cpu", "device: cpu, cuda or mps", purpose=EXECUTION, metavar="DEVICE")
    devices: str | None = setting(
        None,
        "devices that the workers are divided among in turn, such as 0,1 for two GPUs; the server "
        "uses the first",
        purpose=EXECUTION,
        metavar="DEVICES",
        default_text="all on --device",
        absent_in_old_runs=True,
    )
    state_memory: int | None = setting(
        None,
        "client state is stored in RAM up to this size, such as 1GB, then on disk",
        purpose=EXECUTION,
        metavar="SIZE",
        low=0,
        high=MOST_BYTES,
        unit="bytes",
        default_text="a quarter of RAM",
    )
    on_round_end: OnRoundEnd | None = setting(
        None,
        "function that is called with a `RoundEnd` after every round, or a list of them; the run "
        "stops if one returns True",
        purpose=RECORDING,
    )
    record: str | None = setting(
        None,
        "metrics to record in every round, separated by commas, or all; see `fedflat list metrics`",
        purpose=RECORDING,
        metavar="METRICS",
    )
    logger: str | None = setting(
        None,
        "loggers that receive the numbers of the run, separated by commas; they work offline, in "
        "the run folder. "
        "See `fedflat list loggers`.",
        purpose=RECORDING,
        metavar="LOGGERS",
    )

    def __post_init__(self) -> None:
        check("run", self)


MACHINE = settings_of(ExecutionSettings)
"""The settings of execution."""
