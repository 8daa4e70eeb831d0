"""Workers on several devices: which worker gets which, what is refused, and the bits of the CPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from claimed_gpu import ClaimedGpu, numbers
from fedflat.client.training import Request, run_client
from fedflat.core.messages import Broadcast
from fedflat.errors import SettingError
from fedflat.execution import devices as module
from fedflat.execution.devices import least_used, read_devices
from fedflat.execution.in_process import run_or_fail
from fedflat.execution.pickling import dumps, loads
from fedflat.execution.stacked import Stacked
from fedflat.execution.worker import open_job
from fedflat.execution.workers import Workers, pickle_job
from fedflat.experiments.api import experiment
from fedflat.experiments.execution_config import ExecutionConfig, merge_config
from fedflat.experiments.prepare import prepare
from fedflat.experiments.study import resume, run_one

RUN: dict[str, Any] = {
    "on": "digits(lda(0.5), clients=6)",
    "model": "mlp([4])",
    "rounds": 2,
    "clients_per_round": 4,
    "batch_size": 64,
}


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says that it has two GPUs."""
    monkeypatch.setattr(module, "available", lambda: ["cpu", "cuda:0", "cuda:1"])


@pytest.mark.parametrize(
    ("devices", "workers", "expected"),
    [
        ("0,1", 4, ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]),
        ("0", 2, ["cuda:0", "cuda:0"]),
        ("cuda:1, 0", 3, ["cuda:1", "cuda:0", "cuda:1"]),
        ("0,0,1", 3, ["cuda:0", "cuda:1", "cuda:0"]),
        ("cpu,cpu", 2, ["cpu", "cpu"]),
    ],
)
def test_workers_take_devices_in_turn(devices: str, workers: int, expected: list[str]) -> None:
    found: list[str] = []
    for _ in range(workers):
        found.append(least_used(read_devices("run", devices), found))
    assert found == expected


