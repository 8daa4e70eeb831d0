"""One client's local training beside a plain loop of PyTorch over the same batches, in turn.

    python benchmarks/single_requests.py                        # a few minutes on a quiet core
    python benchmarks/single_requests.py --only char_lstm --repeats 9

Both have one thread. Prints how many times as fast fedflat is: medians of ratios of processor
seconds within a repeat, which other work on the machine disturbs less than the clock.

    resnet20     ResNet-20 with group normalization, 100 images of 3x32x32 in batches of 20
    char_lstm    the two-layer LSTM, 40 rows of 80 characters in batches of 10
    mlp          64-32-10, 20 examples in one batch; 300 requests in a turn, after 300 that warm up
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from workloads import Noise

from fedflat.client.training import Request, run_client
from fedflat.core.messages import Broadcast
from fedflat.core.seeds import torch_generator
from fedflat.data.federation import DataSpec
from fedflat.experiments.api import experiment
from fedflat.experiments.prepare import prepare
from fedflat.kernels.allocator import keep_memory
from fedflat.kernels.memory_format import channels_last

LR = 0.01


@dataclass(frozen=True)
class Part:
    """What is trained, and how often in a turn."""

    on: DataSpec | str
    model: str
    batch: int
    times: int = 1


PARTS = {
    "resnet20": Part(Noise(1, 100, (3, 32, 32)), "resnet20", 20),
    "char_lstm": Part("sayings(clients=1, examples=40, length=80)", "char_lstm()", 10),
    "mlp": Part(Noise(1, 20, (64,)), "mlp([32])", 20, 300),
}
TINY = {
    "resnet20": replace(PARTS["resnet20"], on=Noise(1, 4, (3, 16, 16)), batch=2),
    "char_lstm": replace(
        PARTS["char_lstm"], on="sayings(clients=1, examples=4, length=6)", batch=2
    ),
    "mlp": replace(PARTS["mlp"], times=3),
}


def turns(part: Part) -> tuple[Callable[[], None], Callable[[], None]]:
    """The plain loop and fedflat's request."""
    setup = prepare(
        experiment(
            "fedavg",
            part.on,
            model=part.model,
            rounds=1,
            clients_per_round=1,
            batch_size=part.batch,
            lr=LR,
        )
    )
    job, exp, data = setup.job, setup.exp, setup.fed.data(0)
    learner, model = job.learner, job.learner.initial()
    broadcast = Broadcast(0, model.params, model.buffers, LR)
    module = learner.module().train()
    optimiser = torch.optim.SGD(module.parameters(), lr=LR)

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        if output.dim() == 3:  # the next character at each position
            return cross_entropy(output.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return cross_entropy(output, targets)

    def bare() -> None:
        for _ in range(part.times):
            rng = torch_generator(exp.seed, "augment", 0, 0)
            for places in exp.local.batches(exp.seed, 0, 0, len(data)):
                batch = data.batch(places, torch.float32, rng)
                last = learner.trains_channels_last
                inputs = channels_last(batch.inputs) if last else batch.inputs
                optimiser.zero_grad()
                loss(module(inputs), batch.targets).backward()
                optimiser.step()

    def ours() -> None:
        for _ in range(part.times):
            run_client(job, Request(0, broadcast, {}), data)

    return bare, ours


def seconds(work: Callable[[], None]) -> float:
    """Processor seconds of this thread."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    ask.add_argument("--repeats", type=int, default=7)
    ask.add_argument("--size", choices=["full", "small"], default="full")
    given = ask.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    for name in given.only:
        bare, ours = turns((PARTS if given.size == "full" else TINY)[name])
        pairs = [(seconds(bare), seconds(ours)) for _ in range(given.repeats + 1)][1:]
        ratios = [plain / mine for plain, mine in pairs]
        print(
            f"{name:12}{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) of the "
            f"plain loop; smallest times {1000 * min(pair[0] for pair in pairs):.1f} and "
            f"{1000 * min(pair[1] for pair in pairs):.1f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
