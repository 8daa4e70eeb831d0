"""Python files in the current folder are never executed, neither by a command nor by the processes
it starts."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from experiments.small import FEDFLAT
from fedflat.cli.parser import build
from fedflat.registry.specs import KINDS

NAMES = {
    *sys.stdlib_module_names,
    *"fedflat numpy torch scipy sklearn safetensors rich PIL matplotlib pandas".split(),
}
HOSTILE = "import builtins\nbuiltins.open({marker!r}, 'w').close()\n"
PLUGIN = """
import fedflat as ff
from fedflat.client.gradient_transforms import Prox

@ff.method
def pull(mu: float = 0.5) -> ff.Method:
    return ff.Method(client=(Prox(mu),))
"""
SETTINGS = {"on": "digits(clients=20)", "model": "logistic()", "rounds": 1, "clients_per_round": 2}
QUICK = (
    "--on",
    "digits(clients=20)",
    "--model",
    "logistic",
    "--rounds",
    "1",
    "--clients-per-round",
    "2",
    "--quiet",
)
STREET = "street(towns=1, weather='sun', unseen_weather='', unseen_towns=0, clients=2, examples=2, width=32, height=32)"
TABLE = (
    "reproduce",
    "../table.json",
    "--cells",
    "*",
    "--nice",
    "0",
    "--jobs",
    "1",
    "--quiet",
    "--out",
    "table",
)
COMMANDS = (
    ("run", "pull(mu=0.1)", *QUICK, "--workers", "1", "--out", "run", "--plugin", "../plugin.py"),
    ("compare", "fedavg", "fedsam", *QUICK, "--threads", "1", "--out", "study"),
    ("resume", "study", "--quiet"),
    ("analyse", "study", "--quiet"),
    ("report", "study"),
    ("export", "run", "--to", "model.pt2", "--plugin", "../plugin.py"),
    (
        "run",
        "fedavg",
        "--on",
        STREET,
        "--model",
        "small_unet(width=4)",
        *QUICK[4:],
        "--out",
        "street",
    ),
    ("predict", "street", "../picture.png"),
    ("table", "study"),
    ("deploy", "init", "federation", "--clients", "a"),
    ("sweep", "fedsam(rho={0.1, 0.2})", *QUICK, "--validation", "0.2", "--out", "sweep"),
    ("init", "experiment.toml"),
    ("completion", "bash"),
    ("doctor", "--device", "cpu", "--methods", "fedavg", "--quick"),
    ("list",),
    *(("list", kind) for kind in (*filter(None, KINDS.values()), "presets")),
    ("data", "list"),
    ("data", "show", "digits(clients=20)"),
    ("data", "get", "digits"),
    (*TABLE, "--workers", "2"),
    ("reproduce", "table", "--table"),
)
DRIVER = """
import json, sys
from fedflat.cli import main

for words in json.load(open(sys.argv[1])):
    print(json.dumps([words, main(words)]), file=sys.stderr)
"""


def hostile(folder: Path, markers: Path) -> Path:
    """A folder with a file for each module that a process may import; an import leaves a marker."""
    for one in (folder, markers):
        one.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(HOSTILE.format(marker=str(markers / name)))
    return folder


@pytest.mark.slow
def test_every_command_in_a_hostile_folder(tmp_path: Path) -> None:
    """One process carries out all commands but `dashboard`; its own script is elsewhere, as
    `fedflat` is."""
    folder = hostile(tmp_path / "here", tmp_path / "markers")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "driver.py").write_text(DRIVER)
    (tmp_path / "plugin.py").write_text(PLUGIN)
    (tmp_path / "commands.json").write_text(json.dumps(COMMANDS))
    (tmp_path / "table.json").write_text(
        json.dumps(
            {"settings": SETTINGS, "rows": [{"name": "a", "method": "fedavg()", "reported": 50.0}]}
        )
    )
    Image.fromarray(np.zeros((32, 32, 3), dtype=np.uint8)).save(tmp_path / "picture.png")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    words = [sys.executable, str(tmp_path / "bin" / "driver.py"), str(tmp_path / "commands.json")]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    codes = [json.loads(line)[1] for line in done.stderr.splitlines() if line.startswith("[[")]
    assert os.listdir(tmp_path / "markers") == []
    assert codes == [0] * len(COMMANDS), done.stderr

    with subprocess.Popen(
        [FEDFLAT, "dashboard", "study", "--port", "0"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
    ) as dashboard:
        assert dashboard.stdout is not None
        assert dashboard.stdout.readline()
        dashboard.terminate()
    assert os.listdir(tmp_path / "markers") == []


def test_no_command_is_left_out() -> None:
    [commands] = [one for one in build()._actions if isinstance(one, argparse._SubParsersAction)]
    assert {words[0] for words in COMMANDS} | {"analyze", "dashboard"} == set(commands.choices)
