"""Whether products in bfloat16 can be made on this machine.

Some virtual machines claim matrix tiles (AMX) that they cannot run: there the first such product ends the process
without a word. So where tiles are claimed one is tried beforehand, in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from fedflat.errors import SettingError

LIMIT, WITHOUT_TILES = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
"""What tells torch's kernels not to use tiles."""
TRIAL = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"


def refuse_broken_tiles() -> None:
    """Refuse bfloat16 where it would end the process."""
    if LIMIT not in os.environ and claims_tiles() and dies(TRIAL):
        raise SettingError(
            "dtype: mixed precision makes products in bfloat16, and on this machine the first of them would end the "
            "process: its processor claims matrix tiles (AMX) that do not work, as in some virtual machines. "
            f"Set {LIMIT}={WITHOUT_TILES} in the environment, or use float32."
        )


def claims_tiles(cpus: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor says that it has tiles for bfloat16."""
    try:
        return "amx_bf16" in cpus.read_text().split()
    except OSError:
        return False


@cache
def dies(code: str) -> bool:
    """Whether Python is killed by this code.

    >>> dies("pass"), dies("raise SystemExit(2)"), dies("import os; os.abort()")
    (False, False, True)
    """
    words = [sys.executable, "-P", "-c", code]  # -P: nothing is imported from the current folder
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode < 0
