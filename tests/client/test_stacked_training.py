"""Many clients at once: gradients, statistics, random numbers and replies in rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from client.stages import vector, visiting
from fedflat.client import stacked_gradients as batched
from fedflat.client.batch_transforms import Cutout, Mixup
from fedflat.client.learner import Learner
from fedflat.client.local import LocalTraining
from fedflat.client.loss_terms import Man
from fedflat.client.request_columns import RequestColumns
from fedflat.client.stacked_gradients import StackedGradients, footprint, unstackable
from fedflat.client.stacked_training import StackContext, run_stack, signature
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.messages import Broadcast, Reply, ReplyBatch, unstack
from fedflat.data.augment import CropFlip
from fedflat.data.examples import Batch, ClientData, Examples, Mixed
from fedflat.server.step import aggregate

CLIENTS, EXAMPLES = 3, 5


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 2))


def learner(model: object = normalised) -> Learner:
    return Learner(model, (4,), 2, seed=0, dtype="float64")  # type: ignore[arg-type]


def batch_of(seed: int = 0) -> Batch:
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(CLIENTS, EXAMPLES, 4, dtype=torch.float64, generator=rng)
    return Batch(x, torch.randint(2, (CLIENTS, EXAMPLES), generator=rng))


def by_autograd(what: Learner, w: Tensor, batch: Batch, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, gradient and statistics of one client, with a module of its own."""
    module = what.module().double().train()
    with torch.no_grad():
        nn.utils.vector_to_parameters(w, module.parameters())
    output, targets = module(batch.inputs[k]), batch.targets
    if isinstance(targets, Mixed):
        lam = float(torch.as_tensor(targets.lam)[k])
        loss = lam * cross_entropy(output, targets.first[k]) + (1 - lam) * cross_entropy(
            output, targets.second[k]
        )
    else:
        loss = cross_entropy(output, targets[k])
    grads = torch.autograd.grad(loss, list(module.parameters()))
    buffers = [b.view(-1) for b in module.buffers() if b.is_floating_point()]
    return loss.detach(), torch.cat([g.reshape(-1) for g in grads]), torch.cat(buffers)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_gradients_are_autograds(
    shared: bool, mixed: bool, traced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batched, "PATIENCE", 0 if traced else 10**9)
    what, batch = learner(), batch_of()
    if mixed:
        lam = torch.tensor([0.3, 1.0, 0.75], dtype=torch.float64)
        batch = replace(batch, targets=Mixed(batch.targets, batch.targets.flip(1), lam))
    start, many = what.initial(), StackedGradients(what)
    w = start.params.expand(CLIENTS, -1)
    if not shared:
        w = w + 0.1 * torch.randn(
            w.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
        )
    for _ in range(3):
        many.buffers = start.buffers.expand(CLIENTS, -1)
        loss, gradient, buffers, count = many.gradients(w, batch, ())
        for k in range(CLIENTS):
            expected = by_autograd(what, w[k], batch, k)
            for found, by_hand in zip((loss[k], gradient[k], buffers[k]), expected, strict=True):
                torch.testing.assert_close(found, by_hand, rtol=1e-10, atol=1e-12)
    assert bool(many._traced) == traced
    assert count == EXAMPLES


def test_only_the_first_call_moves_statistics_and_none_if_they_are_to_be_still() -> None:
    what, many = learner(), StackedGradients(learner())
    start = what.initial()
    sent = many.buffers = start.buffers.expand(CLIENTS, -1)
    w = start.params.expand(CLIENTS, -1)
    still = many.oracle(batch_of(), (), still=True)
    still(w)
    assert many.buffers is sent
    oracle = many.oracle(batch_of(), ())
    assert oracle.loss is None
    oracle(w)
    loss, moved = oracle.loss, many.buffers
    assert not torch.equal(moved, sent)
    oracle(w + 1)
    assert oracle.loss is loss
    assert many.buffers is moved
    torch.testing.assert_close(still.loss, loss)


def test_frozen_parameters_stay_and_tied_ones_stay_tied() -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight, second.bias.requires_grad = first.weight, False
    module = nn.Sequential(first, nn.Tanh(), second)
    what, batch = learner(module), batch_of()
    many, w = StackedGradients(what), what.initial().params
    many.buffers = torch.zeros(CLIENTS, 0)
    loss, gradient, *_ = many.gradients(w.expand(CLIENTS, -1), batch, ())
    for k in range(CLIENTS):
        value = cross_entropy(module.double()(batch.inputs[k]), batch.targets[k])
        expected = torch.autograd.grad(value, [first.weight, first.bias])
        torch.testing.assert_close(loss[k], value.detach())
        torch.testing.assert_close(gradient[k], torch.cat([g.reshape(-1) for g in expected]))


