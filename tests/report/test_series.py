"""Curves over seeds."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fedflat.analysis.shown_values import short, thinned
from fedflat.report.series import curves, heat_maps, recorded_numbers

ROWS = st.dictionaries(st.integers(1, 30), st.floats(-1e6, 1e6), min_size=1)


@given(st.integers(0, 5000), st.integers(2, 400))
def test_thinned(count: int, limit: int) -> None:
    """Ends are kept, order is kept, nothing comes twice, and gaps differ by at most one."""
    kept = thinned(count, limit)
    assert len(kept) == min(count, limit)
    assert kept == sorted(set(kept))
    if count:
        assert (kept[0], kept[-1]) == (0, count - 1)
        steps = {b - a for a, b in pairwise(kept)}
        assert not steps or max(steps) - min(steps) <= 1


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_bands_hold_every_seed(seeds: list[dict[int, float]]) -> None:
    found = curves([[{"round": t, "x": v} for t, v in seed.items()] for seed in seeds], ["x"])["x"]
    assert found["round"] == sorted({t for seed in seeds for t in seed})
    for place, t in enumerate(found["round"]):
        values = [seed[t] for seed in seeds if t in seed]
        for name, expected in (
            ("low", min(values)),
            ("high", max(values)),
            ("mean", sum(values) / len(values)),
        ):
            assert math.isclose(
                found[name][place], expected, rel_tol=1e-4, abs_tol=1e-3 * max(map(abs, values))
            )


@given(st.floats())
def test_short_is_close_or_none(value: float) -> None:
    found = short(value)
    assert (found is None) == (not math.isfinite(value))
    assert found is None or math.isclose(found, value, rel_tol=1e-4)


def test_a_measurement_only_some_rounds_have() -> None:
    rows = [{"round": 1, "a": 1.0}, {"round": 2, "a": 2.0, "b": 5.0}, {"round": 2, "tuned": True}]
    found = curves([rows], ["a", "b", "c"])
    assert (found["b"]["round"], found["b"]["mean"]) == ([2], [5])
    assert (found["a"]["round"], found["a"]["mean"]) == ([1, 2], [1, 2])
    assert "c" not in found


def test_what_is_measured_now_and_then_is_thinned_by_itself() -> None:
    """2,000 rounds, one quantity in each, another in every 100th: all 20 of its values stay."""
    rows = [
        {"round": t, "often": 1.0, **({"rare": float(t)} if t % 100 == 0 else {})}
        for t in range(1, 2001)
    ]
    found = curves([rows], ["often", "rare"])
    assert len(found["often"]["round"]) == 300
    assert found["rare"]["round"] == found["rare"]["mean"] == list(range(100, 2001, 100))
    assert (found["often"]["evaluations"], found["rare"]["evaluations"]) == (2000, 20)


def test_what_was_measured_and_is_no_number_is_a_gap() -> None:
    rows = recorded_numbers(
        [{"round": 1, "drift": 1.0}, {"round": 2, "drift": None}, {"round": 3, "drift": 2.0}],
        {},
    )
    assert curves([rows], ["drift"])["drift"]["mean"] == [1, None, 2]


def test_recorded_clients_become_their_mean() -> None:
    assert recorded_numbers(
        [{"round": 3, "drift": 1.5, "client_lambda": {"0": 2.0, "5": 4.0}, "classes": [0.1]}],
        {},
    ) == [{"round": 3, "drift": 1.5, "client_lambda": 3.0}]


def test_a_line_and_a_heat_map_of_one_metric() -> None:
    rows = [
        {"round": 1, "mine": {"2": 1.0}, "norms": 5.0},
        {"round": 2, "mine": {"10": 4.0, "2": 2.0}},
    ]
    drawings = {"mine": "line and heat map"}
    assert recorded_numbers(rows, drawings) == [
        {"round": 1, "mine": 1.0, "norms": 5.0},
        {"round": 2, "mine": 3.0},
    ]
    assert heat_maps(rows, drawings) == {
        "mine": {
            "round": [1, 2],
            "rows": ["2", "10"],
            "values": [[1, 2], [None, 4]],
            "evaluations": 2,
        }
    }


def test_entries_of_a_list_are_rows() -> None:
    rows = [{"round": 1, "mine": [0.1, 0.2]}, {"round": 2}, {"round": 5, "mine": [0.3, 0.4, 0.5]}]
    assert heat_maps(rows, {}) == {
        "mine": {
            "round": [1, 5],
            "rows": ["0", "1", "2"],
            "values": [[0.1, 0.3], [0.2, 0.4], [None, 0.5]],
            "evaluations": 2,
        }
    }
    assert heat_maps([{"round": 1, "drift": 0.5}], {}) == {}


def test_a_metric_chooses_its_drawing() -> None:
    rows = [
        {"round": 1, "by_client": {"9": 0.5, "10": 1.0}, "parts": [1.0, 3.0]},
        {"round": 2, "by_client": {"2": 0.25}, "parts": [5.0]},
    ]
    chosen = {"by_client": "heat map", "parts": "line"}
    assert recorded_numbers(rows, chosen) == [
        {"round": 1, "parts": 2.0},
        {"round": 2, "parts": 5.0},
    ]
    assert heat_maps(rows, chosen)["by_client"] == {
        "round": [1, 2],
        "rows": ["2", "9", "10"],
        "values": [[None, 0.25], [0.5, None], [1, None]],
        "evaluations": 2,
    }


def test_a_square_matrix_is_that_of_the_last_round() -> None:
    rows = [{"round": t, "graph": [0.5, 0.1 * t, 0.2 * t, 0.5], "other": [1.0]} for t in (1, 2)]
    chosen = {"graph": "matrix", "other": "matrix"}
    found = heat_maps(rows, chosen)
    assert found["graph"] == {
        "round": [2],
        "rows": ["0", "1"],
        "columns": ["0", "1"],
        "values": [[None, 0.2], [0.4, None]],
        "evaluations": 2,
    }
    assert found["other"]["values"] == [[1, 1]]  # one domain: nothing off the diagonal
    assert recorded_numbers(rows, chosen) == [{"round": 1}, {"round": 2}]


def test_rounds_of_a_class_map_are_kept_evenly_on_their_axis() -> None:
    """Every tenth of 1,000 rounds, and each of the last 100: what is kept does not crowd at the
    end."""
    rounds = [*range(10, 901, 10), *range(901, 1001)]
    kept = heat_maps([{"round": t, "classes": [0.5]} for t in rounds], {})["classes"]["round"]
    assert (kept[0], kept[-1]) == (10, 1000)
    assert len([t for t in kept if t > 900]) <= 13
    assert set(range(10, 901, 10)) <= set(kept)
