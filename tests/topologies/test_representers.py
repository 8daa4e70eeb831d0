"""From descriptions to the vectors by which clients are grouped."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA

from fedflat.client.describers.task2vec import Task2Vec
from fedflat.client.describers.weights import ClassifierWeights
from fedflat.client.instructions import LabelCounts
from fedflat.errors import SettingError
from fedflat.topologies.groupings.client_vectors import principal, representers


@pytest.mark.parametrize(
    ("clients", "length", "columns"), [(20, 300, 1 << 16), (30, 8, 1 << 16), (20, 300, 7)]
)
def test_components_are_those_of_scikit_learn(
    clients: int, length: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedflat.topologies.groupings.client_vectors.COLUMNS", columns)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((clients, 4)) @ rng.standard_normal((4, length)) * 5
    vectors += 3 + 0.3 * rng.standard_normal((clients, length))
    expected = PCA(0.9, svd_solver="full").fit_transform(vectors)
    sent = list(torch.from_numpy(vectors))
    found = principal(sent)
    assert found.shape == expected.shape
    np.testing.assert_allclose(pdist(found), pdist(expected), rtol=1e-8)
    np.testing.assert_allclose(
        pdist(representers(ClassifierWeights(), sent)), pdist(expected), rtol=1e-8
    )


def test_clients_that_are_all_the_same() -> None:
    assert (principal(list(torch.ones(4, 6))) == 0).all()


def test_labels_become_shares() -> None:
    assert representers(LabelCounts(), list(torch.tensor([[2, 2], [0, 5]]))).tolist() == [
        [0.5, 0.5],
        [0, 1],
    ]
    with pytest.raises(SettingError, match="client 1 has no labels"):
        representers(LabelCounts(), list(torch.tensor([[2, 2], [0, 0]])))


def test_the_others_stay_what_they_are() -> None:
    sent = [torch.tensor([[0.25], [3.0]]), torch.tensor([[0.5], [-1.0]])]
    assert representers(Task2Vec(), sent).tolist() == [[0.25, 3.0], [0.5, -1.0]]


def test_shapes_that_differ() -> None:
    with pytest.raises(SettingError, match=r"cannot be compared by task2vec.* different shapes"):
        representers(Task2Vec(), [torch.ones(2), torch.ones(3)])
