"""The README's Python, and what people define in scripts, standard input and notebooks; real
processes and a kernel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from jupyter_client.manager import start_new_kernel

from experiments.small import PATIENCE
from fedflat.errors import SettingError
from fedflat.execution import main_module as mainmodule
from fedflat.execution.main_module import guarded, hidden, main_module_of, refuse_while_importing
from fedflat.execution.pickling import packed
from fedflat.experiments.execution_config import ExecutionConfig
from warm_python import warm_starts

ROOT = Path(__file__).parents[2]
SETTINGS = 'on="digits(lda(0), clients=20)", rounds=1, clients_per_round=2'
NET = """
import torch
import fedflat as ff

class Net(torch.nn.Linear):
    def __init__(self):
        torch.manual_seed(0)
        super().__init__(64, 10)

    def forward(self, x):
        return super().forward(x.flatten(1))
"""
LOOK = f"""
here = ff.run("fedavg", {SETTINGS}, threads=1)
there = ff.run("fedavg", {SETTINGS}, workers=1)
print("SAME", torch.equal(here.model.params, there.model.params))

from fedflat.experiments import execution_config
from fedflat.experiments.study import Reporter
execution_config.WORTH = execution_config.LONG = 0.0
execution_config.cores = lambda: 2
notes = []
ff.run("fedavg", {SETTINGS}, model=Net(), reporter=Reporter(note=notes.append))
print("NOTE", notes[0])
try:
    ff.run("fedavg", {SETTINGS}, model=Net(), workers=2)
except ff.SettingError as error:
    print("REFUSED", error)
"""


def readme() -> str:
    """The README's example in small."""
    block = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    small = re.sub(r"rounds=\d+", "rounds=2", re.sub(r"seeds=\d+", "seeds=2", block))
    assert small != block
    return small + 'print("READY", result.status)\n'


def as_script(code: str, folder: Path) -> tuple[str, str]:
    (folder / "mine.py").write_text(code)
    return python(["mine.py"], folder)


def from_standard_input(code: str, folder: Path) -> tuple[str, str]:
    with warm_starts():
        return python(["-"], folder, code)


def python(words: list[str], folder: Path, code: str = "") -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, input=code, capture_output=True, text=True
    )
    return done.stdout, done.stderr


def in_a_notebook(code: str, folder: Path) -> tuple[str, str]:
    """Each part in a cell of its own, in a real kernel."""
    output: dict[str, str] = {"stdout": "", "stderr": ""}

    def hear(message: dict[str, object]) -> None:
        content = message["content"]
        assert isinstance(content, dict)
        if message["msg_type"] == "stream":
            output[content["name"]] += content["text"]
        elif message["msg_type"] == "error":
            output["stderr"] += "\n".join(content["traceback"])

    with pytest.MonkeyPatch.context() as patch:  # nothing of the user's, and nothing left there
        for name in (
            "HOME",
            "IPYTHONDIR",
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR",
        ):
            patch.setenv(name, str(folder / name))
        manager, client = start_new_kernel(
            PATIENCE, kernel_name="python3", cwd=str(folder), env=dict(os.environ)
        )
    try:
        for cell in code.split("\n\n\n"):
            client.execute_interactive(cell, output_hook=hear, timeout=PATIENCE)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return output["stdout"], output["stderr"]


@pytest.mark.filterwarnings("default")  # what a kernel's client leaves behind is not ours
@pytest.mark.parametrize("way", [as_script, from_standard_input, in_a_notebook])
def test_the_readmes_example(way: Callable[[str, Path], tuple[str, str]], tmp_path: Path) -> None:
    """No guard anywhere: workers do without the main module; what is defined there stays here, or
    is refused."""
    output, errors = way(readme() + "\n\n" + NET + "\n\n" + LOOK, tmp_path)
    assert "Traceback" not in errors
    lines = dict(line.split(" ", 1) for line in output.splitlines() if line.split(" ")[0].isupper())
    assert lines["READY"] == "done"
    assert lines["SAME"] == "True"
    assert "one client at a time" in lines["NOTE"]
    assert "but Net is defined in" in lines["NOTE"]
    assert "cannot be sent to worker processes: Net is defined in" in lines["REFUSED"]
    assert 'under `if __name__ == "__main__":`' in lines["REFUSED"]
    where = (
        "mine.py, which would run again"
        if way is as_script
        else "a notebook or in what was typed in"
    )
    assert where in lines["NOTE"]
    assert output.count("READY") == 1


