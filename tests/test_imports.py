"""Importing the package, and asking for help, costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "sklearn", "rich", "safetensors", "PIL", "scipy")

CASES = {
    "import": "import fedflat",
    "dir": "import fedflat; dir(fedflat); fedflat.__version__; fedflat.FedflatError",
    "help": "from fedflat.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
    "help of run": "from fedflat.cli import main\ntry: main(['run', '--help'])\nexcept SystemExit: pass",
    "help of list": "from fedflat.cli import main\ntry: main(['list', '--help'])\nexcept SystemExit: pass",
    "version": "from fedflat.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass",
    "wrong option": "from fedflat.cli import main\ntry: main(['run', 'x', '--round', '3'])\nexcept SystemExit: pass",
}


@pytest.mark.parametrize("code", CASES.values(), ids=CASES)
def test_nothing_heavy(code: str) -> None:
    check = (
        f"import sys\n{code}\nprint('LOADED', [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED []"


@pytest.mark.parametrize("kind", ["schedules", "partitions", "commands", "presets"])
def test_lists_without_torch(kind: str) -> None:
    check = f"import sys; from fedflat.cli import main; main(['list', '{kind}']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("word", ["list", "report", "table"])
def test_a_command_imports_no_other_command(word: str) -> None:
    """Nor the settings of runs, of which these commands have no options."""
    code = (
        f"import sys\nfrom fedflat.cli import main\ntry: main(['{word}', '--help'])\n"
        "except SystemExit: pass\n"
        "print(*sorted(n for n in sys.modules if n.startswith(('fedflat.cli.verbs.', 'fedflat.settings.'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"fedflat.cli.verbs.{word}"


def test_kinds_are_listed_without_making_presets() -> None:
    code = "import sys; from fedflat.cli import main; main(['list']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fedflat.papers.presets.eccv22" not in done.stdout.splitlines()[-1].split()


def test_data_sets_and_runs_import_what_they_need() -> None:
    """Not scikit-learn: its digits and diabetes are read from its files, which is faster than
    importing it. No other executor imports Ray."""
    code = (
        "import fedflat, sys\n"
        "from fedflat.registry.specs import registered\n"
        "fedflat.digits(clients=5).open(0)\n"
        "fedflat.diabetes(clients=5).open(0)\n"
        "assert list(registered('data set'))\n"
        "print(*{'torch', 'sklearn', 'PIL'} & set(sys.modules))\n"
        "fedflat.run('fedavg', on='digits(lda(0), clients=12)', rounds=1, quiet=True)\n"
        "assert 'ray' in [one.name for one in registered('executor')]\n"
        "print('ray' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "torch\nFalse\n"
