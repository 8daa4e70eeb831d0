"""Clusters of styles by the silhouette, against scikit-learn's and against numbers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples

from fedflat.data.styles.clusters import silhouettes, style_clusters
from fedflat.errors import SettingError

LINE = np.array([[0], [1], [10], [12], [30], [33], [50], [54], [80]])


def test_a_silhouette_in_numbers() -> None:
    found = silhouettes([[0], [1], [10], [11], [30]], [0, 0, 1, 1, 2])
    assert found.mean() == pytest.approx(0.71979950, abs=6e-9)
    assert found[-1] == 0


def test_silhouettes_as_scikit_learn_has_them() -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(30, 27)), rng.integers(5, size=30)
    labels[labels == 4] = 3
    labels[7] = 4  # alone
    np.testing.assert_allclose(silhouettes(points, labels), silhouette_samples(points, labels), atol=1e-12)


def test_the_number_of_clusters() -> None:
    found = style_clusters(LINE)
    expected = [0.67621349, 0.74609645, 0.56558736, 0.38051684, 0.19876543]
    assert list(found.tried) == [4, 5, 6, 7, 8]
    assert list(found.tried.values()) == pytest.approx(expected, abs=6e-9)
    assert found.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert found.centroids.ravel().tolist() == [0.5, 11, 31.5, 52, 80]
    assert found.silhouette == found.tried[5]


def test_a_test_image_goes_to_the_nearest_mean() -> None:
    assert style_clusters(LINE).nearest([[5.7], [5.8], [100]]).tolist() == [0, 1, 4]


def test_of_equal_silhouettes_the_fewer_clusters() -> None:
    """Four far points, each twice: with more clusters than four nothing can be better than all in place."""
    found = style_clusters(np.repeat(np.eye(4) * 100, 2, axis=0))
    assert found.silhouette == 1
    assert len(found.centroids) == 4


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingError, match=r"3 clients with 3 different styles allow at most 2. Say fewest=2 or less"):
        style_clusters(LINE[:3])
    with pytest.raises(SettingError, match="9 clients with 1 different styles allow at most 1"):
        style_clusters(np.ones((9, 27)))
    with pytest.raises(SettingError, match="one row of finite numbers for each client"):
        style_clusters(np.full((9, 2), np.nan))
    one = style_clusters(np.ones((9, 27)), fewest=1)
    assert one.labels.tolist() == [0] * 9
    assert one.silhouette == 0
