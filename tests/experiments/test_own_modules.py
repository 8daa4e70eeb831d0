"""Modules that users bring: buffers they assign, layers left open, batches too small for them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedflat as ff
from experiments.small import begin, experiment, final, go_on
from fedflat.client.local import LocalTraining
from fedflat.core.flat import FlatModule
from fedflat.errors import SettingError
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train


class Centred(nn.Module):
    """Subtracts a running mean, which it assigns, from its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("running", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.running = 0.9 * self.running + 0.1 * x.mean(0)
        return self.fc(x - self.running)


def test_a_buffer_that_is_assigned_moves_as_if_it_were_changed_in_place() -> None:
    torch.manual_seed(0)
    net = Centred().double()
    flat = FlatModule(net, dtype=torch.float64)
    x = torch.randn(6, 4, dtype=torch.float64)
    w = flat.model().params
    for _ in range(3):
        flat.gradient(w, lambda m: m(x).square().sum(), move_buffers=True)
    expected = (1 - 0.9**3) * x.mean(0)
    torch.testing.assert_close(flat.buffers, expected, rtol=1e-12, atol=0)
    flat.gradient(w, lambda m: m(x).square().sum(), move_buffers=False)
    torch.testing.assert_close(flat.buffers, expected, rtol=1e-12, atol=0)
    flat.buffers = torch.zeros(4)
    torch.testing.assert_close(flat.forward(x), net.fc(x).detach(), rtol=1e-12, atol=1e-12)


def test_a_buffer_with_two_names_stays_one() -> None:
    net = Centred()
    net.also = nn.Module()
    net.also.register_buffer("same", net.running)
    flat = FlatModule(net)
    flat.buffers = torch.arange(4.0)
    assert (
        flat.module.get_buffer("also.same").tolist()
        == flat.module.get_buffer("running").tolist()
        == [0, 1, 2, 3]
    )


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize("executor", [Workers(1), Stacked(threads=1)], ids=["workers", "stacked"])
def test_assigned_buffers_are_federated_wherever_clients_run(
    executor: Workers | Stacked,
) -> None:
    exp = experiment("fedsam(rho=0.05)", model=Centred, dtype="float64", rounds=3)
    here = train(exp, executor=InProcess(threads=1))
    there = train(exp, executor=executor)
    one, other = here.model, there.model
    assert one is not None
    assert other is not None
    assert float(one.buffers.abs().max()) > 0.01
    tolerance = 0.0 if isinstance(executor, Workers) else 1e-10
    torch.testing.assert_close(other.buffers, one.buffers, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(other.params, one.params, rtol=tolerance, atol=tolerance)


def test_a_stopped_run_with_assigned_buffers_ends_bit_for_bit(tmp_path: Path) -> None:
    exp = experiment("fedsam(rho=0.05)", model=Centred)
    begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "stopped", stop=3)
    go_on(exp, tmp_path / "stopped")
    assert final(tmp_path / "whole") == final(tmp_path / "stopped")


@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_layers_left_open_are_made_for_the_data() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.LazyLinear(6), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(3))

    local = LocalTraining(batch_size=64)
    setup = prepare(experiment(model=make, local=local))
    assert setup.job.learner.flat.layout.shapes == ((6, 4), (6,), (6,), (6,), (3, 6), (3,))
    again, other = (prepare(experiment(model=make, local=local, seed=seed)) for seed in (3, 4))
    start = setup.job.learner.initial().params
    assert torch.equal(again.job.learner.initial().params, start)
    assert not torch.equal(other.job.learner.initial().params, start)
    mine = make()
    given = prepare(experiment(model=mine, local=local))
    assert torch.equal(given.job.learner.flat.model().params, given.job.learner.initial().params)
    assert isinstance(mine[0], nn.LazyLinear)  # the user's own is left as it was
    assert train(setup).status == "done"


NORMED = partial(nn.Sequential, nn.BatchNorm1d(4), nn.Linear(4, 3))


def test_a_last_batch_of_one_is_refused_before_the_first_round_with_the_remedy() -> None:
    with pytest.raises(SettingError) as caught:  # sizes are 6, 9, 12, 7, 8
        prepare(experiment(model=NORMED))
    error_text = str(caught.value)
    assert error_text.startswith(
        "client 1 has 9 examples, in batches of 4 these leave a batch of one example"
    )
    assert "drop_last=True" in error_text
    assert "GroupNorm" in error_text
    for local in (
        LocalTraining(batch_size=4, drop_last=True),
        LocalTraining(batch_size=64),
        LocalTraining(batch_size=4, steps=1),
        LocalTraining(batch_size=4, virtual=6),
    ):
        prepare(experiment(model=NORMED, local=local, rounds=1))
    assert (
        train(
            experiment(model=NORMED, local=LocalTraining(batch_size=4, drop_last=True), rounds=1)
        ).status
        == "done"
    )
    assert (
        train(experiment(rounds=1)).status == "done"
    )  # one example is enough for a network without


@pytest.mark.parametrize("kind", ["in-process", "stacked"])
def test_a_batch_of_one_of_a_client_made_on_demand_is_refused_when_it_comes(kind: str) -> None:
    def make(client: int) -> tuple[Tensor, Tensor]:
        return torch.randn(5, 4), torch.arange(5) % 3

    on = ff.clients_from(make, 9, test=(torch.randn(5, 4), torch.arange(5) % 3), classes=3)
    exp = experiment(model=NORMED, on=on)
    executor = InProcess(threads=1) if kind == "in-process" else Stacked(threads=1)
    with pytest.raises(
        SettingError, match="a batch of one example, which this model cannot be trained on"
    ):
        train(exp, executor=executor)


def test_given_orders_with_a_batch_of_one_are_refused() -> None:
    orders = [{client: [[0, 1, 2], [3]] for client in range(5)}]
    with pytest.raises(SettingError, match="the orders of round 1, client 0 have a batch of one"):
        prepare(experiment(model=NORMED, local=LocalTraining(orders=orders), rounds=1))


def test_a_pass_over_all_data_leaves_no_single_example_over() -> None:
    rng = np.random.default_rng(0)
    given = [(rng.normal(size=(257, 4)), rng.integers(3, size=257)) for _ in range(2)]
    on = ff.clients_of(given, test=given[0])
    exp = experiment(
        "mime(b=0.5)",
        on=on,
        model=NORMED,
        rounds=1,
        local=LocalTraining(batch_size=256, drop_last=True),
    )
    assert train(exp).status == "done"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model": 5},
            "the model must be a text such as 'mlp(hidden=[64])', a torch.nn.Module, or a function",
        ),
        ({"model": lambda: 5}, "must make a torch.nn.Module, found 5"),
        ({"method": 5}, "the method must be a method or its text, such as 'fedavg', found 5"),
        ({"on": 5}, "the data must be a data set or its text, such as 'digits(lda(0))', found 5"),
        ({"loss": 5}, "the loss must be a function of the model's output and the labels, found 5"),
    ],
)
def test_what_is_no_model_no_method_and_no_data_is_refused(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingError) as caught:
        ff.run(**{"method": "fedavg", "on": "digits(clients=20)", "rounds": 1, **settings})  # type: ignore[arg-type]
    assert message in str(caught.value)
