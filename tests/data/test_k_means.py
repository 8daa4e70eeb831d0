"""k-means: clear clusters are found, with the same result for every number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from fedflat.data.k_means import k_means
from fedflat.registry.specs import parse

GROUPINGS = (
    "kmeans(d_min=300, clusters=40)",
    "alike(40)",
    "icg(20)",
    "by_style(fewest=30, most=31)",
)
POINTS = np.random.default_rng(7).standard_normal((600, 16))


def groups() -> str:
    rngs = [np.random.default_rng(3) for _ in GROUPINGS]
    found = [
        parse(text, "grouping").assign(POINTS, [100] * len(POINTS), rng)
        for text, rng in zip(GROUPINGS, rngs, strict=True)
    ]
    return repr([[[int(client) for client in group] for group in one] for one in found])


def test_clusters_far_apart_are_found() -> None:
    points = np.concatenate(
        [10.0 * np.eye(3) + 0.1 * k for k in range(4)]
    )  # point k belongs to cluster k % 3
    for seed in (0, 1, 2**63 - 1):
        labels = k_means(points, 3, seed)
        assert sorted(labels[:3]) == [0, 1, 2]
        assert all(len(set(labels[kind::3])) == 1 for kind in range(3))


def test_no_cluster_is_empty_where_points_are_equal() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(k_means(np.zeros((5, 2)), 4, 0)) == {0, 1, 2, 3}
        labels = k_means(np.repeat(np.eye(2), 4, axis=0), 5, 0)
    assert set(labels) == {0, 1, 2, 3, 4}
    assert not set(labels[:4]) & set(labels[4:])


def test_the_number_of_threads_does_not_matter() -> None:
    """Points on a grid: many lie between two centres, and the last bit of a sum decides."""
    x, y = np.meshgrid(np.arange(20) / 10, np.arange(20) / 10)
    points = np.tile(np.stack([x, y], -1).reshape(-1, 2), (5, 1))
    for seed in range(3):
        found = []
        for threads in (1, 2, 5):
            with threadpool_limits(threads):
                found.append(k_means(points, 150, seed, starts=1).tolist())
        assert found[0] == found[1] == found[2]


def test_the_number_of_threads_is_given_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        k_means(POINTS[:50], 3, 0)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_groups_in_another_process_with_other_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from data.test_k_means import groups; print(groups())"],
        env=os.environ
        | {"OMP_NUM_THREADS": "3", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == groups()
