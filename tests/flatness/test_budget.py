"""Curvature says beforehand what it takes, stays within its limit, and is refused beyond it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from fedflat.errors import SettingError
from fedflat.flatness.curvature import curvature, estimate_cost
from fedflat.flatness.density import spectral_density
from fedflat.flatness.trace import hutchinson
from flatness.networks import network

LIMIT = 250 * 10**6
CHILD = """
import json, sys
import torch
from pathlib import Path
from torch import nn
from fedflat.client.learner import Learner
from fedflat.data.examples import ClientData, Examples
from functools import partial
from fedflat.flatness import curvature as module
from fedflat.flatness.curvature import curvature, estimate_cost

module.spectral_density = partial(module.spectral_density, steps=5)  # which take as much memory as 90

def most():
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    import resource
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

torch.set_num_threads(1)
asked = json.loads(sys.argv[1])
rng = torch.Generator().manual_seed(0)
data = ClientData(Examples(torch.randn(16, 64, generator=rng), torch.arange(16) % 10, 10), torch.arange(16))
network = lambda: nn.Sequential(nn.Linear(64, 1400), nn.Tanh(), nn.Linear(1400, 1400), nn.Tanh(), nn.Linear(1400, 10))
learner = Learner(network, (64,), 10, seed=0)
model = learner.initial()
cost = estimate_cost(learner, model, data, **asked)
before = most()
curvature(learner, model, data, **asked)
print(json.dumps({"grown": most() - before, "expected": cost.memory, "parameters": cost.parameters}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{"k": 5}, {"k": 0, "probes": 10}, {"k": 0, "density": 10}])
def test_memory_stays_within_the_limit(asked: dict[str, int]) -> None:
    """Two million parameters: forty vectors are 320 MB, and ten random vectors walking in step 480
    MB."""
    words = [sys.executable, "-c", CHILD, json.dumps({**asked, "memory": LIMIT})]
    output = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert output["parameters"] > 2 * 10**6
    assert output["grown"] <= LIMIT
    assert output["expected"] <= LIMIT
    assert output["grown"] <= 1.25 * output["expected"]


def test_what_it_takes_grows_with_what_is_asked() -> None:
    learner, model, data = network("group norm", count=24)
    little, much = (estimate_cost(learner, model, data, k=k, probes=k) for k in (1, 40))
    assert little.products == 41 + 1
    assert much.products == 130 + 40
    assert 0 < little.memory < much.memory
    assert (much.parameters, much.examples) == (len(model.params), 24)
    assert much.seconds > 0
    assert estimate_cost(learner, model, data, k=1, examples=12).products == 41 + 41


def test_refused_beyond_the_limit() -> None:
    learner, model, data = network("group norm", count=24)
    for ask in (curvature, estimate_cost):
        with pytest.raises(
            SettingError,
            match=r"needs about 0\.1 GB of memory, most of it for eigenvalues, and the limit is 1e-06 GB\. Raise the "
            r"limit \(--memory 0\.1GB\), or use fewer eigenvalues \(-k\)",
        ):
            ask(learner, model, data, memory=1000)
    with pytest.raises(SettingError, match=r"most of it for trace.*--trace hutchinson"):
        curvature(learner, model, data, probes=300, method="hutch++", memory=1000)
    with pytest.raises(SettingError, match="memory must be a whole number of at least 0, found -1"):
        curvature(learner, model, data, memory=-1)


def test_few_vectors_at_a_time_give_the_same_estimates() -> None:
    """Each random vector is drawn and walked alike, alone or with others."""
    rng = torch.Generator().manual_seed(0)
    half = torch.randn(60, 60, dtype=torch.float64, generator=rng)
    matrix = half + half.T
    assert hutchinson(matrix, 25, memory=0).mean == pytest.approx(
        hutchinson(matrix, 25).mean, rel=1e-9
    )
    together, alone = (
        spectral_density(matrix, 5, steps=12, memory=memory) for memory in (2**30, 0)
    )
    torch.testing.assert_close(alone.y, together.y, rtol=1e-6, atol=1e-9)
