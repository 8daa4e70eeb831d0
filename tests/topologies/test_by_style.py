"""Clusters of styles by the silhouette, against numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fedflat.errors import SettingError
from fedflat.topologies.groupings.by_style import silhouette, style_clusters

LINE = np.array([[0], [1], [10], [12], [30], [33], [50], [54], [80]])


def by_hand(points: np.ndarray, labels: np.ndarray) -> float:
    """The mean silhouette as the paper defines it."""
    found = []
    for place, label in enumerate(labels):
        far = np.linalg.norm(points - points[place], axis=1)
        own = np.flatnonzero((labels == label) & (np.arange(len(labels)) != place))
        inside = far[own].mean() if len(own) else 0.0
        outside = min(far[labels == other].mean() for other in set(labels.tolist()) - {label})
        found.append((outside - inside) / max(inside, outside) if len(own) else 0.0)
    return float(np.mean(found))


def test_a_silhouette_in_numbers() -> None:
    assert silhouette([[0], [1], [10], [11], [30]], [0, 0, 1, 1, 2]) == pytest.approx(
        0.71979950, abs=6e-9
    )
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(30, 27)), rng.integers(5, size=30)
    labels[labels == 4] = 3
    labels[7] = 4  # alone
    assert silhouette(points, labels) == pytest.approx(by_hand(points, labels), abs=1e-12)


def test_a_silhouette_without_two_clusters_or_without_company_is_zero() -> None:
    assert silhouette(LINE, [0] * 9) == 0
    assert silhouette(LINE, range(9)) == 0


def test_the_number_of_clusters() -> None:
    found = style_clusters(LINE)
    expected = [0.67621349, 0.74609645, 0.56558736, 0.38051684, 0.19876543]
    assert list(found.tried) == [4, 5, 6, 7, 8]
    assert list(found.tried.values()) == pytest.approx(expected, abs=6e-9)
    assert found.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert found.silhouette == found.tried[5]


def test_equal_silhouettes_give_fewer_clusters() -> None:
    """Four far points, each twice: with more clusters than four nothing can be better than all in
    place."""
    found = style_clusters(np.repeat(np.eye(4) * 100, 2, axis=0))
    assert found.silhouette == 1
    assert len(set(found.labels.tolist())) == 4


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(
        SettingError,
        match=r"3 clients with 3 different styles allow at most 2. Use fewest=2 or less",
    ):
        style_clusters(LINE[:3])
    with pytest.raises(SettingError, match="9 clients with 1 different styles allow at most 1"):
        style_clusters(np.ones((9, 27)))
    with pytest.raises(SettingError, match="one row of finite numbers for each client"):
        style_clusters(np.full((9, 2), np.nan))
    one = style_clusters(np.ones((9, 27)), fewest=1)
    assert one.labels.tolist() == [0] * 9
    assert one.silhouette == 0
