"""Compressed updates: their twin, the bytes on the wire, limits, and damaged messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedflat.core.codecs import Packed, pack_bfloat16, pack_int8, pack_top_k, unpack
from fedflat.core.messages import Reply
from fedflat.errors import SettingError
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.wire_format import ClientReply, decode, encode
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.files import Damaged
from literal import compression
from literal.problem import Plan, Problem, random_plan, random_problem
from methods.observers import method_of
from quadratic import replay
from test_every_method import experiment as small

ROUNDS = 6
HARD = {"wd": 0.02, "momentum": 0.6, "clip": 1.5, "lr": 0.04}
PIECES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "bfloat16": compression.bfloat16,
    "int8": compression.int8,
    "top_k(share=0.5)": compression.top_k(2),
}
"""The problems have four coordinates."""


@pytest.fixture(scope="module", params=["plain", "decay, momentum, clip"])
def some(request: pytest.FixtureRequest) -> tuple[Problem, Plan]:
    """Unequal sizes, cohorts of one to three of five."""
    more: dict[str, Any] = {} if request.param == "plain" else HARD
    problem = random_problem(3)
    return problem, random_plan(4, problem, ROUNDS, cohort=(1, 3), **more)


@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize("text", PIECES)
def test_the_twin(some: tuple[Problem, Plan], text: str, feedback: bool) -> None:
    problem, plan = some
    method = method_of(text.rstrip(")") + (", " if "(" in text else "(") + f"feedback={feedback})")
    twin = compression.run(problem, plan, compress=PIECES[text], feedback=feedback)
    ours = replay(method, problem, plan)
    np.testing.assert_allclose(ours.server, twin.server, rtol=1e-10, atol=1e-10)
    key = method.client[0].key
    for t, states in enumerate(ours.learnt):
        assert bool(states) == feedback
        for client, state in states.items():
            np.testing.assert_allclose(
                state[key]["error"], twin.error[t][client], rtol=1e-10, atol=1e-10
            )


@pytest.mark.parametrize("method", ["fedavg()", "scaffold()", "fedgloss(rho_s=0.1, beta=10)"])
def test_all_of_the_entries_are_the_update(some: tuple[Problem, Plan], method: str) -> None:
    problem, plan = some
    plan = replace(plan, momentum=0.0)
    packed = replay(method_of(f"{method} + top_k(share=1)"), problem, plan)
    plain = replay(method_of(method), problem, plan)
    assert np.array_equal(packed.server, plain.server)


def test_all_of_the_entries_take_no_more_bytes() -> None:
    runs = [
        train(small(method_of(text)), executor=InProcess(1))
        for text in ("fedavg()", "top_k(share=1)")
    ]
    assert runs[0].ledger.up == runs[1].ledger.up


def vector(size: int = 3000, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=dtype)


PACKERS: dict[str, Callable[[torch.Tensor], Packed]] = {
    "bfloat16": pack_bfloat16,
    "int8": pack_int8,
    "top_k": lambda x: pack_top_k(x, 30),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PACKERS)
def test_what_is_lost(name: str, dtype: torch.dtype) -> None:
    x = vector(dtype=dtype)
    found = unpack(PACKERS[name](x))
    assert found.shape == x.shape
    assert found.dtype == dtype
    if name == "bfloat16":  # half of the last of 8 significant bits
        assert bool(((found - x).abs() <= x.abs() * 2**-8).all())
    elif name == "int8":  # half of a step, and a little more as steps are float32
        steps = [part.abs().max() / 127 for part in x.split(1024)]
        for part, own, step in zip(found.split(1024), x.split(1024), steps, strict=True):
            assert bool(((part - own).abs() <= 0.5001 * step).all())
    else:
        assert int((found != 0).sum()) == 30
        assert float(found.abs()[found != 0].min()) >= float(x.abs()[found == 0].max())


def test_zeros_and_numbers_that_are_not_finite() -> None:
    assert torch.equal(unpack(pack_int8(torch.zeros(5))), torch.zeros(5))
    for wrong in (float("nan"), float("inf")):
        for pack in PACKERS.values():
            x = vector()
            x[7] = wrong
            assert not bool(torch.isfinite(unpack(pack(x))).all())


@pytest.mark.parametrize(("name", "nbytes"), [("bfloat16", 6004), ("int8", 3016), ("top_k", 248)])
def test_bytes_on_the_wire(name: str, nbytes: int) -> None:
    """The bytes that are counted are those of the encoded message, but for its text."""
    x = vector()
    packed = PACKERS[name](x)
    delta = unpack(packed)
    empty = torch.zeros(0)
    reply = Reply(1, delta, empty, 5, 5, {}, {"loss": 0.5}, request="a", packed=packed)
    assert packed.nbytes == reply.nbytes == nbytes
    content = encode(ClientReply(reply))
    plain = encode(ClientReply(replace(reply, packed=None)))
    names = 400  # of tensors and of the codec
    assert nbytes < len(content) < len(plain) - 4 * len(x) + nbytes + names
    found = decode(content)
    assert isinstance(found, ClientReply)
    assert torch.equal(found.reply.delta, delta)
    assert found.reply.nbytes == nbytes


ONE = torch.zeros(1)
DAMAGED = {
    "unknown codec": Packed("zip", {"values": ONE}),
    "no values": Packed("bfloat16", {"dtype": ONE}),
    "not bfloat16": Packed("bfloat16", {"values": ONE, "dtype": ONE}),
    "no float": Packed("bfloat16", {"values": ONE.bfloat16(), "dtype": ONE.int()}),
    "scales": Packed(
        "int8", {"values": ONE.to(torch.int8), "scales": torch.zeros(2), "dtype": ONE}
    ),
    "matrix": Packed("top_k", {"values": torch.zeros(2, 2)}),
    "outside": Packed(
        "top_k", {"values": ONE, "places": torch.tensor([7]).int(), "size": torch.tensor([3])}
    ),
    "negative": Packed(
        "top_k", {"values": ONE, "places": torch.tensor([-1]).int(), "size": torch.tensor([3])}
    ),
    "huge": Packed(
        "top_k", {"values": ONE, "places": torch.tensor([0]).int(), "size": torch.tensor([2**50])}
    ),
    "two sizes": Packed(
        "top_k", {"values": ONE, "places": torch.tensor([0]).int(), "size": torch.tensor([3, 3])}
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged(name: str) -> None:
    with pytest.raises(Damaged, match="cannot be read"):
        unpack(DAMAGED[name])


def test_what_cannot_be_combined() -> None:
    exp = small(method_of("fedbn()"))
    with pytest.raises(SettingError, match="keeps a part of it with the client"):
        prepare(replace(exp, method=method_of("fedbn() + int8()")))
    with pytest.raises(SettingError, match="both compress the update"):
        prepare(small(method_of("int8() + bfloat16()")))
    with pytest.raises(SettingError, match="share must be a number above 0"):
        method_of("top_k(share=0)")
    assert Stacked().refusal(prepare(small(method_of("int8()"))).job, None) is not None  # type: ignore[arg-type]
