"""The number of groups in each round of FedSeq2Par."""

from __future__ import annotations

import pytest

from fedflat.errors import SettingError
from fedflat.registry.specs import parse


@pytest.mark.parametrize(
    ("name", "expected"),
    [("linear", (5, 10, 25)), ("logarithmic", (5, 5, 10)), ("exponential", (5, 15, 125))],
)
def test_three_rounds(name: str, expected: tuple[int, ...]) -> None:
    growth = parse(f"{name}(0.5)", "growth")
    assert tuple(growth.groups(t - 1, 500) for t in (1, 4, 9)) == expected
    assert growth.groups(10**6, 500) == (
        500 if name != "logarithmic" else 5 * 7
    )  # ln(10^6 + 1) / 2 + 1 is 7.9


@pytest.mark.parametrize(
    ("text", "rounds", "clients", "mean"),
    [
        ("exponential(4.6e-4)", 10_000, 500, 104.5),
        ("exponential(1.8e-2)", 250, 100, 52.3),
        ("exponential(3e-3, b=20)", 1500, 3500, 383.3),
        ("exponential(3e-3)", 1500, 3500, 95.8),
        ("exponential(2.35e-4)", 20_000, 500, 113.0),
    ],
)
def test_the_mean_number_of_groups_is_that_of_the_thesis(
    text: str, rounds: int, clients: int, mean: float
) -> None:
    growth = parse(text, "growth")
    found = sum(growth.groups(round, clients) for round in range(rounds)) / rounds
    assert found == pytest.approx(mean, abs=0.06)


def test_whole_numbers_in_spite_of_rounding() -> None:
    assert 0.29 * 100 + 1 < 30
    assert parse("linear(0.29, b=1)", "growth").groups(100, 500) == 30


def test_refused() -> None:
    with pytest.raises(
        SettingError, match="exponential: a must be a number of at least 0, found -1"
    ):
        parse("exponential(-1)", "growth")
    with pytest.raises(
        SettingError, match="linear: b must be a whole number of at least 1, found 0"
    ):
        parse("linear(1, b=0)", "growth")
