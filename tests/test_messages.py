"""Messages: their sizes, and the aggregation of replies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedflat.core.messages import Broadcast, Reply
from fedflat.errors import FedflatError
from fedflat.registry.specs import parse
from fedflat.server.step import aggregate

BROADCAST = Broadcast(3, torch.zeros(2, dtype=torch.float64), torch.zeros(0), 0.1)


def reply(client: int, delta: Any, examples: int = 1, **more: Any) -> Reply:
    delta = torch.as_tensor(delta, dtype=torch.float64)
    given = {
        "buffers": delta * 2,
        "samples": 2 * examples,
        "extras": {},
        "metrics": {"loss": float(delta.sum())},
    }
    return Reply(client=client, delta=delta, examples=examples, **{**given, **more})


vectors = st.lists(st.floats(-100, 100), min_size=2, max_size=2)


cohorts = st.lists(st.tuples(vectors, st.integers(1, 1000)), min_size=1, max_size=12)


@given(cohorts, st.sampled_from(["sized", "uniform"]))
def test_aggregation_is_a_weighted_mean(
    cohort: list[tuple[list[float], int]], weighting: str
) -> None:
    replies = [
        reply(
            k,
            delta,
            n,
            steps=n % 5 + 1,
            extras={"dual": {"c": torch.tensor(delta, dtype=torch.float64) + 1}},
        )
        for k, (delta, n) in enumerate(cohort)
    ]
    aggregated = aggregate(BROADCAST, iter(replies), population=50, weighting=weighting)
    deltas = np.array([delta for delta, _ in cohort])
    weights = [n for _, n in cohort] if weighting == "sized" else None
    close = {"rtol": 1e-12, "atol": 1e-9}
    np.testing.assert_allclose(
        aggregated.delta, np.average(deltas, axis=0, weights=weights), **close
    )
    np.testing.assert_allclose(
        aggregated.buffers, 2 * np.average(deltas, axis=0, weights=weights), **close
    )
    np.testing.assert_allclose(aggregated.uniform, deltas.mean(0), **close)
    np.testing.assert_allclose(aggregated.mean("dual", "c"), deltas.mean(0) + 1, **close)
    by_size = np.average(deltas, axis=0, weights=[n for _, n in cohort])
    np.testing.assert_allclose(aggregated.mean("dual", "c", "sized"), by_size + 1, **close)
    assert aggregated.steps == np.mean([n % 5 + 1 for _, n in cohort])
    np.testing.assert_allclose(aggregated.loss, np.average(deltas.sum(1), weights=weights), **close)
    assert aggregated.count == len(cohort)
    assert aggregated.population == 50
    assert aggregated.broadcast is BROADCAST


@given(st.lists(vectors, min_size=1, max_size=9), st.integers(1, 1000))
def test_equal_sizes_have_the_bits_of_uniform_weights(deltas: list[list[float]], size: int) -> None:
    replies = [reply(k, delta, size) for k, delta in enumerate(deltas)]
    aggregated = aggregate(BROADCAST, replies, population=9, weighting="sized")
    assert torch.equal(aggregated.delta, aggregated.uniform)


def test_aggregation_leaves_the_replies_alone() -> None:
    replies = [reply(0, [1, 2]), reply(1, [3, 4])]
    aggregated = aggregate(BROADCAST, replies, population=2, weighting="uniform")
    assert replies[0].delta.tolist() == [1, 2]
    other = aggregated.with_delta(torch.zeros(2))
    assert aggregated.delta.tolist() == [2, 3]
    assert not other.delta.any()
    assert other.uniform is aggregated.uniform


def test_nothing_to_aggregate() -> None:
    with pytest.raises(FedflatError, match="round 4: no client's reply could be used"):
        aggregate(BROADCAST, [], population=2, weighting="sized")


def test_bytes() -> None:
    broadcast = Broadcast(0, torch.zeros(5), torch.zeros(3), 0.1)
    assert broadcast.nbytes == 4 * 8
    more = broadcast.enclose("cm", direction=torch.zeros(5)).enclose(
        "mask", bits=torch.zeros(7, dtype=torch.uint8)
    )
    assert more.nbytes == 4 * 13 + 7
    assert set(more.extras) == {"cm", "mask"}
    assert replace(more, repeat=True).nbytes == 4 * 5 + 7  # the model is there already
    assert broadcast.extras == {}
    answer = reply(0, [1, 2], buffers=torch.zeros(1), extras={"dual": {"c": torch.zeros(2)}})
    assert answer.nbytes == 2 * 8 + 4 + 2 * 4


def test_a_client_has_the_model_of_its_last_broadcast_and_no_other() -> None:
    here = Broadcast(0, torch.zeros(5), torch.zeros(3), 0.1)
    there = replace(here, params=torch.ones(5))
    assert not here.after(None).repeat
    assert here.enclose("c", c=torch.ones(2)).after(here).repeat
    assert not there.after(here).repeat
    assert not here.after(there.after(here)).repeat
    assert not here.after(here).after(there).repeat
    assert not replace(here, buffers=torch.zeros(3)).after(here).repeat
    assert not here.after(
        replace(here, instruction=parse("describe(label_counts())", "instruction"))
    ).repeat  # it was not sent then


@pytest.mark.parametrize("where", ["delta", "buffers", "extras"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_bad_number_anywhere_is_seen(where: str, bad: float) -> None:
    wrong = torch.tensor([1.0, bad])
    fine: dict[str, Any] = {
        "delta": [1, 2],
        "buffers": torch.ones(2),
        "extras": {"c": {"d": torch.ones(2)}},
    }
    assert reply(0, **fine).finite
    spoilt = {"delta": [1, bad], "buffers": wrong, "extras": {"c": {"d": wrong}}}
    assert not reply(0, **{**fine, where: spoilt[where]}).finite


def test_opposite_infinities_do_not_cancel_and_large_sums_are_fine() -> None:
    inf = float("inf")
    assert not reply(0, [inf, -inf]).finite
    large = torch.full((9,), 3e38)
    assert not torch.isfinite(large.sum())
    assert reply(0, [1, 2], buffers=large).finite


def test_a_change_of_both_means_reaches_methods_that_step_by_either() -> None:
    replies = aggregate(
        BROADCAST,
        [reply(0, [1.0, 3.0], 1), reply(1, [3.0, 5.0], 3)],
        population=2,
        weighting="sized",
    )
    half = replies.transformed(lambda mean: mean / 2)
    assert half.delta.tolist() == [
        1.25,
        2.25,
    ]  # (1 * 1 + 3 * 3) / 4 and (3 * 1 + 5 * 3) / 4, halved
    assert half.uniform.tolist() == [1.0, 2.0]
    assert replies.with_delta(half.delta).uniform.tolist() == [2.0, 4.0]
