"""CFSI and LAB against their literal twin, to 1e-10: spectra, colours, draws and what is trained
on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedflat.core.seeds import torch_generator
from literal import styles
from literal.network import Array, Examples
from literal.problem import random_plan
from methods.test_against_twins import ROUNDS
from methods.test_twins_of_networks import CLASSES, agree, replayed

SIZES, SHAPE = (3, 5, 4), (3, 8, 12)


@dataclass
class Drawn:
    """The numbers that a piece draws in a request."""

    rng: torch.Generator

    def below(self, count: int) -> int:
        return int(torch.randint(count, (1,), generator=self.rng))

    def uniform(self, count: int) -> Array:
        return torch.rand(count, generator=self.rng, dtype=torch.float64).numpy()


def images(seed: int) -> Examples:
    """Smooth pictures in different colours for every client, and one that is all of one colour."""
    rng = np.random.default_rng(seed)
    rows, columns = np.meshgrid(np.arange(SHAPE[1]), np.arange(SHAPE[2]), indexing="ij")
    x: list[Any] = []
    for client, count in enumerate(SIZES):
        waves = rng.uniform(0.1, 0.9, size=(count, 3, 1, 1, 2))
        light = np.sin(waves[..., 0] * rows + client) + np.cos(waves[..., 1] * columns)
        noisy = 110 + 40 * client + 45 * light + rng.normal(0, 12, size=(count, *SHAPE))
        x.append(np.clip(noisy, 0, 255).astype(np.uint8))
    x[2][2] = 77
    y = [rng.integers(0, CLASSES, size=n) for n in SIZES]
    return Examples(x, y, 0.1 * rng.normal(size=CLASSES * (int(np.prod(SHAPE)) + 1)))


@pytest.mark.parametrize("kind", ["cfsi", "lab"])
def test_styles(kind: str) -> None:
    data = images(5)
    plan = random_plan(6, data, ROUNDS, cohort=(1, 2), epochs=2, lr=0.3, momentum=0.5)
    trace = styles.run(
        data,
        plan,
        kind=kind,
        share=0.2,
        domains=[0, 1, 2],
        classes=CLASSES,
        draws=lambda t, k: Drawn(torch_generator(0, f"piece/{kind}", t, k)),
    )
    text = {"cfsi": "cfsi(share=0.2)", "lab": "lab()"}[kind]
    linear = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(SHAPE)), CLASSES))
    agree(replayed(f"{text} + all_clients()", linear, data, plan), trace, plan)
