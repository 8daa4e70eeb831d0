"""What clients remember is taken over when the round is done, and only then."""

from __future__ import annotations

import torch

from fedflat.client.states import ClientStates


def remembering(value: float) -> dict[str, dict[str, torch.Tensor]]:
    return {"dual": {"sigma": torch.full((3,), float(value))}}


def test_a_round_that_is_done_is_kept() -> None:
    states = ClientStates({1: remembering(1)})
    states.stage(1, remembering(2))
    states.stage(2, remembering(3))
    assert states.kept.keys() == {1}
    assert float(states.memory(1)["dual"]["sigma"][0]) == 2  # a second exchange of the round sees the first
    states.keep()
    assert {k: float(m["dual"]["sigma"][0]) for k, m in states.kept.items()} == {1: 2, 2: 3}


def test_a_round_that_is_broken_off_leaves_nothing() -> None:
    states = ClientStates({1: remembering(1)})
    states.stage(1, remembering(2))
    states.stage(2, remembering(3))
    states.drop()
    states.keep()
    assert states.kept.keys() == {1}
    assert float(states.memory(1)["dual"]["sigma"][0]) == 1


def test_only_clients_that_remember_cost_anything() -> None:
    states = ClientStates()
    states.stage(1, {})
    states.keep()
    assert states.kept == {}
    assert states.memory(1) == states.memory(99) == {}
    assert states.nbytes == 0
    states.stage(2, remembering(1))
    assert states.nbytes == 0
    states.keep()
    assert states.nbytes == 12
