"""Model averages by their definitions, their cost, and what they leave unchanged."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from fedflat.core.flat import Layout, Model
from fedflat.core.messages import Reply
from fedflat.core.schedules import steps
from fedflat.errors import SettingError
from fedflat.server.averaging import (
    ActiveClients,
    AllClients,
    AverageState,
    Ema,
    ModelAverage,
    RunInfo,
    Swa,
    Wima,
)

LAYOUT = Layout.of(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)))
HEAD = torch.tensor([False] * 6 + [True] * 3)
RNG = torch.Generator().manual_seed(0)
MODELS = [torch.randn(9, generator=RNG, dtype=torch.float64) for _ in range(12)]
FIRST = torch.zeros(9, dtype=torch.float64)


def follow(
    average: ModelAverage, models: list[Tensor] = MODELS
) -> tuple[list[Tensor | None], list[AverageState]]:
    """The model average's parameters and its notes after each model."""
    info = RunInfo(len(models), 4, LAYOUT)
    notes = average.init(info, FIRST)
    found, kept = [], []
    for t, after in enumerate(models):
        notes = dict(notes)
        average.update(notes, info, t, models[t - 1] if t else FIRST, after)
        found.append(average.params(notes, info, after))
        kept.append(notes)
    return found, kept


def close(a: Any, b: Any) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("window", [1, 2, 3, 5, 12, 100])
def test_wima_is_the_mean_of_the_last_models(window: int) -> None:
    found, _ = follow(Wima(window))
    for t in range(len(MODELS)):
        close(found[t], torch.stack(MODELS[max(0, t + 1 - window) : t + 1]).mean(0))


@pytest.mark.parametrize(("scope", "inside"), [("classifier", HEAD), ("features", ~HEAD)])
def test_wima_of_a_part_takes_the_rest_from_the_server(scope: str, inside: Tensor) -> None:
    part, whole = follow(Wima(3, scope))[0], follow(Wima(3))[0]
    for t, model in enumerate(MODELS):
        close(part[t], torch.where(inside, whole[t], model))


def test_a_round_of_wima_touches_one_model() -> None:
    """All but one slot of the window are handed on as they are; between two new sums a round reads
    two models."""
    _, kept = follow(Wima(4))
    for before, after in pairwise(kept[4:]):
        slots = [name for name in after if name.startswith("slot")]
        assert len(slots) == 4
        assert sum(before[name] is not after[name] for name in slots) == 1
        assert set(after) == {*slots, "seen", "sum"}


def test_wima_reads_only_what_comes_and_goes() -> None:
    """With every other slot spoilt the next mean does not notice, until the sum is made anew."""
    average, info = Wima(4), RunInfo(12, 4, LAYOUT)
    notes = follow(average, MODELS[:4])[1][-1]
    for i in (1, 2, 3):
        notes[f"slot{i}"] = torch.full_like(FIRST, torch.nan)
    average.update(notes, info, 4, MODELS[3], MODELS[4])
    close(average.params(notes, info, MODELS[4]), torch.stack(MODELS[1:5]).mean(0))


def test_the_sum_does_not_drift() -> None:
    """Models that swing by 1e6 and come back: the running sum keeps the small ones to single
    precision."""
    small = [torch.full((9,), 1 / 3 + i, dtype=torch.float32) for i in range(3)]
    models = [m for i in range(300) for m in (torch.full((9,), 1e6 * (i % 7 - 3)), small[i % 3])]
    found, _ = follow(Wima(2), [*models, *small])
    expected = (small[1].double() + small[2].double()) / 2
    assert found[-1] is not None
    assert found[-1].dtype == torch.float32
    torch.testing.assert_close(found[-1], expected.float(), rtol=1e-7, atol=0)
    assert follow(Wima(5), models)[1][-1]["sum"].dtype == torch.float64


def test_the_sum_is_made_anew_once_in_a_window() -> None:
    """Whatever error has crept into it is gone after at most ``window`` rounds."""
    average, info = Wima(4), RunInfo(12, 4, LAYOUT)
    notes = follow(average, MODELS[:5])[1][-1]
    notes["sum"] = notes["sum"] + 1
    wrong = []
    for t in range(5, 9):
        average.update(notes, info, t, MODELS[t - 1], MODELS[t])
        mean = average.params(notes, info, MODELS[t])
        assert mean is not None
        wrong.append(float((mean - torch.stack(MODELS[t - 3 : t + 1]).mean(0)).abs().max()))
    assert wrong[0] == pytest.approx(0.25)
    assert wrong[-1] < 1e-12


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.9, 1.0])
def test_ema_is_a_weighted_sum(gamma: float) -> None:
    found, _ = follow(Ema(gamma))
    for t in range(len(MODELS)):
        weights = [gamma**t, *((1 - gamma) * gamma ** (t - i) for i in range(1, t + 1))]
        close(found[t], sum(w * m for w, m in zip(weights, MODELS, strict=False)))


