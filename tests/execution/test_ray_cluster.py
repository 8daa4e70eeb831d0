"""The executor `ray`: the same bits as one process, lost nodes, and errors before round 0."""

from __future__ import annotations

import ast
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fedflat.errors import SettingError
from fedflat.execution.ray_cluster import Ray, executor
from fedflat.execution.ray_cluster.connection import head_problem
from fedflat.execution.ray_cluster.pool import room
from fedflat.experiments.api import experiment
from fedflat.experiments.execution_config import executor_of, executor_text
from fedflat.experiments.train import train
from sources import HOME, SOURCES, tree_of

DRIVER = Path(__file__).with_name("ray_driver.py")
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with a token for the clusters of a test: Ray looks for it there."""
    made = tmp_path / "home"
    (made / ".ray").mkdir(parents=True)
    (made / ".ray" / "auth_token").write_text(secrets.token_hex(32))
    return made


def driven(home: Path, *words: str) -> Any:
    """What a scenario of `ray_driver` found."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, DRIVER, *words],
        capture_output=True,
        text=True,
        timeout=600,
        env=own | {"HOME": str(home), "RAY_AUTH_MODE": "token"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) | {"printed": done.stderr}


@pytest.mark.slow
@needs_ray
def test_the_same_bits_as_in_one_process(home: Path) -> None:
    """With client states, and with chains."""
    found = driven(
        home,
        "same_bits",
        "fedgloss(rho_s=0.1, rho_l=0.1, beta=10.0)",
        "fedseq()",
    )
    assert found.pop("printed") == ""
    assert len(found) == 2
    assert len({here for _, here in found.values()}) == 2
    assert all(there == here for there, here in found.values())


@needs_ray
@pytest.mark.slow
def test_a_node_is_killed_and_another_is_added(home: Path) -> None:
    found = driven(home, "killed_node", "fedgloss(rho_s=0.1, rho_l=0.1, beta=10.0)")
    assert found["ray"] == found["here"]
    assert found["repeated"] == 1
    assert "The request is repeated: client" in found["printed"]
    assert found["killed in"] == [0, 1]
    assert found["actors"] == {"0": 3, "1": 3, "2": 2, "3": 3, "4": 3, "5": 3}


@needs_ray
@pytest.mark.slow
def test_no_actor_is_left(home: Path, tmp_path: Path) -> None:
    """The run ends with an error and a checkpoint, and goes on elsewhere with the same bits."""
    found = driven(home, "no_actor_left", str(tmp_path / "run"))
    assert found["message"].startswith(
        "No Ray actor was there for 3 seconds. An actor needs 2 CPUs"
    )
    assert found["message"].endswith("The run can be resumed.")
    assert found["checkpoints"] == ["round-0000001"]
    assert found["resumed"] == found["here"]


@needs_ray
@pytest.mark.slow
def test_the_head_is_killed(home: Path, tmp_path: Path) -> None:
    """Calls of Ray that need the head would wait for it without end."""
    found = driven(home, "killed_head", str(tmp_path / "run"))
    assert found["message"].startswith("The head of the Ray cluster at ")
    assert "has not answered for 3 seconds" in found["message"]
    assert found["checkpoints"] == ["round-0000001"]
    assert found["resumed"] == found["here"]


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ("other_version", "has other versions than this machine (Version mismatch: "),
        ("no_cluster", "Start one with `ray start --head`, or use address='local'."),
        ("missing_plugin", "cannot take part: plugin: '"),
    ],
)
def test_what_cannot_begin(scenario: str, message: str, home: Path, tmp_path: Path) -> None:
    found = driven(home, scenario, str(tmp_path))
    assert found["error"] == "SettingError"
    assert message in found["message"]


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port at which nothing listens: it is bound, so that no other process gets it."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield one.getsockname()[1]


def test_a_head_that_does_not_answer(free_port: int) -> None:
    assert head_problem(f"127.0.0.1:{free_port}") == "Connection refused"


@needs_ray
def test_a_run_without_a_head(free_port: int) -> None:
    ray = Ray(address=f"127.0.0.1:{free_port}")
    with pytest.raises(SettingError, match="no Ray head answers at"):
        train(small(), executor=ray)


def small() -> Any:
    return experiment("fedavg", on="digits(lda(0), clients=12)", rounds=1, clients_per_round=2)


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"pip install 'fedflat\[ray\]'"):
        train(small(), executor=Ray())


def test_gpus_without_a_device_that_uses_them() -> None:
    with pytest.raises(SettingError, match=r"gpus=0\.5 reserves GPUs, but the run uses the device"):
        train(small(), executor=Ray(gpus=0.5))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"address": "ray://head:10001"}, "address must be 'auto', 'local' or the host and port"),
        ({"address": "head"}, "address must be"),
        ({"address": 6379}, "address must be"),
        ({"actors": -1}, "actors must be a whole number of at least 0"),
        ({"threads": 0}, "threads must be a whole number of at least 1"),
        ({"cpus": -1}, "cpus must be a number of at least 0"),
        ({"gpus": float("nan")}, "gpus must be a number"),
        ({"wait": 0}, "wait must be a number above 0"),
        ({"cpus": 0}, "without CPUs and GPUs"),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Ray(**wrong)


def test_as_text() -> None:
    made = executor_of("ray(address='10.0.0.1:6379', cpus=2, gpus=0.25)")
    assert made == Ray(address="10.0.0.1:6379", cpus=2, gpus=0.25)
    assert executor_of(executor_text(made)["executor"]) == made
    assert executor_of("ray") == Ray()


@pytest.mark.parametrize(
    ("resources", "cpus", "gpus", "actors"),
    [
        ({"CPU": 8.0}, 1, 0, 8),
        ({"CPU": 8.0}, 3, 0, 2),
        ({"CPU": 1.0}, 0.1, 0, 10),
        ({"CPU": 8.0, "GPU": 2.0}, 1, 0.25, 8),
        ({"CPU": 32.0, "GPU": 2.0}, 1, 0.25, 8),
        ({"CPU": 32.0}, 1, 1, 0),
        ({"GPU": 1.0}, 0, 0.5, 2),
    ],
)
def test_room_of_a_node(resources: dict[str, float], cpus: float, gpus: float, actors: int) -> None:
    assert room(resources, cpus, gpus) == actors


def imports_of(path: Path) -> set[str]:
    """Top-level packages that a module imports, lazily too."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names}
        if isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
        if isinstance(node, ast.Constant) and node.value == "ray":
            found.add("ray")
    return found


def test_only_the_executor_knows_ray() -> None:
    knows = {path for path in SOURCES if "ray" in imports_of(path)}
    assert knows
    assert {path.parent for path in knows} == {HOME / "execution" / "ray_cluster"}
