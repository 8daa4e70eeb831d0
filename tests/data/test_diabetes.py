"""The diabetes data: scikit-learn's numbers, standardised with those of the training set."""

from __future__ import annotations

import numpy as np
import torch

from fedflat import diabetes
from fedflat.registry.specs import parse


def test_it_is_scikit_learns() -> None:
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, scaled=False)
    fed = diabetes(clients=5).open(0)
    assert (fed.population, len(fed.test), sum(fed.sizes()), fed.shape, fed.classes) == (
        5,
        88,
        354,
        (10,),
        0,
    )
    table = np.column_stack([x, y])
    kept = np.array([i % 5 != 4 for i in range(442)])
    scaled = (table - table[kept].mean(0)) / table[kept].std(0)
    test = fed.test.batch(torch.arange(88), torch.float64)
    np.testing.assert_allclose(test.inputs.numpy(), scaled[~kept, :-1], atol=1e-6)
    np.testing.assert_allclose(test.targets.numpy(), scaled[~kept, -1], atol=1e-6)
    mine = torch.cat(
        [fed.data(k).batch(torch.arange(len(fed.data(k))), torch.float64).targets for k in range(5)]
    )
    np.testing.assert_allclose(np.sort(mine.numpy()), np.sort(scaled[kept, -1]), atol=1e-6)


def test_its_text_is_like_that_of_other_sets() -> None:
    output = "diabetes(quantity_skew(sigma=0.5), clients=8)"
    assert repr(parse(output, "data set")) == output