def test_a_replaced_worker_takes_the_device_of_the_lost_one() -> None:
    assert least_used(("cuda:0", "cuda:1"), ["cuda:1", "cuda:0", "cuda:1"]) == "cuda:0"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"devices": "0,1"}, "no device 'cuda:0'. It has cpu. Use one of these"),
        ({"device": "cuda:7"}, "no device 'cuda:7'. It has cpu. Use one of these"),
        ({"devices": "cpu,gpu"}, "device 'gpu' in devices='cpu,gpu' cannot be read"),
        ({"devices": "cpu,"}, "device '' in devices='cpu,' cannot be read"),
        ({"devices": "cpu,0"}, "mixes kinds of devices"),
        ({"devices": "cpu,cpu", "workers": 1}, "2 devices need at least as many workers, found 1"),
        ({"devices": "cpu", "executor": "in-process"}, "'in-process' has no workers"),
        ({"devices": "cpu", "executor": Workers(1)}, "Set them in the executor"),
        ({"devices": [0, 1]}, "must be a text such as '0,1' or 'cpu,cpu', found"),
    ],
)
def test_refusals(settings: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available", lambda: ["cpu"])
    with pytest.raises(SettingError) as error:
        ExecutionConfig(**settings)
    assert message in str(error.value)


@pytest.mark.usefixtures("two_gpus")
def test_the_server_uses_the_first_device() -> None:
    config = ExecutionConfig(devices="1,0")
    assert config.device == "cuda:1"
    assert config.make() == Workers(2, devices="1,0")
    assert ExecutionConfig(**config.as_json()) == config
    with pytest.raises(SettingError, match="the server uses the first of several devices, cuda:1"):
        ExecutionConfig(devices="1,0", device="cuda:0")


def test_a_run_is_resumed_on_a_machine_with_other_devices(
    two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = ExecutionConfig(devices="0,1", workers=4, executor="stacked").as_json()
    monkeypatch.setattr(module, "available", lambda: ["cpu"])
    with pytest.raises(SettingError, match="this machine has no device 'cuda:0'"):
        merge_config(saved, {})
    here = merge_config(saved, {"device": "cpu"})
    assert (here.device, here.devices, here.make()) == ("cpu", None, Stacked(workers=4))
    other = merge_config(saved, {"devices": "cpu,cpu"})
    assert other.make() == Stacked(workers=4, devices="cpu,cpu")
    assert merge_config(saved, {"executor": "in-process", "device": "cpu"}).devices is None


def test_devices_of_workers_and_of_the_run_are_of_one_kind(two_gpus: None) -> None:
    with pytest.raises(SettingError, match=r"Both must be of one kind\. Set --device cuda:0"):
        module.worker_devices("cpu", "0,1")
    assert module.worker_devices("cuda:0", "0,1") == ("cuda:0", "cuda:1")
    assert module.worker_devices("cuda:1", None) == ("cuda:1",)


@pytest.mark.usefixtures("warm_processes")
def test_real_workers_on_named_devices_give_the_same_bits(tmp_path: Path) -> None:
    """The processes are told their devices; on CPUs nothing else differs."""
    exp = experiment("fedavg", **RUN)
    one = run_one(exp, ExecutionConfig(executor="in-process", threads=1), None).model
    two = run_one(exp, ExecutionConfig(devices="cpu,cpu"), tmp_path / "run").model
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["how"]["devices"] == "cpu,cpu"
    assert one is not None
    assert two is not None
    assert torch.equal(one.params, two.params)


@pytest.mark.slow
def test_real_stacks_on_named_devices_give_the_same_bits(tmp_path: Path) -> None:
    """Stopped and resumed, too."""
    exp, folder = experiment("fedavg", **RUN), tmp_path / "run"
    one = run_one(exp, ExecutionConfig(executor="stacked", workers=2), None).model
    run_one(exp, ExecutionConfig(executor="stacked", devices="cpu,cpu"), folder, until=1)
    two = resume(folder)[0].model
    assert one is not None
    assert two is not None
    assert torch.equal(one.params, two.params)


def test_a_worker_on_another_gpu() -> None:
    """Job, data, broadcast and state go there, the reply comes back; nothing is left between."""
    exp = experiment("feddyn", **RUN)
    here = prepare(exp)
    start = here.job.learner.initial()
    expected, state = run_client(
        here.job, Request(0, Broadcast(0, start.params, start.buffers, 0.1), {}), here.fed.data(0)
    )
    with ClaimedGpu("cuda:0"):
        setup = prepare(exp, "cuda:0")
        order = pickle_job(setup.job, setup.source)
        assert not isinstance(order, str)
        start = setup.job.learner.initial()
        message = dumps(Broadcast(0, start.params, start.buffers, 0.1))
    with ClaimedGpu("cuda:1"):
        job, fed = open_job(dumps((None, (), torch.get_num_threads(), "cuda:1")), order.content)
        sent = loads(message, device=job.learner.device)
        assert sent.params.device == torch.device("cuda:1")
        answer = run_or_fail(job, Request(0, sent, {}), fed.data)
        assert isinstance(answer, tuple), answer.error
        assert answer[0].delta.device == torch.device("cuda:1")
        message = dumps(answer)
    with ClaimedGpu("cuda:0"):
        reply, kept = loads(message, device=order.device)
        assert reply.delta.device == torch.device("cuda:0")
        assert torch.equal(numbers(reply.delta), expected.delta)
        for key, named in state.items():
            for name, tensor in named.items():
                assert torch.equal(numbers(kept[key][name]), tensor)


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")  # by deepcopy
def test_a_run_on_a_gpu_is_stopped_and_resumed(two_gpus: None, tmp_path: Path) -> None:
    """Checkpoints hold what is on the device."""
    exp = experiment("scaffold + swa(start=1)", **RUN | {"rounds": 3})
    config = ExecutionConfig(executor="in-process", threads=1)
    expected = run_one(exp, config, None).model
    with ClaimedGpu():
        run_one(exp, replace(config, device="cuda:0"), tmp_path / "run", until=2)
        found = resume(tmp_path / "run")[0].model
    assert expected is not None
    assert found is not None
    assert found.params.device == torch.device("cuda:0")
    assert torch.equal(numbers(found.params), expected.params)
