"""The server's optimisers against torch.optim, or their formulas, on given pseudo-gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from fedflat import adagrad, adam, yogi
from fedflat.client.instructions import Gradient
from fedflat.core.messages import Broadcast, Replies, Train
from fedflat.core.schedules import decay, steps
from fedflat.errors import SettingError
from fedflat.server.optimizers import (
    Adagrad,
    Adam,
    ServerMomentum,
    ServerSgd,
    TorchAdagrad,
    TorchAdam,
    Yogi,
)
from fedflat.server.piece import ServerPiece, ServerState
from fedflat.server.step import server_step
from server.cohort import NONE, answered

RNG = torch.Generator().manual_seed(0)
DELTAS = [torch.randn(4, generator=RNG, dtype=torch.float64) for _ in range(6)]
START = torch.randn(4, generator=RNG, dtype=torch.float64)


def follow(
    piece: ServerPiece, deltas: Sequence[Tensor] = DELTAS
) -> tuple[list[Tensor], ServerState]:
    """The server's parameters after each of these pseudo-gradients."""
    w, states, found = START, ServerState(), []
    for t, delta in enumerate(deltas):

        def send(broadcast: Broadcast, delta: Tensor = delta) -> Replies:
            return answered(broadcast, delta)

        after = server_step([piece], states, send, Broadcast(t, w, NONE, 0.1))
        w, states = after.model.params, after.state
        found.append(w)
    return found, states


@pytest.mark.parametrize(
    ("piece", "optimiser"),
    [
        (ServerMomentum(0.8, 0.5), lambda w: torch.optim.SGD(w, lr=0.5, momentum=0.8)),
        (ServerSgd(0.5), lambda w: torch.optim.SGD(w, lr=0.5)),
        (
            TorchAdam(0.2, 0.8, 0.95, 0.05),
            lambda w: torch.optim.Adam(w, lr=0.2, betas=(0.8, 0.95), eps=0.05),
        ),
        (TorchAdagrad(0.2, 0.05), lambda w: torch.optim.Adagrad(w, lr=0.2, eps=0.05)),
    ],
    ids=["momentum", "sgd", "adam", "adagrad"],
)
def test_against_torch(piece: ServerPiece, optimiser: object) -> None:
    w = torch.nn.Parameter(START.clone())
    stepper = optimiser([w])  # type: ignore[operator]
    for found, delta in zip(follow(piece)[0], DELTAS, strict=True):
        w.grad = delta.clone()
        stepper.step()
        torch.testing.assert_close(found, w.detach(), rtol=1e-12, atol=1e-12)


def test_a_rate_scales_steps_but_no_gradients() -> None:
    """Mime asks for a true gradient first, which is not a step."""

    def send(broadcast: Broadcast) -> Replies:
        return answered(broadcast, DELTAS[0])

    asked = {ask: Broadcast(0, START, NONE, 0.1, instruction=ask) for ask in (Train(), Gradient())}
    found = {
        ask: START - server_step([ServerSgd(0.5)], {}, send, broadcast).model.params
        for ask, broadcast in asked.items()
    }
    torch.testing.assert_close(found[Train()], 0.5 * DELTAS[0])
    torch.testing.assert_close(found[Gradient()], DELTAS[0])


@pytest.mark.parametrize("kind", [Adam, Adagrad, Yogi])
def test_the_papers_moments(kind: type[Adam] | type[Adagrad] | type[Yogi]) -> None:
    found, states = follow(kind(0.3, 0.7, 0.8, 0.02))
    w, m, v = START.tolist(), [0.0] * 4, [0.02**2] * 4
    for t, delta in enumerate(DELTAS):
        for i, d in enumerate(delta.tolist()):
            m[i] = 0.7 * m[i] + 0.3 * d
            if kind is Adam:
                v[i] = 0.8 * v[i] + 0.2 * d**2
            elif kind is Adagrad:
                v[i] = v[i] + d**2
            else:
                v[i] = v[i] - 0.2 * d**2 * math.copysign(1, v[i] - d**2)
            w[i] = w[i] - 0.3 * m[i] / (math.sqrt(v[i]) + 0.02)
        torch.testing.assert_close(
            found[t], torch.tensor(w, dtype=torch.float64), rtol=1e-12, atol=1e-12
        )
    (memory,) = states.values()
    torch.testing.assert_close(memory["m"], torch.tensor(m, dtype=torch.float64))
    torch.testing.assert_close(memory["v"], torch.tensor(v, dtype=torch.float64))


def test_yogi_keeps_v_where_both_are_equal() -> None:
    piece = Yogi(1.0, 0.0, 0.9, 0.5)
    same = torch.full((4,), 0.5, dtype=torch.float64)  # its square is v's beginning
    assert torch.equal(follow(piece, [same])[1]["yogi"]["v"], same.square())


@pytest.mark.parametrize(
    "make",
    [
        ServerSgd,
        lambda lr: ServerMomentum(0.0, lr),
        lambda lr: TorchAdagrad(lr),
        lambda lr: Adam(lr),
    ],
)
def test_a_rate_may_change_with_the_round(make: object) -> None:
    falling, constant = (follow(make(lr), [DELTAS[0]] * 2)[0] for lr in (decay(1.0, 0.5), 1.0))  # type: ignore[operator]
    assert torch.equal(falling[0], constant[0])
    torch.testing.assert_close(falling[1] - falling[0], (constant[1] - constant[0]) / 2)


def test_momentum_may_change_with_the_round() -> None:
    """Moments by hand: d0, d1 + 0.25 d0, d2 + 0 (...), d3 + 0.75 d2."""
    piece = ServerMomentum(steps([0, 1, 2, 3], [0.5, 0.25, 0.0, 0.75]))
    d0, d1, d2, d3 = DELTAS[:4]
    found = [START, *follow(piece, DELTAS[:4])[0]]
    for before, after, moment in zip(
        found[:-1], found[1:], (d0, d1 + 0.25 * d0, d2, d3 + 0.75 * d2), strict=True
    ):
        torch.testing.assert_close(before - after, moment, rtol=1e-12, atol=1e-12)


def test_states_are_replaced_not_changed() -> None:
    first = follow(ServerMomentum(), DELTAS[:1])[1]["server_momentum"]["m"]
    kept = first.clone()
    follow(ServerMomentum())
    assert torch.equal(first, kept)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ServerSgd(-1),
        lambda: ServerMomentum(1.5),
        lambda: ServerMomentum(lr=-1),
        lambda: Adam(b1=2),
        lambda: Yogi(b2=-1),
        lambda: Adagrad(tau=0),
        lambda: TorchAdam(b1=7),
        lambda: TorchAdam(eps=0),
        lambda: TorchAdagrad(lr=-1),
        lambda: adam(flavour="keras"),
        lambda: adagrad(b1=0.5, flavour="torch"),
        lambda: yogi(tau=0),
    ],
)
def test_settings(wrong: object) -> None:
    with pytest.raises(SettingError):
        wrong()  # type: ignore[operator]


def test_flavours_have_their_own_tau() -> None:
    assert adam().server == (Adam(tau=1e-3),)
    assert adam(flavour="torch").server == (TorchAdam(eps=0.1),)
    assert adagrad().server == (Adagrad(tau=1e-3),)
    assert adagrad(flavour="torch").server == (TorchAdagrad(eps=1e-2),)
    assert adam(tau=0.5, flavour="torch").server == (TorchAdam(eps=0.5),)
