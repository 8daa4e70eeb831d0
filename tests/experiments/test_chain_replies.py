"""The reply of a whole chain of clients."""

from __future__ import annotations

import pytest
import torch

from fedflat.core.messages import WEIGHT, Broadcast, Reply
from fedflat.topologies.chain_router import ChainRouter


def reply(client: int, delta: float, examples: int, loss: float, **metrics: float) -> Reply:
    """Trained on each of its examples twice, in three steps."""
    given = torch.full((2,), delta, dtype=torch.float64)
    return Reply(
        client,
        given,
        torch.tensor([delta]),
        examples,
        2 * examples,
        {},
        {"loss": loss, **metrics},
        3,
    )


def through(chain: tuple[int, ...], replies: list[Reply]) -> tuple[Reply, list[Broadcast]]:
    """The reply of the only chain, and what its clients were sent."""
    router = ChainRouter(
        Broadcast(4, torch.tensor([1.0, 2.0], dtype=torch.float64), torch.zeros(1), 0.1), [chain]
    )
    sent = []
    for wave, one in zip(router, replies, strict=True):
        sent += wave.broadcasts.values()
        if wave.last:
            return router.chain_reply(one), sent
        router.forward(one)
    raise AssertionError


def test_a_chain_weighs_what_all_its_clients_weigh() -> None:
    """Labelled pixels, say, are counted in each of them: not those of the last one alone."""
    found, _ = through(
        (5, 7), [reply(5, 0.5, 4, 1.0, weight=30.0), reply(7, 0.25, 6, 2.0, weight=12.0)]
    )
    assert found.weight == 42.0
    assert found.examples == 10
    plain, _ = through((5, 7), [reply(5, 0.5, 4, 1.0), reply(7, 0.25, 6, 2.0)])
    assert plain.weight == 10
    assert WEIGHT not in plain.metrics


def test_a_client_that_is_selected_again_counts_once() -> None:
    """Its examples; the examples trained on, steps and losses are those of all requests."""
    chain = (5, 7, 7, 5)
    replies = [
        reply(5, 0.5, 4, 1.0),
        reply(7, 0.25, 6, 2.0),
        reply(7, 0.5, 6, 3.0),
        reply(5, 1.0, 4, 4.0),
    ]
    found, sent = through(chain, replies)
    assert [broadcast.repetition for broadcast in sent] == [0, 0, 1, 1]
    assert [broadcast.params[0].item() for broadcast in sent] == [1.0, 0.5, 0.25, -0.25]
    assert (found.examples, found.samples, found.steps) == (10, 40, 12)
    assert found.metrics["loss"] == pytest.approx((8 * 1 + 12 * 2 + 12 * 3 + 8 * 4) / 40)
    assert torch.equal(found.delta, torch.full((2,), 2.25, dtype=torch.float64))
