"""The cheapest assignment of rows to columns in which every column gets the same number of rows.

Columns get prices; a row goes where cost less price is lowest. Prices that even out *soft* choices leave few columns
with too many rows. What is left is put right exactly: a row moves from a full column to another, whence one moves on,
until a column with room is reached, along the path that costs least. A first assignment in which every row has its
cheapest column is the best for the numbers it gives the columns, and moving along cheapest paths keeps it so (the
successive shortest paths of minimum-cost flows). Prices only decide how much there is to put right, not the outcome.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fedflat.topology.grouping.dissimilarity import Vectors

FIRST_STEPS, NEXT_STEPS = 40, 10
HARDEST = 0.003
"""Of the costs' spread: how soft the last choices are."""


def balanced(cost: Vectors, capacity: int, prices: Vectors) -> tuple[np.ndarray, Vectors]:
    """The column of each row, and the prices that led there; ``prices`` may be those of a similar problem, or zeros.

    >>> balanced(np.array([[0.0, 1.0], [0.0, 5.0], [1.0, 1.5], [0.0, 9.0]]), 2, np.zeros(2))[0].tolist()
    [1, 0, 1, 0]
    """
    prices = _prices(cost, capacity, prices)
    priced = cost - prices
    columns = priced.argmin(1)
    moves, movers = _moves(priced, columns, range(cost.shape[1]), None)
    rounding = 1e-12 * max(1e-300, float(np.abs(priced).max()))
    while True:
        counts = np.bincount(columns, minlength=cost.shape[1])
        if counts.max() <= capacity:
            return columns, prices
        path = _cheapest_path(moves, counts > capacity, counts < capacity, rounding)
        for start, end in pairwise(path):
            columns[movers[start, end]] = end
        moves, movers = _moves(priced, columns, path, (moves, movers))


def _prices(cost: Vectors, capacity: int, prices: Vectors) -> Vectors:
    """Prices under which soft choices are nearly balanced, ever less soft."""
    spread = float(cost.std())
    if spread == 0:
        return prices
    new = not prices.any()
    for soft in spread * np.geomspace(1.0 if new else 0.03, HARDEST, FIRST_STEPS if new else NEXT_STEPS):
        choices = (prices - cost) / soft
        choices -= choices.max(1, keepdims=True)
        np.exp(choices, out=choices)
        wanted = (choices / choices.sum(1, keepdims=True)).sum(0)
        prices = prices - soft * np.log(np.maximum(wanted, 1e-9) / capacity)
    return prices


Moves = tuple[Vectors, np.ndarray]
"""What the cheapest move from each column to each other one costs, and the row that would move."""


def _moves(priced: Vectors, columns: np.ndarray, changed: range | list[int], known: Moves | None) -> Moves:
    """All moves, where only those out of the ``changed`` columns are new."""
    count = priced.shape[1]
    cheapest, movers = known or (np.full((count, count), np.inf), np.zeros((count, count), np.int64))
    for start in changed:
        rows = np.flatnonzero(columns == start)
        cheapest[start] = np.inf
        if len(rows):
            more = priced[rows] - priced[rows, start][:, None]
            best = more.argmin(0)
            cheapest[start], movers[start] = more[best, np.arange(count)], rows[best]
    return cheapest, movers


def _cheapest_path(moves: Vectors, full: np.ndarray, room: np.ndarray, rounding: float) -> list[int]:
    """Columns from one that is too full to one with room (Bellman and Ford)."""
    costs = np.where(full, 0.0, np.inf)
    before = np.full(len(full), -1)
    for _ in range(len(full)):
        through = costs[:, None] + moves
        via = through.argmin(0)
        found = through[via, np.arange(len(full))]
        better = found < costs - rounding
        if not better.any():
            break
        costs, before = np.where(better, found, costs), np.where(better, via, before)
    path = [int(np.argmin(np.where(room, costs, np.inf)))]
    while before[path[0]] >= 0:
        path.insert(0, int(before[path[0]]))
    return path
