"""Training images before and after they get the styles of other clients."""

from __future__ import annotations

import io
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import fedflat as ff
from fedflat.analysis.analysis import Scope
from fedflat.analysis.kinds.styled import StyledAnalysis
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.cli.main import main
from fedflat.errors import SettingError
from fedflat.report import collect

ON = (
    "street(towns=2, weather='sun,night', unseen_weather='', unseen_towns=0, clients=4, examples=2, "
    "width=64, height=32, tests=4)"
)


def run(folder: Path, method: str) -> Path:
    ff.run(
        method, on=ON, model="small_unet(width=4)", rounds=1, clients_per_round=1, threads=1,
        out=folder, quiet=True, seed=3,
    )  # fmt: skip
    return folder


def pixels(picture: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(b64decode(picture)))).astype(float)


def test_colours_are_those_of_the_other_weather(tmp_path: Path) -> None:
    folder = run(tmp_path / "lab", "fedavg + lab()")
    found = StyledAnalysis(4).analyse(LoadedRun(folder), Scope(), lambda *_: None).result
    fed = LoadedRun(folder).setup.fed
    assert [one["client"] for one in found["pairs"]] == [0, 1, 2, 3]
    for one in found["pairs"]:
        before, after = pixels(one["before"]), pixels(one["after"])
        data = fed.data(one["client"])
        stored = data.examples.raw(data.index[:1]).inputs[0].permute(1, 2, 0).numpy()
        np.testing.assert_array_equal(before, stored)
        change = after.mean() - before.mean()
        assert change < -5 if "sun" in one["domain"] else change > 5, one["domain"]
    assert len({"sun" in one["domain"] for one in found["pairs"]}) == 2


def test_no_way_towards_another_image_leaves_images_as_they_are(tmp_path: Path) -> None:
    folder = run(tmp_path / "cfsi", "fedavg + cfsi(lam=0)")
    assert main(["analyse", str(folder), "--styled", "2", "--quiet"]) == 0
    [found] = collect([folder])["styled"]
    assert (found["piece"], len(found["pairs"])) == ("cfsi(lam=0)", 2)
    for one in found["pairs"]:
        np.testing.assert_allclose(pixels(one["before"]), pixels(one["after"]), atol=1)
    figures = tmp_path / "figures"
    assert main(["report", str(folder), "--figures", str(figures), "--formats", "svg"]) == 0
    assert "client 2" in (figures / "styled.svg").read_text()


def test_other_methods_have_none(tmp_path: Path) -> None:
    folder = run(tmp_path / "plain", "fedavg")
    with pytest.raises(SettingError, match="Choose a run with cfsi"):
        StyledAnalysis().analyse(LoadedRun(folder), Scope(), lambda *_: None)
