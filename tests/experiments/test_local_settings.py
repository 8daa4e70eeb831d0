"""Every local setting changes a run, in the same way in every executor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import fedflat as ff
from experiments.small import ON
from fedflat.settings.groups import SETTINGS
from settings.test_settings import VALUES

LOCAL = {one.name: VALUES[one.name] for one in SETTINGS if one.path[0] == "local" and one.typeable}
METHOD = "fedsam(rho=0.1) + feddyn(alpha=0.1)"


def trained(executor: str, **given: Any) -> Tensor:
    """The server's parameters after two rounds of three clients with eight steps each."""
    settings: dict[str, Any] = {
        "rounds": 2,
        "model": "mlp([6])",
        "clients_per_round": 3,
        "batch_size": 10,
        "dtype": "float64",
        "threads": 1,
    }
    return ff.run(METHOD, ON, executor=executor, **settings | given).model.params


@pytest.fixture(scope="module")
def plain() -> Tensor:
    return trained("in-process")


@pytest.mark.parametrize("name", LOCAL)
def test_executors_agree_on_every_local_setting(name: str, plain: Tensor) -> None:
    """Bit for bit, but for stacks, which sum in another order: some tens of steps of sums of at most
    64 terms, each with a rounding of 1e-16."""
    value = 0.5 if name == "clip" else LOCAL[name]  # 2 is above most gradients
    reference = trained("in-process", **{name: value})
    assert not torch.equal(reference, plain)
    assert torch.equal(trained("loopback", **{name: value}), reference)
    torch.testing.assert_close(
        trained("stacked", **{name: value}), reference, rtol=1e-9, atol=1e-12
    )


def test_pieces_of_local_settings_work_in_stacks() -> None:
    given = {name: value for name, value in LOCAL.items() if name != "local_epochs"}  # or steps
    pieces = ff.experiment("fedavg", ON, rounds=1, **given).local.pieces(keep=False)
    assert {piece.key for piece in pieces} >= {"clip", "decay", "momentum"}
    assert all(piece.stackable for piece in pieces)
