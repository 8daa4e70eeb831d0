"""Local training: the number of batches, their examples, and SGD."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from fedflat.client.learner import Learner
from fedflat.client.local import LocalTraining
from fedflat.client.local_adam import LocalAdam
from fedflat.client.piece import ClientState
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.messages import Broadcast
from fedflat.core.schedules import decay
from fedflat.data.examples import ClientData, Examples
from fedflat.errors import SettingError
from fedflat.settings.groups import LocalSettings
from fedflat.settings.setting import settings_of

sizes = st.integers(1, 40)


@given(n=sizes, size=sizes, epochs=st.integers(1, 3), drop=st.booleans())
@settings(max_examples=60)
def test_every_epoch_goes_through_the_data_once(n: int, size: int, epochs: int, drop: bool) -> None:
    local = LocalTraining(epochs=epochs, batch_size=size, drop_last=drop)
    batches = list(local.batches(0, 1, 2, n))
    whole, rest = divmod(n, size)
    short = bool(rest) and not (drop and whole)
    assert len(batches) == local.planned_steps(1, 2, n) == epochs * (whole + short)
    for e in range(epochs):
        epoch = torch.cat(batches[e * (whole + short) : (e + 1) * (whole + short)])
        assert len(set(epoch.tolist())) == len(epoch) == (n if short or not rest else whole * size)
        assert 0 <= int(epoch.min()) <= int(epoch.max()) < n


@given(n=sizes, size=sizes, steps=st.integers(1, 12), drop=st.booleans())
@settings(max_examples=60)
def test_a_number_of_steps_whatever_the_size(n: int, size: int, steps: int, drop: bool) -> None:
    local = LocalTraining(steps=steps, batch_size=size, drop_last=drop, epochs=99)
    batches = list(local.batches(0, 0, 0, n))
    assert len(batches) == local.planned_steps(0, 0, n) == steps
    if drop:
        assert {len(batch) for batch in batches} == {min(n, size)}
    same = list(LocalTraining(epochs=steps, batch_size=size, drop_last=drop).batches(0, 0, 0, n))
    assert all(torch.equal(a, b) for a, b in zip(batches, same, strict=False))


def test_batches_depend_on_seed_round_and_client_alone() -> None:
    local = LocalTraining(batch_size=100)

    def order(*place: int) -> torch.Tensor:
        return next(local.batches(*place, 100))

    assert torch.equal(order(0, 1, 2), order(0, 1, 2))
    different = [order(0, 1, 2), order(1, 1, 2), order(0, 2, 2), order(0, 1, 3)]
    assert all(not torch.equal(a, b) for a, b in pairwise(different))
    first, second = LocalTraining(batch_size=100, epochs=2).batches(0, 1, 2, 100)
    assert not torch.equal(first, second)


def test_how_often_the_data_are_gone_through() -> None:
    assert LocalTraining(epochs=3, batch_size=4).epochs_of(0, 7, examples=11) == 3
    assert LocalTraining(steps=6, batch_size=4).epochs_of(0, 7, examples=12) == 2
    assert LocalTraining(steps=5, batch_size=64).epochs_of(0, 7, examples=10) == 5
    assert LocalTraining(orders=[{7: [[0, 1, 2], [3], [1, 2]]}]).epochs_of(0, 7, examples=4) == 1.5


@given(n=sizes, virtual=sizes, size=sizes, epochs=st.integers(1, 3))
@settings(max_examples=60)
def test_virtual_clients_use_as_many_examples_whatever_they_hold(
    n: int, virtual: int, size: int, epochs: int
) -> None:
    local = LocalTraining(epochs=epochs, batch_size=size, virtual=virtual)
    batches = list(local.batches(0, 1, 2, n))
    a_pass = -(-virtual // size)
    assert (
        len(batches)
        == local.planned_steps(1, 2, n)
        == local.planned_steps(1, 2, n + 7)
        == epochs * a_pass
    )
    passes = [torch.cat(batches[e * a_pass : (e + 1) * a_pass]) for e in range(epochs)]
    for used in passes:
        assert len(used) == virtual
        times = torch.bincount(used, minlength=n)
        assert len(times) == n
        # without repeats if there are enough; else all, and some once more than others
        assert int(times.max() - times.min()) <= 1
        assert torch.equal(
            times, torch.bincount(passes[0], minlength=n)
        )  # the same ones in every epoch


def test_virtual_clients_draw_anew_in_every_request() -> None:
    local = LocalTraining(batch_size=100, virtual=20)
    drawn = [set(next(local.batches(0, t, 2, 100)).tolist()) for t in range(3)]
    assert drawn[0] != drawn[1] != drawn[2]
    assert drawn[0] == set(next(local.batches(0, 0, 2, 100)).tolist())
    with pytest.raises(SettingError, match="virtual must be a whole number"):
        LocalTraining(virtual=0)


def test_given_orders_are_followed() -> None:
    local = LocalTraining(orders=[{4: [[2, 0], [1]]}, {}])
    assert [batch.tolist() for batch in local.batches(0, 0, 4, 3)] == [[2, 0], [1]]
    assert local.planned_steps(0, 4, 3) == 2
    for t, client in ((0, 5), (1, 4), (2, 4)):
        with pytest.raises(SettingError, match=f"none for client {client} in round {t + 1}"):
            local.planned_steps(t, client, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"epochs": 1.5},
        {"steps": 0},
        {"batch_size": 0},
        {"lr": -1},
        {"momentum": 1.5},
        {"weight_decay": -0.1},
        {"clip": 0},
        {"lr": decay(-1, 0.9)},
        {"lr": float("nan")},
    ],
)
def test_ranges(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        LocalTraining(**wrong)  # type: ignore[arg-type]


def test_pieces_that_do_nothing_are_left_out() -> None:
    assert LocalTraining().pieces(keep=False) == ()
    full = LocalTraining(clip=1.0, weight_decay=0.1, momentum=0.9).pieces(keep=True)
    assert [piece.key for piece in full] == ["clip", "decay", "momentum"]


X = torch.randn(11, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
DATA = ClientData(Examples(X, torch.arange(11) % 3, 3), torch.arange(11))


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("decoupled", [False, True])
def test_local_adam_is_torchs(decay: float, decoupled: bool) -> None:
    local = LocalTraining(epochs=3, batch_size=4, weight_decay=0.0 if decoupled else decay)
    learner = Learner(network(), (4,), 3, seed=0, dtype="float64")
    start = learner.initial()
    adam = LocalAdam(decay=decay if decoupled else 0.0)
    job = ClientJob(learner, (*local.pieces(keep=False), adam), local, seed=5)
    request = Request(7, Broadcast(2, start.params, start.buffers, 0.3), {})
    reply, state = run_client(job, request, DATA)
    module = network()
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    stepper = kind(module.parameters(), lr=0.3, weight_decay=decay)
    for places in local.batches(5, 2, 7, 11):
        stepper.zero_grad()
        cross_entropy(module(X[places]), DATA.labels[places]).backward()
        stepper.step()
    end = nn.utils.parameters_to_vector(module.parameters()).detach()
    torch.testing.assert_close(start.params - reply.delta, end, rtol=0, atol=1e-10)
    assert state == {}


@pytest.mark.parametrize("size", [1834, 10000, 200000, 3])
def test_the_number_of_local_steps_has_a_limit(size: int) -> None:
    """The thesis' number of steps for batches of four: floor(n / 4), at most 2500, at least 1."""
    local = LocalTraining(batch_size=4, drop_last=True, max_steps=2500)
    expected = {1834: 458, 10000: 2500, 200000: 2500, 3: 1}[size]
    assert local.planned_steps(0, 0, size) == expected
    batches = list(local.batches(0, 0, 0, size))
    assert len(batches) == expected
    assert local.samples(0, 0, size) == sum(map(len, batches))
    assert local.epochs_of(0, 0, size) == expected / max(size // 4, 1)
    assert LocalTraining(steps=9, max_steps=5).planned_steps(0, 0, 3) == 5


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
@pytest.mark.parametrize("clip", [None, 0.2])
def test_local_training_is_torchs_sgd(
    momentum: float, weight_decay: float, clip: float | None
) -> None:
    """Clip the gradient, then let torch.optim add weight decay and gather momentum."""
    local = LocalTraining(
        epochs=3, batch_size=4, momentum=momentum, weight_decay=weight_decay, clip=clip
    )
    learner = Learner(network(), (4,), 3, seed=0, dtype="float64")
    start = learner.initial()
    job = ClientJob(learner, local.pieces(keep=False), local, seed=5)
    reply, state = run_client(
        job, Request(7, Broadcast(2, start.params, start.buffers, 0.3), {}), DATA
    )

    module = network()
    stepper = torch.optim.SGD(
        module.parameters(), lr=0.3, momentum=momentum, weight_decay=weight_decay
    )
    losses = []
    for places in local.batches(5, 2, 7, 11):
        stepper.zero_grad()
        loss = cross_entropy(module(X[places]), DATA.labels[places])
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(module.parameters(), clip)
        stepper.step()
        losses.append(loss.item())
    end = nn.utils.parameters_to_vector(module.parameters()).detach()
    # clip_grad_norm_ divides by the norm plus 1e-6
    torch.testing.assert_close(
        start.params - reply.delta, end, rtol=0, atol=1e-12 if clip is None else 1e-5
    )
    assert reply.metrics["loss"] == pytest.approx(
        sum(losses) / len(losses), rel=1e-4 if clip else 1e-12
    )
    assert reply.examples == 11
    assert reply.samples == 33
    assert state == {}


def test_a_kept_momentum_goes_on_where_it_stopped() -> None:
    """Two requests of one epoch with the buffer kept are one request of two epochs, for given
    batches."""
    order = [[0, 1, 2], [3, 4], [5, 6, 7], [8]]
    one = LocalTraining(momentum=0.9, orders=[{0: order}])
    two = LocalTraining(momentum=0.9, orders=[{0: order[:2]}, {0: order[2:]}])
    learner = Learner(network(), (4,), 3, seed=0, dtype="float64")
    w, state = learner.initial().params, dict[str, dict[str, torch.Tensor]]()

    def request_at(t: int, w: torch.Tensor, state: ClientState) -> Request:
        return Request(0, Broadcast(t, w, torch.zeros(0), 0.1), state)

    whole, _ = run_client(
        ClientJob(learner, one.pieces(keep=False), one, 0), request_at(0, w, {}), DATA
    )
    job = ClientJob(learner, two.pieces(keep=True), two, 0)
    for t in range(2):
        reply, state = run_client(job, request_at(t, w, state), DATA)
        w = w - reply.delta
    torch.testing.assert_close(w, learner.initial().params - whole.delta, rtol=0, atol=1e-14)
    forgetful, none = run_client(
        replace(job, pieces=two.pieces(keep=False)), request_at(1, w, {}), DATA
    )
    assert none == {}
    assert not torch.equal(forgetful.delta, reply.delta)


@pytest.mark.parametrize("examples", [1, 4, 7, 9])
@pytest.mark.parametrize(
    "local",
    [
        LocalTraining(batch_size=4),
        LocalTraining(batch_size=4, epochs=3),
        LocalTraining(batch_size=4, epochs=2, drop_last=True),
        LocalTraining(batch_size=4, steps=5),
        LocalTraining(batch_size=4, steps=2, drop_last=True),
        LocalTraining(batch_size=4, virtual=6),
        LocalTraining(batch_size=4, epochs=3, max_steps=2),
    ],
    ids=str,
)
def test_how_many_examples_a_request_goes_through(local: LocalTraining, examples: int) -> None:
    batches = list(local.batches(0, 0, 0, examples))
    assert local.samples(0, 0, examples) == sum(map(len, batches))
    assert local.planned_steps(0, 0, examples) == len(batches)


def test_only_the_optimizer_is_left() -> None:
    """Every setting of the amount of work is reset, and no other."""
    amounts = {one.path[-1] for one in settings_of(LocalSettings) if one.about.amount}
    assert amounts == {"epochs", "steps", "max_steps", "virtual", "orders"}
    local = LocalTraining(
        steps=3, max_steps=2, virtual=9, orders=[{}], lr=0.3, clip=1.0, drop_last=True
    )
    plain = LocalTraining(epochs=5, lr=0.3, clip=1.0, drop_last=True)
    assert local.optimizer_only(5) == plain
    assert local.optimizer_only(5, batch_size=7) == replace(plain, batch_size=7)
