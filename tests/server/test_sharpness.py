"""The server's probes: where clients train, and from where the step is taken."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import steps
from fedflat.errors import SettingError
from fedflat.server.piece import ServerPiece, ServerState
from fedflat.server.sharpness import ServerSam, StaleSam, ascend
from fedflat.server.step import server_step
from server.cohort import NONE, answered

H = torch.tensor([2.0, 1.0, 4.0], dtype=torch.float64)
W = torch.tensor([3.0, -1.0, 0.5], dtype=torch.float64)
MAILS: list[Broadcast] = []


def send(broadcast: Broadcast) -> Replies:
    """A federation whose pseudo-gradient is that of a quadratic."""
    MAILS.append(broadcast)
    return answered(broadcast, 0.1 * H * broadcast.params)


def rounds(
    piece: ServerPiece, number: int
) -> tuple[list[Tensor], ServerState, list[dict[str, float]]]:
    MAILS.clear()
    w, states, found, notes = W, ServerState(), [], []
    for t in range(number):
        after = server_step([piece], states, send, Broadcast(t, w, NONE, 0.1))
        w, states = after.model.params, after.state
        found.append(w)
        notes.append(after.metrics)
    return found, states, notes


def test_the_true_probe_asks_twice_and_the_first_is_forgotten() -> None:
    found, states, _ = rounds(ServerSam(0.5), 1)
    first, second = MAILS
    assert not first.commit
    assert second.commit
    assert torch.equal(first.params, W)
    g = 0.1 * H * W
    there = W + 0.5 * g / g.norm()
    torch.testing.assert_close(second.params, there)
    torch.testing.assert_close(found[0], W - 0.1 * H * there)  # from W, not from there
    assert states == {"server_sam": {}}
    assert ServerSam(0.5).oracle_calls == 2


def test_the_stale_probe_uses_the_last_round() -> None:
    found, states, notes = rounds(StaleSam(0.5), 3)
    assert [broadcast.commit for broadcast in MAILS] == [True] * 3
    assert torch.equal(MAILS[0].params, W)
    before = W
    for t in (1, 2):
        before = found[t - 1]
        last = 0.1 * H * MAILS[t - 1].params
        torch.testing.assert_close(MAILS[t].params, before + 0.5 * last / last.norm())
        torch.testing.assert_close(found[t], before - 0.1 * H * MAILS[t].params)
    torch.testing.assert_close(states["stale_sam"]["delta"], 0.1 * H * MAILS[2].params)
    assert notes == [{}, {}, {}]
    assert StaleSam(0.5).oracle_calls == 1
    assert StaleSam(0.5, True).oracle_calls == 2


def test_measuring_makes_one_more_exchange_and_forgets_it() -> None:
    found, _, notes = rounds(StaleSam(0.5, measure=True), 3)
    sent = list(MAILS)
    plain, _, _ = rounds(StaleSam(0.5), 3)
    assert all(torch.equal(a, b) for a, b in zip(found, plain, strict=True))
    assert [broadcast.commit for broadcast in sent] == [True, False, True, False, True]
    assert "delta_eps" not in notes[0]
    for t in (1, 2):
        stale, true = 0.1 * H * sent[2 * t - 2].params, 0.1 * H * sent[2 * t - 1].params
        cosine = float(stale @ true / stale.norm() / true.norm())
        assert notes[t]["delta_eps"] == pytest.approx(0.5 * (2 - 2 * cosine) ** 0.5, rel=1e-6)
        assert 0 <= notes[t]["delta_eps"] <= 1


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3), st.floats(0, 3))
def test_climbing_goes_rho_far(direction: list[float], rho: float) -> None:
    way = torch.tensor(direction, dtype=torch.float64)
    up = ascend(Broadcast(0, W, NONE, 0.1, commit=False), way, rho)
    length = float((up.params - W).norm())
    if float(way.norm()) > 1e-3:
        assert length == pytest.approx(rho, abs=1e-8)
    elif not way.any():
        assert length == 0
    assert not up.commit


def test_a_perturbed_model_is_sent_anew() -> None:
    """Even to those who still have the one it was made from."""
    first = Broadcast(0, W, NONE, 0.1)
    assert first.after(first).nbytes == 0
    assert ascend(first.after(first), W, 0.5).after(first).nbytes == W.nbytes


def test_a_radius_may_change_with_the_round() -> None:
    rounds(StaleSam(steps([0, 2], [0.5, 0.0])), 3)
    w1 = MAILS[0].params - 0.1 * H * MAILS[0].params
    assert not torch.equal(MAILS[1].params, w1)
    torch.testing.assert_close(MAILS[2].params, w1 - 0.1 * H * MAILS[1].params)


@pytest.mark.parametrize("kind", [ServerSam, StaleSam])
def test_settings(kind: type[ServerSam] | type[StaleSam]) -> None:
    with pytest.raises(SettingError):
        kind(-0.1)
