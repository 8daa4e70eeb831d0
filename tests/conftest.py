"""What every test runs with."""

from __future__ import annotations

import os

# Some virtual machines claim matrix tiles (AMX) that they cannot run: tests of bfloat16 would end their process there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
