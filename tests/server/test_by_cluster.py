"""LADD's server in numbers, and where it is plain averaging."""

from __future__ import annotations

import pytest
import torch

from fedflat.errors import SettingError
from fedflat.server.by_cluster import Teacher, mean_by_cluster, weighted_mean

SIZES, CLUSTERS = [10, 30, 20], [0, 0, 1]


def test_shared_and_own_parts_in_numbers() -> None:
    shared = weighted_mean(torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64), SIZES)
    assert shared.tolist() == pytest.approx([2.5])
    before = torch.tensor([[5.0], [6.0], [7.0]], dtype=torch.float64)
    own = mean_by_cluster(before, torch.tensor([[10.0], [20.0], [30.0]], dtype=torch.float64), SIZES, CLUSTERS)
    assert own.flatten().tolist() == pytest.approx([17.5, 30, 7])
    assert before.flatten().tolist() == [5, 6, 7]


def test_one_cluster_is_the_plain_mean_and_one_client_each_is_everybody_alone() -> None:
    vectors = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    alike = mean_by_cluster(torch.zeros(1, 4, dtype=torch.float64), vectors, SIZES, [0, 0, 0])
    torch.testing.assert_close(alike[0], weighted_mean(vectors, SIZES))
    alone = mean_by_cluster(torch.zeros_like(vectors), vectors, SIZES, [2, 0, 1])
    torch.testing.assert_close(alone, vectors[[1, 2, 0]])


def test_a_teacher_in_numbers() -> None:
    teacher, seen = Teacher(torch.tensor(99.0), every=2, start=4), []
    for completed, model in enumerate([10, 8, 6, 5, 4, 3, 2, 1], start=1):
        teacher = teacher.after(completed, torch.tensor(float(model)))
        seen.append(float(teacher.model))
    assert seen == pytest.approx([99, 8, 8, 5, 5, 4, 4, 3])
    assert teacher.averaged == 3


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingError, match="clusters must be numbered below 1, found 1"):
        mean_by_cluster(torch.zeros(1, 2), torch.zeros(2, 2), [1, 1], [0, 1])
    with pytest.raises(SettingError, match="needs a size above 0 for each"):
        weighted_mean(torch.zeros(2, 2), [1, 0])
    with pytest.raises(SettingError, match="a teacher: every must be a whole number of at least 1"):
        Teacher(torch.zeros(1), every=0, start=1)
