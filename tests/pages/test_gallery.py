"""The scripts of the gallery run and draw their figures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("*.py"))


def test_there_are_eight_with_their_figures() -> None:
    assert len(SCRIPTS) >= 8
    assert {path.stem for path in SCRIPTS} == {path.stem for path in GALLERY.glob("*.png")}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_it_draws_its_figure(script: Path, tmp_path: Path) -> None:
    """The figure has the size of the one on the site and is no empty picture."""
    drawn = tmp_path / "figure.png"
    done = subprocess.run(
        [sys.executable, str(script), str(drawn)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with Image.open(drawn) as made, Image.open(script.with_suffix(".png")) as kept:
        assert made.size == kept.size
        assert len(np.unique(np.asarray(made.convert("L")))) > 20