def test_terms_are_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A term may be worth more in the next round."""
    monkeypatch.setattr(batched, "PATIENCE", 0)
    what, man = learner(), Man(0.5)
    many, w = StackedGradients(what), what.initial().params.expand(CLIENTS, -1)
    many.buffers = what.initial().buffers.expand(CLIENTS, -1)
    plain, *_ = many.gradients(w, batch_of(), ())
    v = visiting(man, w)
    with_term = [
        many.gradients(w, batch_of(), [(man, v)])[0] for man in (Man(0.0), Man(0.5), Man(1.0))
    ]
    torch.testing.assert_close(with_term[0], plain)
    torch.testing.assert_close(with_term[2] - plain, 2 * (with_term[1] - plain))
    assert bool((with_term[1] > plain).all())


def test_why_a_network_does_not_stack() -> None:
    assert unstackable(learner()) is None
    assert "draws random numbers" in str(
        unstackable(learner(lambda: nn.Sequential(nn.Linear(4, 2), nn.Dropout())))
    )
    state = torch.random.get_rng_state()
    unstackable(learner(lambda: nn.Sequential(nn.Linear(4, 2), nn.Dropout())))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_what_a_client_takes() -> None:
    """Parameters, and for each example its inputs, the outputs of both layers and of the whole."""
    what = learner(lambda: nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)))
    assert footprint(what, 10) == 8 * (4 * 3 + 3 + 3 * 2 + 2 + 10 * (4 + 3 + 2 + 2))


def stack_visit(piece: Mixup | Cutout) -> StackContext:
    return StackContext(**vars(visiting(piece, vector(0.0))), clients=(4, 0, 9))


def test_each_client_draws_its_own_numbers() -> None:
    piece = Mixup()

    def two(rng: torch.Generator) -> Tensor:
        return torch.rand(2, generator=rng)

    for row, client in zip(stack_visit(piece).draw(two), (4, 0, 9), strict=True):
        assert torch.equal(row, visiting(piece, vector(0.0), client=client).draw(two))


@pytest.mark.parametrize("pieces", [[Mixup(0.5)], [Cutout(2)], [Mixup(0.5), Cutout(2)]])
def test_each_client_changes_its_own_batch(pieces: list[Mixup | Cutout]) -> None:
    rng = torch.Generator().manual_seed(0)
    many = Batch(
        torch.randn(3, 4, 1, 5, 5, dtype=torch.float64, generator=rng), torch.arange(12).view(3, 4)
    )
    ones = [Batch(many.inputs[i], many.targets[i]) for i in range(3)]
    for piece in pieces:
        many = piece.batch(stack_visit(piece), many)
        ones = [
            piece.batch(visiting(piece, vector(0.0), client=k), b)
            for k, b in zip((4, 0, 9), ones, strict=True)
        ]
    for i, one in enumerate(ones):
        assert torch.equal(many.inputs[i], one.inputs)
        theirs, ours = many.targets, one.targets
        if isinstance(ours, Mixed):
            assert torch.equal(theirs.second[i], ours.second)
            assert float(torch.as_tensor(theirs.lam)[i]) == ours.lam
            theirs, ours = theirs.first, ours.first
        assert torch.equal(theirs[i], ours)


def images(augment: CropFlip | None, sets: int) -> list[ClientData]:
    """Three clients with five raw images each, in one set or in sets of their own."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randint(256, (15, 1, 2, 2), generator=rng, dtype=torch.uint8)
    given = [Examples(x, torch.arange(15) % 2, 2, (0.5,), (0.25,), augment) for _ in range(sets)]
    return [ClientData(given[k % sets], torch.arange(k, 15, 3)) for k in range(3)]


