"""The whole account of a model's curvature, as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from fedflat.errors import RunError, SettingError
from fedflat.flatness.curvature import curvature
from fedflat.flatness.hessian import Hessian
from flatness.networks import dense, network, toy


def test_everything_at_once() -> None:
    learner, model, data = network("group norm", count=24)
    messages: list[tuple[float, float, str]] = []
    found = curvature(
        learner,
        model,
        data,
        probes=50,
        density=2,
        layers=True,
        power=True,
        rho=0.1,
        on_progress=lambda *t: messages.append(t),
    )
    exact = torch.linalg.eigvalsh(dense("group norm", 24)).flip(0)
    assert json.loads(json.dumps(found)) == found
    assert found["eigenvalues"] == pytest.approx(exact[:5].tolist(), rel=1e-4)
    assert found["lambda_1"] == found["eigenvalues"][0]
    assert found["ratio"] == pytest.approx(float(exact[0] / exact[4]), rel=1e-4)
    assert found["power"][0] == pytest.approx(float(exact[0]), rel=0.02)
    assert abs(found["trace"]["mean"] - float(exact.sum())) < 4 * found["trace"]["stderr"]
    assert torch.trapezoid(
        torch.tensor(found["density"]["y"]), torch.tensor(found["density"]["x"])
    ) == pytest.approx(1)
    assert list(found["layers"]) == ["0", "1", "5"]
    assert max(found["layers"].values()) <= found["lambda_1"] + 1e-9
    assert 0 < found["sharpness"]["first_order"] <= found["sharpness"]["ascent"]
    assert (found["examples"], found["of"]) == (24, 24)
    assert "subsample" not in found
    names = ["eigenvalues", "power iteration", "trace", "density", "layers", "sharpness"]
    assert list(dict.fromkeys(what for _, _, what in messages)) == names


def test_progress_ends_at_the_announced_total() -> None:
    learner, model, data = network("group norm", count=24)
    messages: list[tuple[float, float, str]] = []
    curvature(
        learner,
        model,
        data,
        probes=20,
        rho=0.1,
        examples=16,
        batch_size=5,
        on_progress=lambda *t: messages.append(t),
    )
    done = [d for d, _, _ in messages]
    assert done == sorted(done)
    assert all(d <= total + 1e-9 for d, total, _ in messages)
    assert messages[-1][0] == pytest.approx(messages[-1][1], rel=0.05)


def test_what_was_not_asked_is_absent() -> None:
    learner, model, data = toy()
    found = curvature(learner, model, data, k=2)
    assert found["norm"] == pytest.approx(
        math.sqrt(sum(value * value for value in model.params.tolist()))
    )
    assert set(found) == {"loss", "norm", "examples", "of", "eigenvalues", "residuals", "lambda_1"}
    assert set(curvature(learner, model, data, k=0)) == {"loss", "norm", "examples", "of"}


def test_a_subset_says_how_sure_it_is() -> None:
    learner, model, data = network("group norm", count=40)
    found = curvature(learner, model, data, k=1, examples=20, seed=2)
    assert (found["examples"], found["of"]) == (20, 40)
    assert found["subsample"]["lambda_1_spread"] > 0
    assert found == curvature(learner, model, data, k=1, examples=20, seed=2)
    assert "subsample" not in curvature(learner, model, data, k=1, examples=40)


def test_curvature_can_be_stopped_between_batches() -> None:
    learner, model, data = network("mlp")
    before = learner.flat.model().params

    def stop(done: float, total: float, what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        curvature(learner, model, data, on_progress=stop)
    assert torch.equal(learner.flat.model().params, before)
    whole = Hessian(learner, model, data) @ torch.eye(len(model.params), dtype=torch.float64)
    assert curvature(learner, model, data)["lambda_1"] == pytest.approx(
        float(torch.linalg.eigvalsh(whole)[-1])
    )


def test_refusals() -> None:
    learner, model, data = toy()
    with pytest.raises(SettingError, match="k must be a whole number of at least 1, found 0"):
        curvature(learner, model, data, k=0, power=True)
    with pytest.raises(SettingError, match="layers must be True or False, found 'no'"):
        curvature(learner, model, data, layers="no")  # type: ignore[arg-type]


def test_a_model_that_is_not_finite() -> None:
    learner, model, data = network("group norm", count=24)
    with pytest.raises(
        RunError, match="has parameters that are not finite, so its curvature is NaN"
    ):
        curvature(learner, replace(model, params=model.params * torch.inf), data)


def test_a_model_without_curvature() -> None:
    """All weights zero: nothing moves but the last bias, so the Hessians of the other layers are
    zero."""
    learner, model, data = network("group norm", count=24)
    found = curvature(
        learner, replace(model, params=torch.zeros_like(model.params)), data, layers=True, probes=2
    )
    assert list(found["layers"].values())[:-1] == [0.0, 0.0]
    assert found["lambda_1"] == pytest.approx(found["layers"]["5"])
