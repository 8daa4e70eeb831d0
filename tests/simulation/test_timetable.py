"""When exchanges end: numbers derived by hand, and properties of every exchange."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflat.core.failures import AWAY, LATE
from fedflat.simulation.availability import Trace
from fedflat.simulation.clock import Clock, Device, Fleet
from fedflat.simulation.devices import measured
from fedflat.simulation.timing import ChainPlan, ClientLeg, timetable


class Given(Clock):
    """Devices as they are given."""

    devices: tuple[Device, ...]

    def device(self, client: int, seed: int) -> Device:
        return self.devices[client]


def fleet(*devices: Device, **more: Any) -> Fleet:
    clock = Given(**more)
    object.__setattr__(clock, "devices", devices)
    return Fleet(clock, 0)


def alone(client: int, work: float, down: float = 0, up: float = 0) -> ChainPlan:
    return ChainPlan([ClientLeg(client, down, work)], up)


SLOW, FAST = Device(1, 10, 5, 0.5), Device(2, 20, 10, 0.25)


def test_a_client_receives_computes_and_sends() -> None:
    # slow: 0.5 + 100/10, 12/1, 0.5 + 50/5
    assert fleet(SLOW).seconds(0, 12, 100, 50) == 10.5 + 12 + 10.5
    assert fleet(FAST).seconds(0, 12, 100, 50) == 5.25 + 6 + 5.25


def test_a_star_waits_for_the_slowest() -> None:
    found = timetable(fleet(SLOW, FAST), 0, 7.0, [alone(0, 12, 100, 50), alone(1, 12, 100, 50)])
    assert [one.at for one in found.ended] == [7 + 33, 7 + 16.5]
    assert found.over == 40
    assert not found.surplus
    assert not found.lost


def test_a_chain_is_sequential_and_chains_are_side_by_side() -> None:
    # slow receives 100 bytes in 10.5 s and computes 12 s; handing 100 bytes on takes 0.5 + 0.25 +
    # 100/min(5, 20) s; fast computes 4 s, and sends 50 bytes in 5.25 s
    way = ChainPlan([ClientLeg(0, 100, 12), ClientLeg(1, 100, 8)], 50)
    other = ChainPlan([ClientLeg(2, 100, 12)], 50)
    found = timetable(fleet(SLOW, FAST, FAST), 0, 0.0, [way, other])
    assert [one.at for one in found.ended] == [10.5 + 12 + 20.75 + 4 + 5.25, 16.5]
    assert found.over == 52.5


def test_the_other_way_round_the_link_from_client_to_client_is_another() -> None:
    # fast: 5.25 + 4; 0.75 + 100/min(10, 10); slow: 12 + 10.5
    found = timetable(
        fleet(SLOW, FAST), 0, 0.0, [ChainPlan([ClientLeg(1, 100, 8), ClientLeg(0, 100, 12)], 50)]
    )
    assert found.over == 9.25 + 10.75 + 12 + 10.5


def test_a_chain_may_go_round_several_times() -> None:
    # slow has computed at 22.5, fast at 47.25; back: 0.75 + 100/min(10, 10), 12 s; slow sends in
    # 10.5 s
    way = ChainPlan([ClientLeg(0, 100, 12), ClientLeg(1, 100, 8), ClientLeg(0, 100, 12)], 50)
    assert timetable(fleet(SLOW, FAST), 0, 0.0, [way]).over == 47.25 + 10.75 + 12 + 10.5
    assert timetable(fleet(SLOW, FAST, deadline=60), 0, 0.0, [way]).lost.keys() == {(0, 1)}


def test_a_client_hands_nothing_to_itself() -> None:
    way = ChainPlan([ClientLeg(0, 100, 12), ClientLeg(0, 100, 12)], 50)
    assert timetable(fleet(SLOW), 0, 0.0, [way]).over == 10.5 + 12 + 12 + 10.5


@pytest.mark.parametrize(
    ("busy", "starts", "hands_on"),
    [
        ({1: 30.0}, 0, 30),
        ({1: 20.0}, 0, 22.5),
        ({0: 3.0}, 3, 25.5),
        ({0: 3.0, 1: 26.0}, 3, 26),
    ],
)
def test_a_chain_waits_for_clients_that_train_another_model(
    busy: dict[int, float], starts: float, hands_on: float
) -> None:
    """Slow receives and computes in 22.5 s. It hands the model on in 20.75 s as soon as fast is
    free."""
    way = ChainPlan([ClientLeg(0, 100, 12), ClientLeg(1, 100, 8)], 50)
    found = timetable(fleet(SLOW, FAST), 0, 0.0, [way], busy=busy)
    assert hands_on == max(starts + 22.5, busy.get(1, 0))
    assert found.over == hands_on + 20.75 + 4 + 5.25
    assert found.ended[0].free == {0: hands_on + 20.75, 1: found.over}


def test_the_first_who_come_are_taken() -> None:
    devices = [Device(speed, 1, 1) for speed in (1, 4, 2, 8)]  # they take 8, 2, 4 and 1 s
    ways = [alone(client, 8) for client in range(4)]
    found = timetable(fleet(*devices, extra=1.0), 0, 0.0, ways)
    assert found.surplus == {0, 2}
    assert found.over == 2
    assert not found.lost
    later = timetable(fleet(*devices, extra=1.0), 0, 0.0, ways, choose=False)
    assert later.over == 8
    assert not later.surplus


def test_of_equal_times_the_first_in_the_cohort_count() -> None:
    found = timetable(
        fleet(*[Device(1, 1, 1)] * 3, extra=0.5), 0, 0.0, [alone(client, 5) for client in range(3)]
    )
    assert found.surplus == {2}


@pytest.mark.parametrize(
    ("count", "extra", "asked"),
    [(10, 0.3, 13), (10, 0.25, 13), (10, 0.1, 11), (5, 0, 5), (1, 1, 2)],
)
def test_how_many_are_asked_and_waited_for(count: int, extra: float, asked: int) -> None:
    clock = Given(extra=extra)
    assert clock.selected_for(count) == asked
    assert clock.waited_for(asked) == count


def test_the_server_waits_for_late_clients_until_the_deadline() -> None:
    found = timetable(
        fleet(SLOW, FAST, deadline=20), 0, 5.0, [alone(0, 12, 100, 50), alone(1, 12, 100, 50)]
    )
    assert found.over == 25
    assert found.lost.keys() == {(0, 0)}
    lost = found.lost[0, 0]
    assert (lost.at, lost.reason, lost.would) == (25, LATE, 38)
    assert "33 s, the deadline is 20 s" in lost.why


def test_exactly_at_the_deadline_is_in_time() -> None:
    found = timetable(fleet(FAST, deadline=16.5), 0, 0.0, [alone(0, 12, 100, 50)])
    assert not found.lost
    assert found.over == 16.5


def test_enough_who_come_make_the_late_ones_needless() -> None:
    found = timetable(
        fleet(SLOW, FAST, deadline=20, extra=1),
        0,
        0.0,
        [alone(0, 12, 100, 50), alone(1, 12, 100, 50)],
    )
    assert found.surplus == {0}
    assert not found.lost
    assert found.over == 16.5


def test_the_client_that_has_the_model_at_the_deadline_is_late() -> None:
    way = ChainPlan(
        [ClientLeg(0, 100, 12), ClientLeg(1, 100, 8)], 50
    )  # slow has handed on at 43.25
    assert timetable(fleet(SLOW, FAST, deadline=43), 0, 0.0, [way]).lost.keys() == {(0, 0)}
    found = timetable(fleet(SLOW, FAST, deadline=44), 0, 0.0, [way])
    assert found.lost.keys() == {(1, 0)}
    assert found.over == 44


def absences(folder: Path, spans: dict[str, Any]) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps(spans))
    return Trace(str(path))


def test_unavailable_clients_are_noticed_at_once(tmp_path: Path) -> None:
    there = absences(tmp_path, {"0": [[0, 4], [50, 60]], "1": [[0, 100]], "2": [[50, 60]]})
    ways = [alone(0, 12), alone(1, 12), alone(2, 12)]
    found = timetable(fleet(*[Device(2, 1, 1)] * 3, present=there), 0, 1.0, ways)  # each takes 6 s
    assert found.over == 7
    assert {client: one.reason for (client, _), one in found.lost.items()} == {0: AWAY, 2: AWAY}
    assert found.lost[0, 0].at == 4
    assert "left 3 s after" in found.lost[0, 0].why
    assert found.lost[2, 0].at == 1
    assert "when it was requested, 0 s after" in found.lost[2, 0].why


def test_in_a_chain_a_client_must_be_there_when_it_is_its_turn(tmp_path: Path) -> None:
    there = absences(tmp_path, {"0": [[0, 6]], "1": [[5, 100]]})
    way = ChainPlan([ClientLeg(0, 0, 12), ClientLeg(1, 0, 12)], 0)
    assert timetable(fleet(*[Device(2, 1, 1)] * 2, present=there), 0, 0.0, [way]).over == 12
    late = timetable(fleet(*[Device(2, 1, 1)] * 2, present=there), 0, 1.0, [way])
    assert late.lost.keys() == {(0, 0)}
    assert late.lost[0, 0].at == 6


amounts = st.floats(0.1, 1000)
devices = st.builds(Device, amounts, amounts, amounts, st.floats(0, 10))


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[list[Device], list[ChainPlan]]:
    """Devices, and chains of them."""
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    fleet_of = draw(st.lists(devices, min_size=sum(lengths), max_size=sum(lengths)))
    clients = iter(range(sum(lengths)))
    ways = [
        ChainPlan(
            [ClientLeg(next(clients), draw(amounts), draw(amounts)) for _ in range(length)],
            draw(amounts),
        )
        for length in lengths
    ]
    return fleet_of, ways


@settings(max_examples=40)
@given(exchanges(), st.floats(0, 100), st.floats(0, 2), st.none() | st.floats(1, 1000))
def test_an_exchange_is_as_long_as_what_it_waits_for(
    made: tuple[list[Device], list[ChainPlan]], start: float, extra: float, deadline: float | None
) -> None:
    some, ways = made
    found = timetable(fleet(*some, extra=extra, deadline=deadline), 3, start, ways)
    kept = [
        one
        for place, one in enumerate(found.ended)
        if place not in found.surplus and one.request is None
    ]
    assert all(one.at <= found.over for one in kept)
    assert found.over == max([one.at for one in kept] + [one.at for one in found.lost.values()])
    assert start <= found.over
    assert deadline is None or found.over <= start + deadline
    assert all(found.ended[place].at >= found.over for place in found.surplus)
    assert len(kept) + len(found.lost) + len(found.surplus) == len(ways)
    would = [one.would - start for one in found.ended]
    assert all(
        _least(fleet(*some), way) <= seconds + 1e-6
        for way, seconds in zip(ways, would, strict=True)
    )


def _least(some: Fleet, way: ChainPlan) -> float:
    """A chain cannot take less than all its computing, and its first and last messages."""
    first, last = some[way.legs[0].client], some[way.legs[-1].client]
    return (
        sum(some[leg.client].computes(leg.work) for leg in way.legs)
        + first.receives(way.legs[0].down)
        + last.sends(way.up)
    )


@settings(max_examples=40)
@given(exchanges(), st.floats(1, 10))
def test_more_work_never_ends_sooner(
    made: tuple[list[Device], list[ChainPlan]], factor: float
) -> None:
    some, ways = made
    more = [
        ChainPlan([ClientLeg(leg.client, leg.down, leg.work * factor) for leg in way.legs], way.up)
        for way in ways
    ]
    assert timetable(fleet(*some), 0, 0.0, more).over >= timetable(fleet(*some), 0, 0.0, ways).over


@settings(max_examples=40)
@given(exchanges(), st.floats(0, 1), st.floats(0.1, 1))
def test_waiting_for_fewer_clients_or_less_long_ends_no_later(
    made: tuple[list[Device], list[ChainPlan]], extra: float, share: float
) -> None:
    some, ways = made
    patient = timetable(fleet(*some), 0, 0.0, ways).over
    assert timetable(fleet(*some, extra=extra), 0, 0.0, ways).over <= patient
    assert (
        timetable(fleet(*some, deadline=max(patient * share, 1e-3)), 0, 0.0, ways).over
        <= patient + 1e-3
    )


def test_devices_that_were_measured(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    slow = {"speed": 1, "down": 10, "up": 5}
    path.write_text(
        json.dumps({"1": {"speed": 2, "down": 20, "up": 10, "latency": 0.25}, "0": slow})
    )
    some = Fleet(measured(str(path)), 3)
    assert some[1] == FAST
    assert some[0] == Device(1.0, 10.0, 5.0, 0.0)