@pytest.mark.parametrize("sets", [1, 3])
@pytest.mark.parametrize("augment", [None, CropFlip(padding=1)])
@pytest.mark.parametrize("batch_size", [2, 5])
def test_a_request_to_many_is_the_requests_to_each(
    batch_size: int, augment: CropFlip | None, sets: int
) -> None:
    what = Learner(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), (1, 2, 2), 2, seed=0, dtype="float64"
    )
    job = ClientJob(
        what, (), LocalTraining(batch_size=batch_size, epochs=2, lr=0.1, momentum=0.5), seed=7
    )
    data, start = images(augment, sets), what.initial()
    broadcast = Broadcast(3, start.params, start.buffers, 0.1)
    requests = RequestColumns(broadcast, (4, 0, 9), ("a", "b", "c"))
    reply_batch, state = run_stack(job, StackedGradients(what), requests, data)
    assert state == {}
    for request, own, found in zip(requests, data, reply_batch, strict=True):
        reply, _ = run_client(job, request, own)
        assert (found.client, found.request, found.examples, found.samples, found.steps) == (
            request.client,
            request.id,
            5,
            10,
            reply.steps,
        )
        torch.testing.assert_close(found.delta, reply.delta, rtol=1e-10, atol=1e-13)
        assert found.metrics == pytest.approx(reply.metrics)


def test_clients_that_can_share_a_stack() -> None:
    job = ClientJob(learner(), (), LocalTraining(), seed=0)
    broadcast = Broadcast(0, vector(0.0), vector(), 0.1)

    def signed(examples: int = 5, **state: Tensor) -> object:
        data = ClientData(
            Examples(torch.zeros(examples, 1), torch.zeros(examples)), torch.arange(examples)
        )
        return signature(job, Request(0, broadcast, {"piece": state} if state else {}), data)

    assert signed() == signed()
    one, other = (
        {"a": vector(1.0), "b": vector(2.0, 3.0)},
        {"b": vector(4.0, 5.0), "a": vector(6.0)},
    )
    assert signed(**one) == signed(**other)
    others = [
        signed(4),
        signed(),
        signed(a=vector(1.0)),
        signed(a=vector(1.0, 2.0)),
        signed(a=torch.tensor([1])),
    ]
    assert len(set(others)) == len(others)


def reply_batch_of(values: list[float], examples: int = 2) -> ReplyBatch:
    delta = torch.tensor(values, dtype=torch.float64).view(-1, 1) * vector(1.0, -2.0)
    extras = {"scaffold": {"dc": 3 * delta}}
    return ReplyBatch(
        range(len(values)), delta, delta[:, :1], examples, 7, extras, {"loss": delta[:, 0] + 1}, 4
    )


numbers = st.lists(st.floats(-5, 5), min_size=1, max_size=5)


@given(first=numbers, second=numbers, weighting=st.sampled_from(["sized", "uniform"]))
def test_a_reply_batch_is_aggregated_as_its_replies(
    first: list[float], second: list[float], weighting: str
) -> None:
    broadcast = Broadcast(0, vector(0.0, 0.0), vector(0.0), 0.1)
    batches = [reply_batch_of(first), reply_batch_of(second, examples=5)]
    lone = Reply(
        9,
        vector(1.0, 1.0),
        vector(2.0),
        3,
        3,
        {"scaffold": {"dc": vector(0.0, 1.0)}},
        {"loss": 2.0},
    )
    one = aggregate(broadcast, [*batches, lone], population=20, weighting=weighting)
    other = aggregate(
        broadcast, [*batches[0], *batches[1], lone], population=20, weighting=weighting
    )
    assert (one.count, one.steps) == (other.count, pytest.approx(other.steps))
    assert one.loss == pytest.approx(other.loss)
    for name in ("delta", "buffers", "uniform"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-12)
    for config in ("uniform", "sized"):
        torch.testing.assert_close(
            one.mean("scaffold", "dc", config), other.mean("scaffold", "dc", config)
        )


def test_a_reply_batch_counts_its_bytes_and_finds_numbers_that_are_not_finite() -> None:
    reply_batch = reply_batch_of([1.0, 2.0, 3.0])
    assert reply_batch.nbytes == sum(reply.nbytes for reply in reply_batch) == 3 * 8 * (2 + 1 + 2)
    assert reply_batch.finite
    bad = reply_batch_of([1.0, torch.nan, 3.0])
    assert not bad.finite
    assert [reply.finite for reply in bad] == [True, False, True]


def test_a_row_that_is_kept_does_not_keep_the_others() -> None:
    stacked = {"dual": {"sigma": torch.ones(100, 3), "seen": torch.arange(100)}}
    *_, last = unstack(stacked, 100)
    assert last["dual"]["seen"] == 99
    assert last["dual"]["sigma"].untyped_storage().nbytes() == 3 * 4
