from __future__ import annotations

import numpy as np
import pytest
import torch

from fedflat import clients_of, digits, lda
from fedflat.data.skew import Skew


def test_figures_of_a_small_assignment():
    labels = np.array([0, 0, 0, 1, 1, 2])
    skew = Skew.of(labels, [np.array([0, 1]), np.array([2, 3]), np.array([4]), np.array([5])], 4)
    assert (skew.clients, skew.examples, skew.classes) == (4, 6, 4)
    assert (skew.size_min, skew.size_median, skew.size_max) == (1, 1.5, 2)
    assert (skew.classes_min, skew.classes_mean, skew.classes_max) == (1, 1.25, 2)
    # Everyone's: (3, 2, 1, 0) / 6. Distances: (1,0,0) 1/2; (1/2,1/2,0) 1/6; (0,1,0) 2/3; (0,0,1)
    # 5/6.
    assert skew.distance == pytest.approx((1 / 2 + 1 / 6 + 2 / 3 + 5 / 6) / 4)


def test_equal_clients_have_no_distance():
    skew = Skew.of(np.array([0, 1, 0, 1]), [np.array([0, 1]), np.array([2, 3])], 2)
    assert skew.distance == 0
    assert (skew.classes_min, skew.classes_max) == (2, 2)


def test_repeated_examples_count_twice():
    skew = Skew.of(np.array([0, 1]), [np.array([0, 0, 1])], 2)
    assert skew.examples == 3


def test_description():
    skew = digits(lda(0), clients=20).open(0).skew()
    assert skew.classes_mean == 1
    text = skew.describe()
    assert "20 clients, 1442 examples" in text
    assert "1 to 1 of 10, mean 1.00" in text
    assert skew.clients == 20


def test_skew_of_a_federation_with_few_labels():
    x, y = torch.rand(3, 2), torch.tensor([0, 0, 0])
    skew = clients_of([(x, y), (x, y)], test=(x, y), classes=5).open(0).skew()
    assert (skew.classes, skew.classes_max, skew.distance) == (5, 1, 0)