def test_ema_with_a_schedule() -> None:
    found, _ = follow(Ema(steps([0, 3], [0.5, 0.0])))
    close(found[2], 0.25 * MODELS[0] + 0.25 * MODELS[1] + 0.5 * MODELS[2])
    close(found[5], MODELS[5])


@given(start=st.integers(0, 14), cycle=st.integers(1, 6))
def test_swa_is_the_plain_mean_of_the_ends_of_its_cycles(start: int, cycle: int) -> None:
    found, _ = follow(Swa(start, cycle))
    for t in range(len(MODELS)):
        ends = [MODELS[i] for i in range(start + cycle - 1, t + 1, cycle)]
        if t < start:
            assert found[t] is None
        elif ends:
            close(found[t], torch.stack(ends).mean(0))
        else:
            close(found[t], MODELS[start - 1] if start else FIRST)


@pytest.mark.parametrize(
    ("start", "rounds", "first"),
    [(0.75, 10000, 7500), (0.75, 7, 5), (0.57, 100, 57), (3, 7, 3), (0.0, 7, 0), (0, 7, 0)],
)
def test_where_swa_starts(start: float, rounds: int, first: int) -> None:
    average = Swa(start, 5, 0.1, 0.01)
    assert average.first(rounds) == first
    rates = [average.lr(7.0, t, rounds) for t in range(first + 5)]
    assert rates[:first] == [7.0] * first
    assert rates[first:] == pytest.approx([0.1 - 0.09 * (j + 1) / 5 for j in range(5)])


def test_swa_rates_left_out() -> None:
    """The run's own rate is the highest, a hundredth of it the lowest."""
    assert [Swa(0, 2).lr(0.5, t, 9) for t in range(3)] == pytest.approx([0.2525, 0.005, 0.2525])
    assert [Swa(0, 2, high=1.0).lr(0.5, t, 9) for t in range(2)] == pytest.approx([0.505, 0.01])
    assert Swa(0, 1).lr(0.5, 3, 9) == 0.5
    assert Swa(0, 2, cycle_lr=False).lr(0.5, 3, 9) == 0.5
    assert follow(Swa(0, 2, average=False))[0] == [None] * len(MODELS)


def hear(average: ModelAverage, rounds: list[list[tuple[int, Tensor]]]) -> list[Tensor | None]:
    """The model average's parameters after rounds in which these clients returned these models."""
    info = RunInfo(len(rounds), 4, LAYOUT)
    notes, found, kept = average.init(info, FIRST), [], defaultdict[int, AverageState](dict)
    for t, cohort in enumerate(rounds):
        sent = MODELS[t]
        for client, model in cohort:
            corrected = sent - model / 2  # what is sent back need not be the client's model
            own = Model(model, torch.zeros(0))
            reply = Reply(
                client, corrected, torch.zeros(0), 1, 1, {}, {"loss": 0.0}, client_params=own
            )
            average.on_reply(notes, kept[client], info, reply)
        average.update(notes, info, t, sent, MODELS[t + 1])
        found.append(average.params(notes, info, MODELS[t + 1]))
    return found


A, B, C, D = MODELS[-4:]
ROUNDS = [[(0, A), (2, B)], [(2, C)], [(1, D), (0, B), (3, A)]]


def test_the_mean_of_the_cohort() -> None:
    assert ActiveClients().needs_replies
    expected = [(A + B) / 2, C, (D + B + A) / 3]
    for found, mean in zip(hear(ActiveClients(), ROUNDS), expected, strict=True):
        close(found, mean)


def test_the_mean_of_all_clients() -> None:
    assert AllClients().needs_replies
    expected = [(A + B) / 4, (A + C) / 4, (B + D + C + A) / 4]
    for found, mean in zip(hear(AllClients(), ROUNDS), expected, strict=True):
        close(found, mean)


@pytest.mark.parametrize("average", [Swa(2, 3), Wima(3), Wima(3, "classifier"), Ema(0.5)])
def test_models_handed_in_are_not_changed(average: ModelAverage) -> None:
    mine = [model.clone() for model in MODELS]
    follow(average, mine)
    assert all(torch.equal(a, b) for a, b in zip(mine, MODELS, strict=True))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Swa(start=1.0),
        lambda: Swa(start=2.5),
        lambda: Swa(start=-1),
        lambda: Swa(cycle=0),
        lambda: Swa(high=-1),
        lambda: Swa(cycle_lr="no"),
        lambda: Swa(average=0),
        lambda: Wima(0),
        lambda: Wima(3, "head"),
        lambda: Ema(1.5),
    ],
)
def test_settings(wrong: Any) -> None:
    with pytest.raises(SettingError):
        wrong()
