"""A request of fedflat beside a bare loop of PyTorch on the same mini-batches, for several networks.

    python benchmarks/networks.py
    python benchmarks/networks.py --only char_lstm --repeats 9
    python benchmarks/networks.py --size small --repeats 1

    resnet20     ResNet-20 with group normalisation on 500 images of 3x32x32, batches of 64
    bisenetv2    BiSeNetV2 on 16 driving scenes of 128x256 pixels, batches of 4
    char_lstm    an embedding and two LSTM layers of 100 on 100 texts of 80 characters, batches of 10

Both work with one thread in this process, in turn, after a repeat that warms up. Images are in
channels-last order where fedflat trains so; the convolutions of the bare loop are PyTorch's. Each
ratio is one of processor seconds within a repeat, which other work on the machine disturbs less than
the clock: the median, with the smallest and the largest; and that of the least seconds of each. At
the end the bare loop and the request must have the same parameters, up to rounding.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from workloads import SIZES

from fedflat.client.training import Request, run_client
from fedflat.core.messages import Broadcast, Reply
from fedflat.core.seeds import derive, torch_generator
from fedflat.experiments.api import experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_setup import RunSetup
from fedflat.kernels.allocator import keep_memory
from fedflat.kernels.memory_format import channels_last

LR = 0.01
STREET = "street(towns=2, weather='rain', view='car', clients=2, tests=4, {})"
NETWORKS: dict[str, dict[str, tuple[Any, str, int]]] = {
    "full": {
        "resnet20": (SIZES["full"]["w1"].on, "resnet20", 64),
        "bisenetv2": (STREET.format("examples=16, width=256, height=128"), "bisenetv2", 4),
        "char_lstm": ("sayings(clients=20, examples=100, length=80)", "char_lstm", 10),
    },
    "small": {
        "resnet20": (SIZES["small"]["w1"].on, "resnet20", 2),
        "bisenetv2": (STREET.format("examples=4, width=64, height=64"), "bisenetv2(width=0.25)", 2),
        "char_lstm": ("sayings(clients=5, examples=8, length=10)", "char_lstm(hidden=8)", 4),
    },
}
"""Data set, model and batch size."""


def bare(setup: RunSetup, module: torch.nn.Module) -> int:
    """One epoch of the first client in plain PyTorch; returns the number of examples."""
    exp, data = setup.exp, setup.fed.data(0)
    optimiser = torch.optim.SGD(module.parameters(), lr=LR)
    rng = torch_generator(exp.seed, "augment", 0, 0)
    torch.manual_seed(derive(exp.seed, "module", 0, 0))  # of dropout
    for places in exp.local.batches(exp.seed, 0, 0, len(data)):
        batch = data.batch(places, torch.float32, rng)
        last = setup.job.learner.trains_channels_last
        optimiser.zero_grad()
        outputs = module(channels_last(batch.inputs) if last else batch.inputs)
        losses = []
        for scores in outputs if isinstance(outputs, tuple) else (outputs,):
            if scores.dim() == 3:  # texts, characters, classes
                letters = batch.targets.flatten()
                losses.append(cross_entropy(scores.flatten(0, 1), letters, ignore_index=-1))
            else:
                losses.append(cross_entropy(scores, batch.targets, ignore_index=255))
        sum(losses).backward()  # type: ignore[union-attr]
        optimiser.step()
    return len(data)


def compare(name: str, size: str, repeats: int) -> None:
    """Measure and print one network."""
    on, model, batch = NETWORKS[size][name]
    work = {"rounds": 1, "clients_per_round": 1, "batch_size": batch, "lr": LR}
    setup = prepare(experiment("fedavg", on, model=model, **work))
    learner, data = setup.job.learner, setup.fed.data(0)
    start = learner.initial()
    request = Request(0, Broadcast(0, start.params, start.buffers, LR), {})
    seconds: dict[str, list[float]] = {"bare": [], "fedflat": []}
    for _ in range(repeats + 1):
        module = learner.module().train()
        begun = time.process_time()
        examples = bare(setup, module)
        middle = time.process_time()
        reply = run_client(setup.job, request, data)[0]
        seconds["bare"].append(middle - begun)
        seconds["fedflat"].append(time.process_time() - middle)
        assert isinstance(reply, Reply)
        assert reply.samples == examples
    params = torch.cat([p.detach().flatten() for p in module.parameters()])
    moved = start.params - params
    error = float((reply.delta - moved).norm() / moved.norm())
    ratios = [a / b for a, b in zip(seconds["bare"][1:], seconds["fedflat"][1:], strict=True)]
    least = min(seconds["bare"][1:]) / min(seconds["fedflat"][1:])
    print(
        f"{name}: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) of the "
        f"speed of bare PyTorch, of the least times {least:.3f}; {examples} examples, the steps "
        f"differ by {error:.1e}",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--only", nargs="*", choices=list(NETWORKS["full"]))
    ask.add_argument("--repeats", type=int, default=7)
    ask.add_argument("--size", choices=list(NETWORKS), default="full")
    args = ask.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    for name in args.only or NETWORKS[args.size]:
        compare(name, args.size, args.repeats)


if __name__ == "__main__":
    main()
