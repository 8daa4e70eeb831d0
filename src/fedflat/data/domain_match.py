"""How well found domains match known ones: purity and adjusted mutual information."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def domain_table(found: Sequence[int], known: Sequence[object], domains: int) -> NDArray[np.int64]:
    """The number of examples of each found domain (rows) and known domain (columns, sorted).

    >>> domain_table([0, 0, 1, 1], ["a", "b", "b", "b"], 3).tolist()
    [[1, 1], [0, 2], [0, 0]]
    """
    values = sorted(set(known), key=repr)
    table = np.zeros((domains, len(values)), np.int64)
    place = {value: column for column, value in enumerate(values)}
    for row, value in zip(found, known, strict=True):
        table[row, place[value]] += 1
    return table


def purity(found: Sequence[int], known: Sequence[object]) -> float:
    """Share of examples that are of the most frequent known domain of their found domain.

    With one found domain it is the share of the largest known domain; with as many found domains
    as examples it is 1.

    >>> purity([0, 0, 1, 1], ["a", "b", "b", "b"])
    0.75
    """
    table = domain_table(found, known, max(found) + 1)
    return float(table.max(1).sum() / table.sum())


def mutual_information(found: Sequence[int], known: Sequence[object]) -> float:
    """Adjusted mutual information: 1 for the same division, 0 on average for a random one.

    >>> mutual_information([1, 1, 0, 0], ["a", "a", "b", "b"])
    1.0
    """
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score([repr(value) for value in known], found))
