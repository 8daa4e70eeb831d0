"""Retrieval: embeddings in which examples of the same place are near each other.

    loss       mean over triples (q, p, n) of max(|q - p| - |q - n| + margin, 0)
    mining     by the client's current model: p is the nearest example of the same place, n are
               the nearest ones of other places, out of a random pool of the client's examples;
               repeated whenever as many queries were used as the pool is large
    recall@N   the share of queries with an example of their place among the N nearest

Targets are numbers of places, or positions in metres, floats ``(N, 2)``. For positions, the same
place is ``within`` so many metres in training, another place is ``beyond`` so many, and recall
counts what is not beyond. Queries are searched in the test set called "gallery" if there is one;
else each example is searched among all others of its own set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pairwise_distance

from fedflat.data.batch import Batch
from fedflat.data.federation import Federation
from fedflat.errors import SettingError, choice, number
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline
from fedflat.tasks.task import Supply, Task

RECALL = Headline("recall@1", unit="%", factor=100.0)
NEAREST = (1, 5, 10, 20)
CHUNK = 256
MOST_CHECKED = 5
"""Most clients that are checked before the first round."""


@dataclass(frozen=True, repr=False)
class Retrieval(Task):
    """Embeddings in which examples of one place are near each other. Judged by recall@1."""

    margin: float = 0.1
    negatives: int = 5
    within: float = 10.0
    beyond: float = 25.0
    pool: int = 1000
    width: int = 64
    queries: str = "with_positive"
    """"with_positive": recall skips queries without any example of their place.

    "all": they count as failures.
    """

    headline = RECALL
    reference = "gallery"
    weighs = False
    usual_model = "embedder"

    def __post_init__(self) -> None:
        number("retrieval", "margin", self.margin, low=0, open_low=True)
        for name in ("negatives", "pool", "width"):
            number("retrieval", name, getattr(self, name), low=1, whole=True)
        number("retrieval", "within", self.within, low=0)
        number("retrieval", "beyond", self.beyond, low=self.within)
        choice("retrieval", "queries", self.queries, ["with_positive", "all"])

    def outputs(self, fed: Federation) -> int:
        """The width of an embedding."""
        return self.width

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Refuse outputs without one vector per example."""
        super().check(fed, output, batch)
        if output.dim() != 2 or len(output) != len(batch):
            raise SettingError(
                f"retrieval: the model turned a batch of {len(batch)} into {tuple(output.shape)}; "
                "one vector for each example is needed. Use a model such as embedder()."
            )

    def remark(self, fed: Federation) -> str:
        """A warning about clients that hold no triple of query, positive and negative."""
        count = min(fed.population, MOST_CHECKED) if fed.here else 0
        checked = [place * fed.population // count for place in range(count)]
        idle = [client for client in checked if not self._triple(fed.data(client).targets)]
        if not idle:
            return ""
        some = (
            f"client {idle[0]}"
            if len(idle) == 1
            else f"{len(idle)} of the {count} clients looked at"
        )
        return (
            f"retrieval: {some} will learn nothing, since no example has another one of its "
            "place, and one of another place, at the same client. Give clients more examples, or "
            "set within and beyond for these data"
        )

    def _triple(self, targets: Tensor) -> bool:
        """True if some example has a positive and a negative among these."""
        own = torch.eye(len(targets), dtype=torch.bool, device=targets.device)
        same = self.same(targets, targets) & ~own
        return bool((same.any(1) & self.other(targets, targets).any(1)).any())

    def same(self, a: Tensor, b: Tensor, within: float | None = None) -> Tensor:
        """Matrix: True where row ``a`` and column ``b`` are the same place."""
        if a.is_floating_point():
            return torch.cdist(a.double(), b.double()) <= (
                self.within if within is None else within
            )
        return a.unsqueeze(1) == b.unsqueeze(0)

    def other(self, a: Tensor, b: Tensor) -> Tensor:
        """Matrix: True where both are different places."""
        return ~self.same(a, b, self.beyond)

    def triples(self, queries: Tensor, pool: Tensor, same: Tensor, other: Tensor) -> Tensor:
        """For each query, its ``negatives`` hardest triples ``(Q, k, 2)``.

        Entries are positions in the pool, -1 where there is none. ``same`` and ``other`` say which
        columns of the pool may be a positive or a negative of which query.
        """
        distances = torch.cdist(queries, pool, compute_mode="donot_use_mm_for_euclid_dist")
        near, positive = distances.masked_fill(~same, torch.inf).min(1, keepdim=True)
        most = min(self.negatives, pool.shape[0])
        hard, negative = distances.masked_fill(~other, torch.inf).topk(
            most, dim=1, largest=False, sorted=True
        )
        triples = torch.stack([positive.expand_as(negative), negative], dim=2)
        return torch.where((near.isfinite() & hard.isfinite()).unsqueeze(2), triples, -1)

    def batches(self, supply: Supply) -> Iterator[Batch]:
        """Batches of queries with positives and negatives, mined by the current model."""
        steps: list[Tensor] = []
        for places in supply.places:
            if steps and sum(map(len, steps)) + len(places) > self.pool:
                yield from self._mine(supply, steps)
                steps = []
            steps.append(places)
        if steps:
            yield from self._mine(supply, steps)

    def _mine(self, supply: Supply, steps: list[Tensor]) -> Iterator[Batch]:
        targets, queries = supply.data.targets, torch.cat(steps)
        pool = torch.randperm(len(targets), generator=supply.rng)[: self.pool].sort().values
        same = self.same(targets[queries], targets)
        same[torch.arange(len(queries)), queries] = False
        used = torch.cat([queries, pool, same.any(0).nonzero().squeeze(1)]).unique()
        in_pool = torch.zeros(len(targets), dtype=torch.bool).index_fill_(0, pool, True)
        other = self.other(targets[queries], targets) & in_pool
        parts = [
            supply.output(supply.data.batch(chunk, supply.dtype).inputs)
            for chunk in used.split(CHUNK)
        ]
        embedded = torch.cat(parts)
        rows = torch.searchsorted(used, queries)
        mined = self.triples(embedded[rows], embedded, same[:, used], other[:, used])
        for places, triples in zip(steps, mined.split([len(step) for step in steps]), strict=True):
            yield self._batch(supply, places, used, triples)

    def _batch(self, supply: Supply, places: Tensor, used: Tensor, found: Tensor) -> Batch:
        """Queries, then all positives, then all negatives. The query itself fills missing ones."""
        valid = (found >= 0).all(2)
        again = places.unsqueeze(1).expand(valid.shape)
        positives, negatives = (
            torch.where(valid, used[found[..., i].clamp(min=0)], again).flatten() for i in (0, 1)
        )
        index = torch.cat([places, positives, negatives])
        batch = supply.data.batch(index, supply.dtype, supply.augment)
        query = torch.arange(len(places)).unsqueeze(1).expand(valid.shape).flatten()
        first = len(places) + torch.arange(len(query))
        triples = torch.stack([query, first, first + len(query)], 1)
        return Batch(
            batch.inputs, (batch.targets, torch.where(valid.flatten().unsqueeze(1), triples, -1))
        )

    def loss(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Summed loss of the mined triples; without mining, of the hardest triples of the batch."""
        if isinstance(batch.targets, tuple):
            triples = batch.targets[1]
        else:
            triples = self._within_batch(output.detach(), batch.targets)
        valid = (triples >= 0).all(1)
        q, p, n = (output[triples[:, i].clamp(min=0)] for i in range(3))
        losses = (pairwise_distance(q, p) - pairwise_distance(q, n) + self.margin).relu()
        return torch.where(valid, losses, 0).sum(), valid.sum()

    def _within_batch(self, output: Tensor, targets: Tensor) -> Tensor:
        own = torch.eye(len(output), dtype=torch.bool, device=output.device)
        triples = self.triples(
            output, output, self.same(targets, targets) & ~own, self.other(targets, targets)
        )
        query = (
            torch.arange(len(output), device=output.device)
            .view(-1, 1, 1)
            .expand(*triples.shape[:2], 1)
        )
        return torch.cat([query, triples], dim=2).flatten(0, 1)

    def meter(self, outputs: int) -> RecallMeter:
        """A `RecallMeter`."""
        return RecallMeter(self)


class RecallMeter:
    """Collects embeddings of queries, and of a gallery if there is one."""

    def __init__(self, task: Retrieval) -> None:
        self.task = task
        self.gallery: list[tuple[Tensor, Tensor]] = []
        self.queries: list[tuple[Tensor, Tensor]] = []

    def refer(self, output: Tensor, batch: Batch) -> None:
        """Add a batch of the gallery."""
        self.gallery.append((output.double().cpu(), batch.targets.cpu()))

    def add(self, output: Tensor, batch: Batch) -> None:
        """Add a batch of queries."""
        self.queries.append((output.double().cpu(), batch.targets.cpu()))

    def scores(self) -> dict[str, float]:
        """recall@1, @5, @10 and @20."""
        if not self.queries:
            return {f"recall@{n}": float("nan") for n in NEAREST}
        no_gallery = not self.gallery
        gallery, gallery_targets = map(torch.cat, zip(*(self.gallery or self.queries), strict=True))
        hits, count, first = dict.fromkeys(NEAREST, 0), 0, 0
        for queries, targets in self.queries:
            distances = torch.cdist(queries, gallery, compute_mode="donot_use_mm_for_euclid_dist")
            same = self.task.same(targets, gallery_targets, self.task.beyond)
            if no_gallery:
                rows = torch.arange(len(queries))
                distances[rows, first + rows], same[rows, first + rows] = torch.inf, False
                first += len(queries)
            ranked = same.gather(1, distances.sort(dim=1, stable=True).indices)
            count += (
                int(same.any(1).sum()) if self.task.queries == "with_positive" else len(queries)
            )
            for n in NEAREST:
                hits[n] += int(ranked[:, :n].any(1).sum())
        return {f"recall@{n}": hits[n] / count if count else float("nan") for n in NEAREST}


retrieval = register("task", "retrieval")(Retrieval)
