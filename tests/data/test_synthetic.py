"""Synthetic clients made on demand: reproducible, learnable, as heterogeneous as requested."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedflat as ff
from fedflat import synthetic
from fedflat.data.federation import LARGEST_POPULATION, LOOKED_AT, PartitionedFederation
from fedflat.errors import SettingError
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result
from fedflat.registry.specs import parse

MANY = 10**6


@settings(max_examples=10)
@given(
    st.integers(0, 2**40),
    st.integers(0, 10**6),
    st.integers(1, 30),
    st.integers(1, 70),
    st.integers(2, 20),
)
def test_a_client_is_the_same_whenever_it_is_asked_for(
    client: int, seed: int, n: int, d: int, c: int
) -> None:
    spec = synthetic(clients=2**40 + 1, examples=n, features=d, classes=c)
    fed, again = spec.open(seed), spec.open(seed)
    one, two = fed.data(client), again.data(client)
    assert (len(one), one.examples.shape, one.examples.classes) == (n, (d,), c)
    assert torch.equal(one.examples.inputs, two.examples.inputs)
    assert torch.equal(one.labels, two.labels)
    assert 0 <= int(one.labels.min()) <= int(one.labels.max()) < c
    assert not torch.equal(
        one.examples.inputs, fed.data(client - 1 if client else 1).examples.inputs
    )


def test_the_seed_decides_unless_the_set_has_its_own() -> None:
    def x(spec: Any, seed: int) -> torch.Tensor:
        return spec.open(seed).data(3).examples.inputs

    assert not torch.equal(x(synthetic(), 1), x(synthetic(), 2))
    assert torch.equal(x(synthetic(seed=5), 1), x(synthetic(), 5))


def test_inputs_have_the_specified_spread() -> None:
    """Feature j of one client: variance j^-1.2; over clients (1 + beta^2) times that."""
    spec = synthetic(clients=4, examples=40_000, features=8, beta=0.0)
    output = torch.arange(1, 9) ** -1.2
    torch.testing.assert_close(
        spec.open(0).data(1).examples.inputs.var(0), output, rtol=0.05, atol=0
    )
    apart = synthetic(clients=1000, examples=10, features=8, beta=2.0).open(0)
    x = torch.stack([apart.data(k).examples.inputs for k in range(1000)])
    # The variance of a thousand shifts is known to sqrt(2 / 1000) = 4.5 %: five times that.
    torch.testing.assert_close(x.flatten(0, 1).var(0), 5 * output, rtol=0.22, atol=0)
    torch.testing.assert_close(x.mean(1).var(0), (4 + 1 / 10) * output, rtol=0.22, atol=0)


def fitted(x: torch.Tensor, y: torch.Tensor, test_x: torch.Tensor, test_y: torch.Tensor) -> float:
    """The accuracy of plain logistic regression, trained here."""
    layer = torch.nn.Linear(x.shape[1], 3)
    optimiser = torch.optim.LBFGS(layer.parameters(), max_iter=200)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = torch.nn.functional.cross_entropy(layer(x), y)
        value.backward()
        return value

    optimiser.step(loss)
    return float((layer(test_x).argmax(1) == test_y).double().mean())


def test_one_rule_for_all_can_be_learnt_and_rules_of_ones_own_cannot() -> None:
    scores = {}
    for alpha in (0.0, 0.5, 3.0):
        fed = synthetic(clients=200, features=5, classes=3, alpha=alpha).open(0)
        data = [fed.data(k) for k in range(200)]
        x, y = torch.cat([d.examples.inputs for d in data]), torch.cat([d.labels for d in data])
        scores[alpha] = fitted(x, y, fed.test.examples.inputs, fed.test.labels)
    assert scores[0.0] > 0.97
    assert 0.5 < scores[3.0] + 0.15 < scores[0.5] < scores[0.0] - 0.05


def test_the_test_set_has_new_examples_of_the_same_clients() -> None:
    """Four clients: a quarter of the test set each, with the client's own rule and shift, none of
    its examples."""
    fed = synthetic(clients=4, features=5, classes=3, alpha=5.0, beta=10.0).open(2)
    assert len(fed.test) == 2000
    assert len(synthetic(clients=3).open(0).test) == 2001
    for k in range(4):
        mine, tested = fed.data(k).examples, fed.test.examples.inputs[500 * k : 500 * (k + 1)]
        # The means of 20 and of 500 draws of spread s differ by at most 5 s / sqrt(20), or luck is
        # very bad.
        assert (
            (mine.inputs.mean(0) - tested.mean(0)).abs() < 5 * torch.arange(1, 6) ** -0.6 / 20**0.5
        ).all()
        assert not set(map(tuple, mine.inputs.tolist())) & set(map(tuple, tested.tolist()))


def test_clients_differ_more_if_they_are_to() -> None:
    distance = [
        synthetic(clients=200, alpha=0, beta=beta).open(0).skew().distance
        for beta in (0.0, 1.0, 4.0)
    ]
    assert distance[0] + 0.1 < distance[1] < distance[2] - 0.1


@pytest.mark.parametrize(
    "text", ["synthetic()", "synthetic(clients=1000000, examples=5, alpha=0, beta=1.5, seed=3)"]
)
def test_its_text_is_printed_again(text: str) -> None:
    spec = parse(text, "data set")
    assert repr(spec) == text
    assert parse(repr(spec), "data set") == spec


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clients": 0}, "synthetic: clients must be a whole number of at least 1"),
        ({"clients": 1e6}, "clients must be a whole number"),
        ({"examples": 0}, "examples"),
        ({"features": 0}, "features"),
        ({"classes": 1}, "classes must be a whole number of at least 2"),
        ({"alpha": -1}, "alpha must be a number of at least 0"),
        ({"beta": float("nan")}, "beta"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_settings_are_refused_at_once(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        synthetic(**wrong)


def test_workers_can_be_sent_there() -> None:
    fed = synthetic(clients=MANY).open(0)
    assert torch.equal(pickle.loads(pickle.dumps(fed)).data(77).labels, fed.data(77).labels)


def run(clients: int, method: str = "fedavg", **more: Any) -> Result:
    settings = {
        "model": "mlp(hidden=[8])",
        "clients_per_round": 5,
        "rounds": 2,
        "threads": 1,
        **more,
    }
    return ff.run(method, on=f"synthetic(clients={clients}, features=6, classes=3)", **settings)


@pytest.mark.parametrize(
    "method", ["fedavg", "feddyn + swa", "fedgloss + active_clients", "scaffold + all_clients"]
)
@pytest.mark.parametrize("sampler", ["uniform", "bernoulli"])
def test_a_thousand_million_clients_cost_what_ten_do(method: str, sampler: str) -> None:
    """Python's own memory, and no loop over everybody: that would take minutes."""
    run(10, method, sampler=sampler)
    tracemalloc.start()
    result = run(10**9, method, sampler=sampler)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.status == "done"
    assert peak < 20e6


