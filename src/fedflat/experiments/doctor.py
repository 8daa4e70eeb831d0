"""Checks on a device: methods against the CPU, stacks against single clients, resuming, and speed.

`examine` needs about five minutes on a GPU, no data set and no network. Its report is one text, to
be pasted into an issue.
"""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from fedflat.data.federation import DataSpec
from fedflat.data.partitions.iid import Iid
from fedflat.data.sets.in_memory import tensors
from fedflat.errors import FedflatError, PrintLine, SettingError
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.api import experiment
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.prepare import prepare
from fedflat.experiments.study import resume, run_one
from fedflat.experiments.train import train
from fedflat.registry.specs import parse, registered
from fedflat.version import __version__

TOLERANCE = 1e-3
"""Largest difference of two models, as a share of the distance that training has moved them."""
SMALL: dict[str, Any] = {
    "on": "digits(lda(0.5), clients=20)",
    "model": "mlp([16])",
    "clients_per_round": 3,
    "batch_size": 16,
    "lr": 0.05,
}
"""What methods are tried on: ten steps of each client in each of two rounds."""


@dataclass(frozen=True)
class Finding:
    name: str
    status: str
    """"ok", "FAILED", "skipped", or a number with its unit."""
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name:<44} {self.status}" + (f"  ({self.detail})" if self.detail else "")


def examine(
    device: str, print_line: PrintLine, methods: Sequence[str] | None = None, *, speed: bool = True
) -> bool:
    """Check a device and print the report; returns whether nothing failed.

    Args:
        device: such as "cuda" or "cpu".
        print_line: called with each line of the report.
        methods: the methods to try; None: all.
        speed: whether to measure the speed, too.
    """
    ExecutionConfig(device=device)  # raises an error if the machine has no such device
    for method in methods or ():
        parse(method, "method")  # raises an error if there is no such method
    for line in facts(device):
        print_line(line)
    good = True
    for finding in findings(device, methods, speed=speed):
        print_line(str(finding))
        good = good and finding.status != "FAILED"
    print_line("nothing failed" if good else "something FAILED: please open an issue")
    return good


def facts(device: str) -> list[str]:
    """Lines that name the device, the machine and the versions."""
    kind = torch.device(device).type
    name = torch.cuda.get_device_name(device) if kind == "cuda" else platform.processor() or kind
    return [
        f"fedflat {__version__}, torch {torch.__version__}, Python {platform.python_version()}",
        f"{platform.platform()}, {torch.get_num_threads()} threads",
        f"device {device}: {name}",
    ]


def findings(
    device: str, methods: Sequence[str] | None = None, *, speed: bool = True
) -> Iterator[Finding]:
    every = [entry.name for entry in registered("method", plugins=False)]
    for method in every if methods is None else methods:
        yield _checked(f"{method} on {device} and on the CPU", _against_cpu, device, method)
    yield _checked("stacked and single clients", _stacked, device)
    yield _checked("resumed and uninterrupted", _resumed, device)
    if not speed:
        return
    yield _checked("speed: CNN, 4 clients of 512 images", _speed, device, *_CNN)
    yield _checked("speed: MLP, 100 clients of 20 examples", _speed, device, *_MLP)


def _checked(name: str, check: Callable[..., Finding | float], *args: Any) -> Finding:
    """The finding of a check; an error is a failure."""
    try:
        found = check(*args)
    except SettingError as error:
        return Finding(name, "skipped", str(error).partition(". ")[0])
    except (FedflatError, RuntimeError, ValueError, TypeError) as error:
        return Finding(name, "FAILED", f"{type(error).__name__}: {error}".partition("\n")[0])
    if isinstance(found, Finding):
        return Finding(name, found.status, found.detail)
    status = "ok" if found <= TOLERANCE else "FAILED"
    return Finding(name, status, f"difference {found:.1g}, at most {TOLERANCE:g}")


def _params(device: str, executor: Executor, method: str = "fedavg") -> torch.Tensor:
    """The parameters after two rounds of ten steps."""
    exp = experiment(method, rounds=2, local_steps=10, eval_every=2, eval_last=1, **SMALL)
    model = train(prepare(exp, device), executor=executor).model
    assert model is not None
    return model.params.double().cpu()


def _difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """The distance of two models, as a share of the distance that training has moved the second."""
    exp = experiment("fedavg", rounds=2, **SMALL)
    start = prepare(exp).job.learner.initial().params.double()
    if one.shape != start.shape:  # a method with a network of its own
        start = torch.zeros_like(other)
    return float((one - other).norm() / (other - start).norm())


def _against_cpu(device: str, method: str) -> float:
    return _difference(*(_params(where, InProcess(1), method) for where in (device, "cpu")))


def _stacked(device: str) -> float:
    return _difference(_params(device, Stacked()), _params(device, InProcess(1)))


def _resumed(device: str) -> float:
    exp = experiment("scaffold", rounds=4, local_steps=10, **SMALL)
    config = ExecutionConfig(device=device, executor="in_process", threads=1)
    with tempfile.TemporaryDirectory() as folder:
        cut = Path(folder) / "cut"
        run_one(exp, config, cut, until=2)
        resumed = resume(cut)[0].model
    whole = run_one(exp, config, None).model
    assert resumed is not None
    assert whole is not None
    return _difference(resumed.params.double().cpu(), whole.params.double().cpu())


def _images() -> DataSpec:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(4 * 512, 3, 32, 32, generator=rng)
    y = torch.randint(10, (len(x),), generator=rng)
    return tensors(x, y, x[:10], y[:10], Iid(), clients=4, classes=10)


_CNN = (_images, {"model": "cnn", "clients_per_round": 4, "batch_size": 64}, InProcess(1), 4 * 512)
_MLP = (
    lambda: "synthetic(clients=1000, examples=20, features=64)",
    {"model": "mlp([32])", "clients_per_round": 100, "batch_size": 20},
    Stacked(),
    100 * 20,
)


def _speed(
    device: str,
    on: Callable[[], DataSpec | str],
    settings: dict[str, Any],
    executor: Executor,
    samples: int,
) -> Finding:
    """Examples per second of a round, the median of three after warming up."""
    rounds = 40 if isinstance(executor, Stacked) else 4
    times: list[float] = []
    exp = experiment("fedavg", on(), rounds=rounds, eval_every=rounds, eval_last=1, **settings)
    train(
        prepare(exp, device),
        executor=executor,
        on_progress=lambda progress: times.append(time.perf_counter()),
    )
    spans = [later - earlier for earlier, later in pairwise(times[:-1])]
    return Finding("", f"{samples / sorted(spans[-3:])[len(spans[-3:]) // 2]:,.0f} examples/s")
