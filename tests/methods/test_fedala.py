"""FedALA: how the blend is learnt, when, and in which tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from client.stages import vector, visiting
from fedflat.client.learner import Learner
from fedflat.client.local import LocalTraining
from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.flat import GradFn, Layout
from fedflat.core.messages import Broadcast
from fedflat.core.stage import Stage
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.methods.fedala import MOST_EPOCHS, Ala

PLANE = Layout(("low", "high"), ((1,), (2,)), (), ())
OWN, NEW = vector(2.0, 1.0), vector(7.0, 1.0, 3.0)


class Given:
    """An oracle with a gradient of its own, the loss going through a list."""

    asked: list[Tensor] = []

    def __init__(self, gradient: Tensor, loss: float) -> None:
        self.gradient, self.loss = gradient, torch.tensor(loss)

    def __call__(self, w: Tensor) -> Tensor:
        Given.asked.append(w)
        return self.gradient


def blended(
    state: dict[str, Tensor], gradient: Tensor, losses: Any = 1.0, **more: Any
) -> tuple[Tensor, ClientContext]:
    Given.asked = []
    piece = Ala(share=1.0, layers=1, **more)
    messages = iter([losses] * 10**4 if isinstance(losses, float) else losses)
    oracle = {"oracle": lambda places: Given(gradient, next(messages))}
    v = visiting(piece, NEW, PLANE, state=state, examples=2, batch_size=1, **oracle)
    return piece.begin(v, NEW), v


def test_the_numbers() -> None:
    """One batch: m = (1, 1), wl = (2, 1), w = (1, 3), gradient (-0.4, 0.1)."""
    piece = Ala(share=0.5, layers=1)
    state = {"own": OWN, "m": vector(1.0, 1.0)}
    seen: list[Tensor] = []

    def oracle(places: Tensor) -> Given:
        seen.append(places)
        return Given(vector(9.0, -0.4, 0.1), 1.0)

    v = visiting(piece, NEW, PLANE, state=state, examples=2, batch_size=1, oracle=oracle)
    start = piece.begin(v, NEW)
    assert len(seen) == 1  # half of two examples
    torch.testing.assert_close(v.state["m"], vector(0.6, 0.8))
    torch.testing.assert_close(start, vector(7.0, 1.4, 2.6))


def test_nothing_is_learnt_at_the_first_request() -> None:
    start, v = blended({}, vector(9.0, -0.4, 0.1))
    assert torch.equal(start, NEW)
    assert v.state == {}
    assert Given.asked == []
    piece = Ala(layers=1)
    v.end = vector(5.0, 6.0, 8.0)
    assert torch.equal(piece.end(v, v.end), v.end)
    torch.testing.assert_close(v.state["own"], vector(6.0, 8.0))


def test_at_the_second_request_until_the_losses_settle_later_once() -> None:
    g = vector(0.0, 0.0, 0.0)
    blended({"own": OWN}, g)
    assert (
        len(Given.asked) == 22
    )  # more than ten passes of two batches each, whose last losses do not vary
    blended({"own": OWN}, g, [1.0, 3.0] * 10**3)
    assert len(Given.asked) == 22
    blended({"own": OWN}, g, [1.0, 1.0, 3.0, 3.0] * 10**3)
    assert len(Given.asked) == 2 * MOST_EPOCHS
    blended(
        {"own": OWN}, g, [1.0, 1.0, 3.0, 3.0] * 10**3, threshold=1.01
    )  # it is 1, over ten and not over nine
    assert len(Given.asked) == 22
    blended({"own": OWN, "m": vector(1.0, 0.5)}, g)
    assert len(Given.asked) == 2


def test_the_blend_is_used_as_soon_as_it_is_learnt_and_stays_in_its_range() -> None:
    start, v = blended({"own": OWN, "m": vector(1.0, 0.5)}, vector(0.0, -10.0, -0.1))
    torch.testing.assert_close(Given.asked[0], vector(7.0, 1.0, 2.0))
    # 1 - (-10)(-1) is below 0; 0.5 + 0.1 * 2 = 0.7, then 0.9
    torch.testing.assert_close(Given.asked[1], vector(7.0, 2.0, 1 + 2 * 0.7))
    torch.testing.assert_close(v.state["m"], vector(0.0, 0.9))
    torch.testing.assert_close(start, vector(7.0, 2.0, 1 + 2 * 0.9))
    _, v = blended({"own": OWN, "m": vector(1.0, 0.5)}, vector(0.0, 10.0, -10.0))
    assert v.state["m"].tolist() == [1.0, 1.0]


def test_settings() -> None:
    for wrong in ({"share": 0}, {"share": 1.1}, {"layers": 0}, {"eta": -1}, {"threshold": -1}):
        with pytest.raises(SettingError, match="fedala: "):
            Ala(**wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="3 tensors are to be blended, but the model has only 2"):
        Ala(layers=3).check(ModelInfo((), nn.Linear(1, 1), PLANE))


RNG = torch.Generator().manual_seed(0)
X, Y = torch.randn(8, 4, generator=RNG, dtype=torch.float64), torch.arange(8) % 3
DATA = clients_of([(X, Y)], test=(X, Y), classes=3).open(0).data(0)


def network() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


@dataclass(frozen=True, repr=False)
class Where(Piece):
    """Notes where local training began."""

    stage, key = Stage.CORRECT, "where"

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        STARTS.append(v.start)
        return grad(w)


STARTS: list[Tensor] = []


def test_three_requests_by_hand() -> None:
    """The blend of the last two tensors learnt by torch's autograd, on all data in one batch."""
    local = LocalTraining(batch_size=8, lr=0.1)
    learner = Learner(network(), (4,), 3, seed=0, dtype="float64")
    job = ClientJob(learner, (Ala(share=1.0, eta=3.0, threshold=100.0), Where()), local, 0)
    size = 5 * 3 + 3
    sent = job.learner.initial().params
    state: Any = {}
    own = m = None
    shift = torch.linspace(-1, 1, len(sent), dtype=torch.float64)
    for t in range(3):
        STARTS.clear()
        reply, state = run_client(
            job, Request(0, Broadcast(t, sent, torch.zeros(0), 0.1), state), DATA
        )
        start = sent
        if own is not None:
            module, new = network(), sent[-size:]
            m = torch.ones(size, dtype=torch.float64) if m is None else m
            for _ in range(
                11 if t == 1 else 1
            ):  # at the second request, until there are more than ten losses
                point = torch.cat([sent[:-size], own + (new - own) * m])
                nn.utils.vector_to_parameters(point, module.parameters())
                grads = torch.autograd.grad(cross_entropy(module(X), Y), list(module.parameters()))
                g = torch.cat([part.reshape(-1) for part in grads])[-size:]
                m = (m - 3.0 * g * (new - own)).clamp(0, 1)
            start = torch.cat([sent[:-size], own + (new - own) * m])
            torch.testing.assert_close(state["ala"]["m"], m, rtol=1e-9, atol=1e-10)
            assert bool(((m > 0) & (m < 1)).any())
        torch.testing.assert_close(STARTS[0], start, rtol=1e-9, atol=1e-10)
        own = (sent - reply.delta)[-size:]
        torch.testing.assert_close(state["ala"]["own"], own, rtol=0, atol=1e-14)
        sent = sent - reply.delta + 0.3 * shift
    forgetful, _ = run_client(
        replace(job, pieces=()), Request(0, Broadcast(3, sent, torch.zeros(0), 0.1), {}), DATA
    )
    blending, _ = run_client(job, Request(0, Broadcast(3, sent, torch.zeros(0), 0.1), state), DATA)
    assert not torch.equal(forgetful.delta, blending.delta)