@pytest.mark.usefixtures("warm_processes")
def test_a_guarded_script_may_define_what_workers_need(tmp_path: Path) -> None:
    run = f'ff.run("fedavg", {SETTINGS}, model=Net(), '
    code = NET + (
        '\nprint("IMPORTED", flush=True)\nif __name__ == "__main__":\n'
        f"    here, there = {run}threads=1), {run}workers=1)\n"
        '    print("SAME", torch.equal(here.model.params, there.model.params))\n'
    )
    output, errors = as_script(code, tmp_path)
    assert "Traceback" not in errors
    assert output.splitlines().count("IMPORTED") == 2
    assert output.splitlines()[-1] == "SAME True"


@pytest.mark.slow
def test_modules_beside_a_script_are_found_by_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script is not in the current folder. Its workers have its `sys.path`, and the user's
    environment."""
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    check = "        assert 'PYTHONSAFEPATH' not in os.environ\n        return super().forward"
    (scripts / "beside.py").write_text(
        "import os\n" + NET.replace("        return super().forward", check)
    )
    (scripts / "mine.py").write_text(
        "import torch\nimport fedflat as ff\nimport beside\nclass Mine(beside.Net):\n    pass\n"
        'if __name__ == "__main__":\n    for Net in (beside.Net, Mine):\n'
        f'        result = ff.run("fedavg", {SETTINGS}, model=Net(), workers=1)\n'
        '        print("READY", result.status)\n'
    )
    output, errors = python(["scripts/mine.py"], tmp_path)
    assert (output, "Traceback" in errors) == ("READY done\nREADY done\n", False), errors


@pytest.mark.slow
def test_a_guard_with_a_run_outside_of_it_ends_with_the_remedy(tmp_path: Path) -> None:
    """A worker that imports the script begins no run of its own."""
    code = (
        NET
        + f'\nff.run("fedavg", {SETTINGS}, model=Net(), workers=1)\nif __name__ == "__main__":\n    pass\n'
    )
    output, errors = as_script(code, tmp_path)
    assert output == ""
    assert "SettingError: a worker process imported the script" in errors
    assert "Put it into a module of its own" in errors


def test_no_run_begins_while_a_script_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_while_importing()
    monkeypatch.setattr(mainmodule, "_importing", True)
    with pytest.raises(
        SettingError, match=r"the script began a run. Put it into a module of its own"
    ):
        ExecutionConfig()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('if __name__ == "__main__":\n    pass', True),
        ("import os\nif '__main__' == __name__: pass", True),
        ("if __name__ != '__main__':\n    pass", False),
        ("def main():\n    if __name__ == '__main__': pass", False),
        ("x = 1", False),
        ("x = (", False),
        ("\0", False),
    ],
)
def test_guards(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "mine.py").write_text(text)
    assert guarded(tmp_path / "mine.py") is expected


def test_what_is_needed_of_the_main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    exec("class Mine: pass\ndef loss(a): return a\nclass Other: pass", main.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert packed((main.Mine(), [main.loss], main.Mine)).mains == ("Mine", "loss")
    assert packed({"a": Path("x"), "how": ExecutionConfig()}).mains == ()
    assert main_module_of(()) == (None, None)
    assert main_module_of(("Mine", "loss"))[1] == (
        "Mine, loss are defined in a notebook or in what was typed in, which worker processes cannot import"
    )
    with hidden():
        assert sys.modules["__main__"] is not main
    assert sys.modules["__main__"] is main
