"""The checks of a device."""

from __future__ import annotations

import pytest
import torch

from fedflat.errors import FedflatError
from fedflat.execution.client_pool import Executor
from fedflat.experiments import doctor

METHODS = ["fedavg", "scaffold"]


def test_the_cpu_agrees_with_itself() -> None:
    lines: list[str] = []
    assert doctor.examine("cpu", lines.append, METHODS, speed=False)
    checks = [line for line in lines if " ok " in line]
    assert len(checks) == len(METHODS) + 2
    assert all("difference 0," in line for line in checks[:2])
    assert lines[-1] == "nothing failed"


def test_a_method_that_cannot_be_tried_is_skipped() -> None:
    (finding, *_) = doctor.findings("cpu", ["domain_models"], speed=False)
    assert finding.status == "skipped"
    assert "domain" in finding.detail


def test_a_device_that_computes_something_else_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of the distance of training is ten times the tolerance."""
    right = doctor._params

    def wrong(device: str, executor: Executor, method: str = "fedavg") -> torch.Tensor:
        params = right("cpu", executor, method)
        return params * 1.01 if device == "wrong" else params

    monkeypatch.setattr(doctor, "_params", wrong)
    (finding, *_) = doctor.findings("wrong", ["fedavg"], speed=False)
    assert finding.status == "FAILED"


@pytest.mark.parametrize(
    ("device", "methods", "message"),
    [("gpu", None, "device"), ("cpu", ["nosuch"], "unknown method")],
)
def test_wrong_arguments(device: str, methods: list[str] | None, message: str) -> None:
    with pytest.raises(FedflatError, match=message):
        doctor.examine(device, print, methods)
