"""From what clients sent to the vectors they are grouped by."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA

from fedflat.errors import SettingError
from fedflat.topology.grouping.representers import principal, representers


@pytest.mark.parametrize(("clients", "length", "columns"), [(20, 300, 1 << 16), (30, 8, 1 << 16), (20, 300, 7)])
def test_components_are_those_of_scikit_learn(
    clients: int, length: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedflat.topology.grouping.representers.COLUMNS", columns)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((clients, 4)) @ rng.standard_normal((4, length)) * 5
    vectors += 3 + 0.3 * rng.standard_normal((clients, length))
    expected = PCA(0.9, svd_solver="full").fit_transform(vectors)
    found = principal(vectors)
    assert found.shape == expected.shape
    np.testing.assert_allclose(pdist(found), pdist(expected), rtol=1e-8)
    np.testing.assert_allclose(pdist(representers("classifier", vectors)), pdist(expected), rtol=1e-8)


def test_clients_that_are_all_the_same() -> None:
    assert (principal(np.ones((4, 6))) == 0).all()


def test_labels_become_shares() -> None:
    assert representers("labels", np.array([[2, 2], [0, 5]])).tolist() == [[0.5, 0.5], [0, 1]]
    with pytest.raises(SettingError, match="client 1 has no labels"):
        representers("labels", np.array([[2, 2], [0, 0]]))


def test_the_others_stay_what_they_are() -> None:
    vectors = np.array([[0.25, 0.75]], np.float32)
    assert representers("task2vec", vectors).tolist() == representers("confidence", vectors).tolist() == [[0.25, 0.75]]
