"""Local training of a client: the number of batches, their order, and plain SGD's pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedflat.client.gradient_transforms import Clip, Momentum, WeightDecay
from fedflat.client.piece import Piece
from fedflat.core.seeds import request_seed, torch_generator
from fedflat.errors import SettingError
from fedflat.settings.groups import LocalSettings
from fedflat.settings.setting import settings_of


@dataclass(frozen=True, kw_only=True)
class LocalTraining(LocalSettings):
    """Local training: ``epochs`` over the client's data, or a fixed number of ``steps``."""

    def pieces(self, *, keep: bool) -> tuple[Piece, ...]:
        """Return the pieces for clip, weight decay and momentum that have an effect.

        They come after the method's pieces of the same stage.
        """
        clip = () if self.clip is None else (Clip(self.clip),)
        decay = () if self.weight_decay == 0 else (WeightDecay(self.weight_decay),)
        momentum = () if self.momentum == 0 else (Momentum(self.momentum, keep),)
        return (*clip, *decay, *momentum)

    def optimizer_only(self, epochs: int, **changes: Any) -> LocalTraining:
        """Return the same optimizer for ``epochs`` over all the client's data, in usual batches.

        Settings of the run that are declared with ``amount=True`` get their defaults. ``changes``
        are other settings to replace.
        """
        unset = {
            one.path[-1]: one.default for one in settings_of(LocalSettings) if one.about.amount
        }
        return replace(self, **unset | {"epochs": epochs} | changes)

    def batches(
        self, seed: int, t: int, client: int, examples: int, repetition: int = 0
    ) -> Iterator[Tensor]:
        """Yield the indices of each batch.

        A client's further ``repetition`` in a round gets other batches, unless they are given.
        """
        if self.orders is not None:
            yield from (
                torch.as_tensor(batch, dtype=torch.long) for batch in self._given(t, client)
            )
            return
        rng = torch_generator(seed, "batches", *request_seed(t, client, repetition))
        left = self.planned_steps(t, client, examples)
        pool = self._draw(examples, rng)
        while left > 0:
            shuffled = torch.randperm(examples if pool is None else len(pool), generator=rng)
            order = shuffled if pool is None else pool[shuffled]
            if len(order) <= self.batch_size:
                left -= 1
                yield order
                continue
            epoch = order.split(self.batch_size)[: min(left, self._per_epoch(len(order)))]
            left -= len(epoch)
            yield from epoch

    def planned_steps(self, t: int, client: int, examples: int) -> int:
        """Return the number of local steps in round ``t``."""
        if self.orders is not None:
            return len(self._given(t, client))
        steps = self.steps or self.epochs * self._per_epoch(self.virtual or examples)
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def samples(self, t: int, client: int, examples: int) -> int:
        """Return the number of examples processed in round ``t``, all epochs counted."""
        if self.orders is not None:
            return sum(map(len, self._given(t, client)))
        size = self.virtual or examples
        each = self._per_epoch(size)
        epochs, rest = divmod(self.planned_steps(t, client, examples), each)
        return epochs * min(size, each * self.batch_size) + rest * self.batch_size

    def smallest_batch(self, t: int, client: int, examples: int) -> int:
        """Return the number of examples in the smallest batch of round ``t``."""
        if self.orders is not None:
            return min(map(len, self._given(t, client)))
        whole, rest = divmod(self.virtual or examples, self.batch_size)
        limits = [one for one in (self.steps, self.max_steps) if one is not None]
        never_reached = bool(limits) and min(limits) <= whole
        skipped = whole and (self.drop_last or never_reached)
        return rest if rest and not skipped else self.batch_size

    def takes_all(self, examples: int) -> bool:
        """Return True if every batch has all of a client's examples."""
        return self.orders is None and self.virtual is None and examples <= self.batch_size

    def epochs_of(self, t: int, client: int, examples: int) -> float:
        """Return the number of passes over the client's data in round ``t``."""
        if self.orders is not None:
            return sum(map(len, self._given(t, client))) / examples
        if self.steps is not None:
            steps = self.planned_steps(t, client, examples)
            return steps * min(self.batch_size, examples) / examples
        whole = self.epochs * self._per_epoch(self.virtual or examples)
        return self.epochs * self.planned_steps(t, client, examples) / whole

    def _draw(self, examples: int, rng: torch.Generator) -> Tensor | None:
        """The indices that make up a virtual client; None for all examples."""
        if self.virtual is None:
            return None
        repeats = -(-self.virtual // examples)
        return torch.cat([torch.randperm(examples, generator=rng) for _ in range(repeats)])[
            : self.virtual
        ]

    def _per_epoch(self, examples: int) -> int:
        whole, rest = divmod(examples, self.batch_size)
        return whole if self.drop_last and whole else whole + bool(rest)

    def _given(self, t: int, client: int) -> Sequence[Sequence[int]]:
        assert self.orders is not None
        if t >= len(self.orders) or client not in self.orders[t]:
            raise SettingError(
                f"batch orders were given, but none for client {client} in round {t + 1}. Give an "
                "order for every client of every cohort, or none at all."
            )
        return self.orders[t][client]
