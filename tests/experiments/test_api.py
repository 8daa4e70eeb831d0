"""The library in one call."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import fedflat as ff
from experiments.small import SIZES, data, timeless
from fedflat.errors import SettingError, SpellingError
from fedflat.models.simple import mlp

SETTINGS: dict[str, Any] = {"rounds": 3, "clients_per_round": 2, "threads": 1}


def same(one: ff.Result, other: ff.Result) -> bool:
    return torch.equal(one.model.params, other.model.params) and timeless(one.rows) == timeless(
        other.rows
    )


def test_text_and_objects_are_the_same() -> None:
    text = ff.run(
        "feddyn(alpha=0.1) + sam(rho=warmup(0.0, 0.1, 2)) + wima(window=2)",
        on="digits(lda(0.5), clients=10)",
        model="mlp(hidden=[8])",
        lr="decay(0.1, 0.9)",
        **SETTINGS,
    )
    objects = ff.run(
        ff.feddyn(alpha=0.1) + ff.sam(rho=ff.warmup(0.0, 0.1, 2)) + ff.wima(window=2),
        on=ff.digits(ff.lda(0.5), clients=10),
        model=ff.mlp([8]),
        lr=ff.decay(0.1, 0.9),
        **SETTINGS,
    )
    assert same(text, objects)
    assert text.method == objects.method


def test_compare_is_run_for_each() -> None:
    """In the order of methods, then seeds; the same clients and batches for all."""
    on = ff.digits(ff.lda(0), clients=10)
    results = ff.compare(["fedavg", ff.fedsam(rho=0.0)], on=on, seeds=[4, 2], **SETTINGS)
    assert [(r.method, r.seed) for r in results] == [
        ("fedavg()", 4),
        ("fedavg()", 2),
        ("fedsam(rho=0.0)", 4),
        ("fedsam(rho=0.0)", 2),
    ]
    assert same(results[0], ff.run("fedavg", on=on, seed=4, **SETTINGS))
    for plain, sam in zip(results[:2], results[2:], strict=True):
        assert torch.equal(plain.model.params, sam.model.params)
    assert not torch.equal(results[0].model.params, results[1].model.params)
    assert [s.seeds for s in ff.summarise(results, None)] == [2, 2]


def test_the_default_model_is_chosen_by_the_data() -> None:
    """64 inputs, 64 hidden, 10 classes."""
    result = ff.run("fedavg", on="digits(iid(), clients=5)", **{**SETTINGS, "rounds": 1})
    assert len(result.model.params) == 64 * 64 + 64 + 64 * 10 + 10


def test_seeds_decide_everything() -> None:
    runs = [
        ff.run("fedavg", on="digits(lda(0), clients=10)", seed=seed, **SETTINGS)
        for seed in (0, 0, 1)
    ]
    assert same(runs[0], runs[1])
    assert not torch.equal(runs[0].model.params, runs[2].model.params)


def test_global_random_numbers_are_left_alone() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one = ff.run("fedavg", on="digits(lda(0), clients=10)", **SETTINGS)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert same(one, ff.run("fedavg", on="digits(lda(0), clients=10)", **SETTINGS))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_types_of_numbers(dtype: str) -> None:
    result = ff.run("feddyn(alpha=0.1) + ema()", on=data(), model=mlp([5]), dtype=dtype, **SETTINGS)
    assert result.model.params.dtype == getattr(torch, dtype)
    wide = ff.run(
        "feddyn(alpha=0.1) + ema()", on=data(), model=mlp([5]), dtype="float64", **SETTINGS
    )
    assert torch.allclose(result.model.params.double(), wide.model.params, atol=1e-5)
    if dtype == "float32":
        assert not torch.equal(result.model.params.double(), wide.model.params)


class Start(nn.Sequential):
    """The same start for us and for the loop by hand."""

    def __init__(self) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            super().__init__(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def test_centralised_is_plain_sgd_over_all_data() -> None:
    """Written by hand with torch's optimiser, whose momentum goes on from round to round."""
    total = sum(SIZES)
    rng = torch.Generator().manual_seed(2)
    orders = [
        {0: [b.tolist() for b in torch.randperm(total, generator=rng).split(8)]} for _ in range(4)
    ]
    result = ff.run(
        "centralised",
        on=data(),
        model=Start(),
        rounds=4,
        batch_size=8,
        lr=0.1,
        momentum=0.9,
        weight_decay=0.01,
        orders=orders,
        dtype="float64",
    )
    fed = data().open(0)
    x = torch.cat([fed.train.inputs[part] for part in fed.parts]).double()
    y = torch.cat([fed.train.targets[part] for part in fed.parts])
    module = Start().double()
    sgd = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    losses = []
    for order in orders:
        of_round = []
        for batch in order[0]:
            sgd.zero_grad()
            loss = cross_entropy(module(x[batch]), y[batch])
            loss.backward()
            sgd.step()
            of_round.append(loss.item())
        losses.append(sum(of_round) / len(of_round))
    by_hand = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    assert torch.allclose(result.model.params, by_hand, atol=1e-12, rtol=0)
    assert [row["train_loss"] for row in result.rows] == pytest.approx(losses, abs=1e-12)
    assert (result.ledger.down, result.ledger.up) == (0, 0)
    assert result.ledger.samples == 4 * total


