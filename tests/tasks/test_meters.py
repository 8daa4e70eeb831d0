"""Scores that add up over batches, against NumPy and scikit-learn on everything at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, jaccard_score, mean_squared_error, r2_score
from sklearn.neighbors import NearestNeighbors

import fedflat as ff
from fedflat.data.examples import Batch
from fedflat.tasks.task import Task

RNG = np.random.default_rng(3)


def metered(
    task: Task, outputs: int, output: Any, targets: Any, cuts: tuple[int, ...] = (3, 4)
) -> dict[str, float]:
    """The scores of everything, met in batches of unequal sizes."""
    meter = task.meter(outputs)
    for one, theirs in zip(np.split(output, cuts), np.split(targets, cuts), strict=True):
        inputs = torch.zeros(len(one), 1)
        meter.add(
            torch.from_numpy(np.ascontiguousarray(one)),
            Batch(inputs, torch.from_numpy(theirs.copy())),
        )
    return meter.scores()


def test_accuracy() -> None:
    output, y = RNG.normal(size=(9, 4)), RNG.integers(0, 4, size=9)
    assert metered(ff.classification(), 4, output, y) == {
        "accuracy": float((output.argmax(1) == y).mean())
    }


def test_iou_of_each_class_and_their_mean() -> None:
    """Class 3 is nowhere and left out; ignored pixels are in no cell."""
    output, y = RNG.normal(size=(8, 5, 6, 6)), RNG.integers(0, 5, size=(8, 6, 6))
    y[y == 3] = 255
    output[:, 3] = -100
    found = metered(ff.segmentation(), 5, output, y)
    seen, guess = y[y != 255], output.argmax(1)[y != 255]
    each = jaccard_score(seen, guess, labels=[0, 1, 2, 4], average=None)
    assert [found[f"iou_{c}"] for c in (0, 1, 2, 4)] == pytest.approx(each, abs=1e-6)
    assert math.isnan(found["iou_3"])
    assert found["miou"] == pytest.approx(each.mean(), abs=1e-6)
    matrix = confusion_matrix(seen, guess)
    assert found["pixel_accuracy"] == np.trace(matrix) / matrix.sum()


def test_letters_guessed_and_perplexity() -> None:
    output, y = RNG.normal(size=(8, 5, 7)), RNG.integers(0, 7, size=(8, 5))
    y[:, 3:][RNG.random((8, 2)) < 0.7] = -1
    found = metered(ff.next_character(), 7, output, y)
    rows, columns = np.nonzero(y >= 0)
    chosen = output[rows, columns]
    logs = chosen[np.arange(len(rows)), y[rows, columns]] - np.log(np.exp(chosen).sum(1))
    assert found["accuracy"] == pytest.approx((chosen.argmax(1) == y[rows, columns]).mean())
    assert found["perplexity"] == pytest.approx(np.exp(-logs.mean()))
    nothing = metered(ff.next_character(), 7, output, np.full_like(y, -1))
    assert all(map(math.isnan, nothing.values()))


@pytest.mark.parametrize("width", [1, 3])
def test_rmse_and_what_is_explained(width: int) -> None:
    output, y = RNG.normal(size=(9, width)), RNG.normal(5, 2, size=(9, width))
    found = metered(ff.regression(), width, output, y[:, 0] if width == 1 else y)
    assert found["rmse"] == pytest.approx(math.sqrt(mean_squared_error(y, output)))
    assert found["r2"] == pytest.approx(r2_score(y, output))
    assert not ff.regression().headline.higher_is_better


def recalls(
    task: Task, gallery: tuple[Any, Any] | None, queries: tuple[Any, Any]
) -> dict[str, float]:
    meter: Any = task.meter(2)
    for some, on_progress in ((gallery, meter.refer), (queries, meter.add)):
        for part in np.array_split(np.arange(len(some[1])), 3) if some is not None else ():
            on_progress(
                torch.from_numpy(some[0][part]),
                Batch(torch.zeros(len(part), 1), torch.from_numpy(some[1][part])),
            )
    found: dict[str, float] = meter.scores()
    return found


@pytest.mark.parametrize("positions", [False, True])
def test_recall_over_a_gallery(positions: bool) -> None:
    at = RNG.uniform(0, 300, size=(70, 2)) if positions else RNG.integers(0, 20, size=70)
    x = RNG.normal(size=(70, 4))
    found = recalls(ff.retrieval(), (x[:50], at[:50]), (x[50:], at[50:]))
    order = NearestNeighbors(n_neighbors=20).fit(x[:50]).kneighbors(x[50:], return_distance=False)
    if positions:
        near = np.linalg.norm(at[50:, None] - at[None, :50], axis=2) <= 25
    else:
        near = at[50:, None] == at[None, :50]
    counted = near.any(1)
    assert counted.any()
    assert not counted.all()
    for n in (1, 5, 10, 20):
        hits = np.array([near[q, order[q, :n]].any() for q in range(20)])
        assert found[f"recall@{n}"] == pytest.approx(hits.sum() / counted.sum())
    failing = recalls(ff.retrieval(queries="all"), (x[:50], at[:50]), (x[50:], at[50:]))
    assert failing["recall@5"] == pytest.approx(found["recall@5"] * counted.sum() / 20)


def test_without_a_gallery_each_is_looked_up_among_the_others() -> None:
    x, places = RNG.normal(size=(40, 3)), RNG.integers(0, 9, size=40)
    order = NearestNeighbors(n_neighbors=6).fit(x).kneighbors(x, return_distance=False)[:, 1:]
    hits = [(places[order[q]] == places[q]).any() for q in range(40)]
    counted = [(places == places[q]).sum() > 1 for q in range(40)]
    assert recalls(ff.retrieval(), None, (x, places))["recall@5"] == pytest.approx(
        sum(hits) / sum(counted)
    )
