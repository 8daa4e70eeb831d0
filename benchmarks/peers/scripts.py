"""Who takes part, and how each is started."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
OURS = ("bare", "fedflat")
"""Run by the interpreter that runs the driver; the peers have environments of their own."""
PEERS = ("flower", "pfl", "fedjax", "fluke", "fedlab")
TORCHRUN = {"pfl": ["-m", "torch.distributed.run", "--nproc-per-node", "2"]}
"""Those that it starts, in two processes."""


def python_of(name: str) -> Path:
    """The interpreter that runs this one."""
    return Path(sys.executable) if name in OURS else HERE / ".venvs" / name / "bin" / "python"


def command(name: str, workload: str) -> list[str]:
    """How it is started."""
    return [str(python_of(name)), *TORCHRUN.get(name, []), str(HERE / f"run_{name}.py"), workload]
