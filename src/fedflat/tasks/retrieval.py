"""Retrieval: descriptors in which images of the same place are near each other (FedVPR).

    roles      a query image is compared with database images only; targets say which is which.
               Without roles every image is both
    epoch      all usable queries of a client: those with a positive and a negative in its database
    mining     by the client's current model in evaluation mode: the positive is the nearest of all
               database images ``within`` so many metres, the negatives are the nearest ones further
               than ``beyond`` metres in a random pool of the database; repeated for every
               ``refresh`` queries
    loss       mean over triples (q, p, n) of max(|q - p| - |q - n| + margin, 0)
    recall@N   the share of queries with a database image not ``beyond`` among the N nearest

Caldarola's doctoral thesis, sections 2.1.2 and 6.3, uses one negative per query. Berton et al.,
Deep Visual Geo-localization Benchmark, CVPR 2022, uses ten, a margin of 0.1, 10 and 25 metres, and
a pool and a refresh of 1000. The forms of targets are in `fedflat.data.places.targets`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pairwise_distance

from fedflat.data.examples import Batch, ClientData
from fedflat.data.federation import Federation
from fedflat.data.places.targets import DATABASE, QUERY, Places
from fedflat.errors import SettingError, choice, number
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline
from fedflat.tasks.recall import RecallMeter, distances
from fedflat.tasks.task import Supply, Task

RECALL = Headline("recall@1", unit="%", factor=100.0)
CHUNK = 256
MOST_CHECKED = 5
"""Most clients that are checked before the first round."""


@dataclass(frozen=True, repr=False)
class Retrieval(Task):
    """Descriptors in which images of one place are near each other. Headline score: recall@1.

    margin
        Margin of the triplet loss.
    negatives
        Negatives per query.
    within, beyond
        Metres: positives are within the first, negatives further than the second. Recall counts
        what is within the second.
    pool
        Database images, drawn at random, among which negatives are searched.
    refresh
        Queries for which one pool and its descriptors serve.
    epoch
        ``"queries"``: a local epoch visits each usable query once. ``"images"``: it has as many
        queries as the client has images; queries repeat.
    width
        Numbers in a descriptor, for networks that have a choice.
    queries
        ``"with_positive"``: recall leaves out queries without any image of their place in the
        gallery. ``"all"``: they count as failures. Their number is a score of its own.
    """

    margin: float = 0.1
    negatives: int = 1
    within: float = 10.0
    beyond: float = 25.0
    pool: int = 1000
    refresh: int = 1000
    epoch: str = "queries"
    width: int = 64
    queries: str = "with_positive"

    headline = RECALL
    reference = "gallery"
    weighs = False
    usual_model = "embedder"

    def __post_init__(self) -> None:
        number("retrieval", "margin", self.margin, low=0, open_low=True)
        for name in ("negatives", "pool", "refresh", "width"):
            number("retrieval", name, getattr(self, name), low=1, whole=True)
        number("retrieval", "within", self.within, low=0)
        number("retrieval", "beyond", self.beyond, low=self.within)
        choice("retrieval", "epoch", self.epoch, ["queries", "images"])
        choice("retrieval", "queries", self.queries, ["with_positive", "all"])

    def outputs(self, fed: Federation) -> int:
        return self.width

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Refuse data without places, and outputs without one vector per example."""
        super().check(fed, output, batch)
        for name, data in fed.tests.items():
            Places.of(data.targets).check(f"the test set {name!r}")
        if output.dim() != 2 or len(output) != len(batch):
            raise SettingError(
                f"retrieval: the model turned a batch of {len(batch)} into {tuple(output.shape)}; "
                "one vector for each example is needed. Use a model such as embedder()."
            )

    def remark(self, fed: Federation) -> str:
        """A warning about clients without a triple, and test queries without an answer."""
        return ". ".join(text for text in (self._idle(fed), *self._unanswered(fed)) if text)

    def _unanswered(self, fed: Federation) -> Iterator[str]:
        for name, data in fed.tests.items() if fed.here else ():
            places = Places.of(data.targets)
            if name == self.reference or places.roles is None:
                continue
            found = places.database_within(places.queries, self.beyond)
            lost = sum(len(hits) == 0 for hits in found)
            if not found:
                yield f"retrieval: the test set {name!r} has no recall, since it has no query"
            elif lost == len(found):
                yield (
                    f"retrieval: the test set {name!r} has no recall, since none of its {len(found)} queries "
                    f"has a database image within {self.beyond:g} m"
                )
            elif lost:
                what = "count as failures" if self.queries == "all" else "are left out of recall"
                yield (
                    f"retrieval: {lost} of the {len(found)} queries of the test set {name!r} have no "
                    f"database image within {self.beyond:g} m and {what}"
                )

    def _idle(self, fed: Federation) -> str:
        count = min(fed.population, MOST_CHECKED) if fed.here else 0
        checked = [place * fed.population // count for place in range(count)]
        idle = [client for client in checked if not len(self.usable(fed.data(client)))]
        if not idle:
            return ""
        some = (
            f"client {idle[0]}"
            if len(idle) == 1
            else f"{len(idle)} of the {count} clients looked at"
        )
        return (
            f"retrieval: {some} will learn nothing, since no query has a database image of its "
            "place, and one of another place, at the same client. Give clients more examples, or "
            "set within and beyond for these data"
        )

    def usable(self, data: ClientData) -> Tensor:
        """Positions of the client's queries that have a positive and a negative in its database."""
        places = Places.of(data.targets)
        places.check("a client")
        return places.usable_queries(self.within, self.beyond)

    def epoch_size(self, data: ClientData) -> int:
        """The number of queries of a local epoch; 1 if a client has no usable query.

        Such a client makes one step per epoch, whose loss is 0.
        """
        usable = len(self.usable(data))
        return len(data) if usable and self.epoch == "images" else max(usable, 1)

    def reference_rows(self, targets: Any) -> Tensor | None:
        """True for database images; None if every image is both."""
        roles = Places.of(targets).roles
        return None if roles is None else roles == DATABASE

    def triples(self, queries: Tensor, others: Tensor, same: Tensor, other: Tensor) -> Tensor:
        """For each query, its ``negatives`` hardest triples ``(Q, k, 2)``.

        Entries are rows of ``others``, -1 where there is none. ``same`` and ``other`` say which
        rows may be a positive or a negative of which query. Ties go to the lower row.
        """
        apart = distances(queries, others)
        near, positive = apart.masked_fill(~same, torch.inf).min(1, keepdim=True)
        ranked = apart.masked_fill(~other, torch.inf).sort(dim=1, stable=True)
        hard, negative = ranked.values[:, : self.negatives], ranked.indices[:, : self.negatives]
        pairs = torch.stack([positive.expand_as(negative), negative], dim=2)
        found = torch.where((near.isfinite() & hard.isfinite()).unsqueeze(2), pairs, -1)
        missing = self.negatives - found.shape[1]
        return torch.nn.functional.pad(found, (0, 0, 0, missing), value=-1)

    def batches(self, supply: Supply) -> Iterator[Batch]:
        """Batches of queries with positives and negatives, mined by the current model."""
        usable = self.usable(supply.data)
        # A client without a usable query: some image, of which no triple is valid.
        usable = usable if len(usable) else torch.zeros(1, dtype=torch.long)
        steps: list[Tensor] = []
        for places in supply.places:
            if steps and sum(map(len, steps)) + len(places) > self.refresh:
                yield from self._mine(supply, steps)
                steps = []
            steps.append(usable.cpu()[places % len(usable)])
        if steps:
            yield from self._mine(supply, steps)

    def _mine(self, supply: Supply, steps: list[Tensor]) -> Iterator[Batch]:
        places, queries = Places.of(supply.data.targets), torch.cat(steps)
        database = places.database.cpu()
        sampled = torch.randperm(len(database), generator=supply.rng)[: self.pool]
        pool = database[sampled].sort().values
        near = places.database_within(queries, self.within)
        positives = torch.from_numpy(np.concatenate([np.empty(0, dtype=np.int64), *near]))
        used = torch.cat([queries, pool, positives]).unique()
        embedded = torch.cat(
            [
                supply.output(supply.data.batch(chunk, supply.dtype).inputs)
                for chunk in used.split(CHUNK)
            ]
        )
        apart = torch.cdist(places.where.cpu()[queries], places.where.cpu()[used])
        in_database, in_pool = torch.isin(used, database), torch.isin(used, pool)
        itself = queries.unsqueeze(1) == used
        asks = torch.isin(queries, places.queries.cpu()).unsqueeze(1)
        same = (apart <= places.radius(self.within)) & in_database & asks & ~itself
        other = (apart > places.radius(self.beyond)) & in_pool
        rows = torch.searchsorted(used, queries)
        mined = self.triples(
            embedded[rows], embedded, same.to(embedded.device), other.to(embedded.device)
        ).cpu()
        for own, triples in zip(steps, mined.split([len(step) for step in steps]), strict=True):
            yield self._batch(supply, own, used, triples)

    def _batch(self, supply: Supply, queries: Tensor, used: Tensor, found: Tensor) -> Batch:
        """Queries, one positive for each, then the negatives; the query itself fills gaps."""
        valid = (found >= 0).all(2)
        images = used[found.clamp(min=0)]
        positives = torch.where(valid[:, 0], images[:, 0, 0], queries)
        negatives = torch.where(valid, images[:, :, 1], queries.unsqueeze(1)).flatten()
        index = torch.cat([queries, positives, negatives])
        batch = supply.data.batch(index, supply.dtype, supply.augment)
        count = len(queries)
        query = torch.arange(count).repeat_interleave(self.negatives)
        triples = torch.stack(
            [query, count + query, 2 * count + torch.arange(count * self.negatives)], dim=1
        )
        triples = torch.where(valid.flatten().unsqueeze(1), triples, -1)
        return Batch(batch.inputs, (batch.targets, triples.to(batch.first.device)))

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
        places = Places.of(targets)
        rows = torch.arange(len(output), device=output.device)
        apart = distances(places.where, places.where)
        same = (apart <= places.radius(self.within)) & (rows.unsqueeze(1) != rows)
        other = apart > places.radius(self.beyond)
        if places.roles is not None:
            pairs = (places.roles == QUERY).unsqueeze(1) & (places.roles == DATABASE)
            same, other = same & pairs, other & pairs
        triples = self.triples(output, output, same, other)
        query = rows.view(-1, 1, 1).expand(*triples.shape[:2], 1)
        return torch.cat([query, triples], dim=2).flatten(0, 1)

    def meter(self, outputs: int) -> RecallMeter:
        return RecallMeter(self.beyond, all_queries=self.queries == "all")


retrieval = register("task", "retrieval")(Retrieval)