def test_fedavg_is_the_mean_of_plain_sgd() -> None:
    """Two clients of 6 and 12 examples, two rounds, momentum begun anew at every request."""
    rng = torch.Generator().manual_seed(3)
    orders = [
        {k: [b.tolist() for b in torch.randperm(SIZES[k], generator=rng).split(4)] for k in (0, 2)}
        for _ in "ab"
    ]
    result = ff.run(
        "fedavg",
        on=data(),
        model=Start(),
        rounds=2,
        lr=0.1,
        momentum=0.9,
        orders=orders,
        cohorts=[[0, 2]] * 2,
        dtype="float64",
    )
    fed, module = data().open(0), Start().double()
    params = list(module.parameters())
    for order in orders:
        start, mean = [p.detach().clone() for p in params], [torch.zeros_like(p) for p in params]
        for k, weight in ((0, 6 / 18), (2, 12 / 18)):
            for p, s in zip(params, start, strict=True):
                p.data.copy_(s)
            sgd = torch.optim.SGD(params, lr=0.1, momentum=0.9)
            for batch in order[k]:
                index = fed.parts[k][batch]
                sgd.zero_grad()
                cross_entropy(
                    module(fed.train.inputs[index].double()), fed.train.targets[index]
                ).backward()
                sgd.step()
            for m, p in zip(mean, params, strict=True):
                m.add_(p.detach(), alpha=weight)
        for p, m in zip(params, mean, strict=True):
            p.data.copy_(m)
    by_hand = torch.cat([p.detach().reshape(-1) for p in params])
    assert torch.allclose(result.model.params, by_hand, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"device": "cuda"}, SettingError, "device"),
        (
            {"device": "tpu"},
            SettingError,
            "device 'tpu' cannot be read. Write cpu, cuda, cuda:1 or",
        ),
        ({"rounds": 0}, SettingError, "rounds must be a whole number of at least 1, found 0"),
        ({"lr": "decay(0.1)"}, SpellingError, "missing a required argument: 'rate'"),
        ({"lr": "fedavg"}, SpellingError, "'fedavg' is a method, not a schedule"),
        ({"model": "cn"}, SpellingError, "unknown model 'cn'. Did you mean 'cnn'"),
        ({"on": "digit"}, SpellingError, "unknown data set 'digit'. Did you mean 'digits'"),
        (
            {"batch_size": 0},
            SettingError,
            "batch size must be a whole number of at least 1, found 0",
        ),
        ({"lr": -0.1}, SettingError, "lr must be a number of at least 0, found -0.1"),
        ({"momentum": 1.5}, SettingError, "at most 1, found 1.5"),
        ({"local_steps": 0}, SettingError, "steps must be a whole number of at least 1, found 0"),
    ],
)
def test_wrong_settings(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    if wrong == {"device": "cuda"} and torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(error, match=message):
        ff.run("fedavg", **{"on": "digits(iid(), clients=10)", **SETTINGS, **wrong})


def test_an_unknown_setting_is_an_error() -> None:
    with pytest.raises(TypeError, match="round_size"):
        ff.run("fedavg", on="digits", round_size=3, **SETTINGS)


def test_progress_is_printed_unless_quiet(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In a script: plain lines on standard error; standard output is the caller's."""
    on = "digits(lda(0), clients=10)"
    result = ff.run("fedavg", on=on, out=tmp_path / "run", **SETTINGS)
    output, messages = capsys.readouterr()
    assert output == ""
    assert "fedavg(), seed 0\n" in messages
    assert re.search(r"  round 3/3  test \S+ % \(round 3\)  train loss \S+  done  ", messages)
    both = ff.compare(["fedavg", "fedprox"], on=on, **SETTINGS)
    assert "[2/2] fedprox(), seed 0\n" in capsys.readouterr().err
    assert isinstance(both, ff.Results)
    assert same(both[0], result)
    ff.run("fedavg", on=on, quiet=True, **SETTINGS)
    ff.compare(["fedavg"], on=on, quiet=True, **SETTINGS)
    (again,) = ff.resume(tmp_path / "run", quiet=True)
    assert timeless(again.rows) == timeless(result.rows)
    assert capsys.readouterr() == ("", "")