def test_figures_come_from_a_sample_that_is_named() -> None:
    skew = synthetic(clients=MANY).open(0).skew()
    assert (skew.clients, skew.population, skew.examples) == (LOOKED_AT, MANY, 20 * LOOKED_AT)
    assert skew.describe().startswith(
        "1000 clients (looked at out of 1000000), 20000 examples: 20 to 20 each"
    )
    assert synthetic(clients=30).open(0).skew().describe().startswith("30 clients, 600 examples")


def test_what_needs_every_client_is_done_for_few_and_refused_for_many() -> None:
    few = synthetic(clients=30, examples=4).open(1)
    pooled = few.pooled()
    assert isinstance(pooled, PartitionedFederation)
    assert pooled.population == 1
    assert torch.equal(pooled.data(0).labels, torch.cat([few.data(k).labels for k in range(30)]))
    assert list(few.sizes()) == [4] * 30
    assert run(30, "centralised").status == "done"
    assert run(30, sampler="by_size").status == "done"
    sentence = (
        rf"all 1000000 clients would have to be made.* Use at most {LARGEST_POPULATION} clients"
    )
    with pytest.raises(SettingError, match="to train in one place, " + sentence):
        run(MANY, "centralised")
    with pytest.raises(
        SettingError, match="to know how many examples each client holds, " + sentence
    ):
        prepare(ff.experiment("fedavg", synthetic(clients=MANY), rounds=1, sampler="by_size"))


def test_what_on_demand_cannot_do_is_reported() -> None:
    with pytest.raises(
        SettingError,
        match=r"has no such part. Add a split .* made on demand have no split: use partitioned data",
    ):
        run(30, "fedavg + personal")


def test_on_another_device() -> None:
    fed = synthetic(clients=3).open(0).to("meta")
    assert {fed.data(1).examples.inputs.device.type, fed.test.examples.inputs.device.type} == {
        "meta"
    }
