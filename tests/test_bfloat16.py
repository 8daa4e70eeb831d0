"""Mixed precision is refused where bfloat16 would end the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedflat.cli import main
from fedflat.engine import bfloat16
from fedflat.engine.bfloat16 import WITHOUT_TILES, claims_tiles, refuse_broken_tiles
from fedflat.errors import SettingError

ABORT = "import os; os.abort()"
RUN = ["run", "fedavg", "--on", "digits", "--rounds", "1", "--clients-per-round", "1", "--executor", "in-process"]


def test_what_a_processor_claims(tmp_path: Path) -> None:
    cpus = tmp_path / "cpuinfo"
    cpus.write_text("flags\t\t: fpu avx512_bf16 amx_tile amx_bf16\n")
    assert claims_tiles(cpus)
    cpus.write_text("flags\t\t: fpu avx512_bf16\n")
    assert not claims_tiles(cpus)
    assert not claims_tiles(tmp_path / "none")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A machine that claims tiles or not, runs them or not, and was told not to use them or not.

    By a variable of another name: torch reads its own once, in this process too.
    """

    def make(*, claims: bool, trial: str, limited: bool = False) -> None:
        monkeypatch.setattr(bfloat16, "claims_tiles", lambda: claims)
        monkeypatch.setattr(bfloat16, "TRIAL", trial)
        monkeypatch.setattr(bfloat16, "LIMIT", "A_LIMIT")
        if limited:
            monkeypatch.setenv("A_LIMIT", WITHOUT_TILES)

    return make


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("trial", ["pass", ABORT])
@pytest.mark.parametrize("limited", [False, True])
def test_only_broken_tiles_are_refused(claims: bool, trial: str, limited: bool, machine: Callable[..., None]) -> None:
    machine(claims=claims, trial=trial, limited=limited)
    if claims and trial == ABORT and not limited:
        with pytest.raises(SettingError, match=f"Set A_LIMIT={WITHOUT_TILES} in the environment, or use float32"):
            refuse_broken_tiles()
    else:
        refuse_broken_tiles()


def test_a_run_in_mixed_precision_is_refused_and_one_in_float32_is_not(
    tmp_path: Path, machine: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    machine(claims=True, trial=ABORT)
    assert main([*RUN, "--dtype", "mixed", "--out", str(tmp_path / "mixed")]) == 2
    assert "would end the process" in capsys.readouterr().err
    assert main([*RUN, "--out", str(tmp_path / "single")]) == 0
