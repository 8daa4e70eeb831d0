"""A data set is one file: its name, download, listing and public name follow from it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

import fedflat.data.sets
from data.miniature import idx
from fedflat import public
from fedflat.data.files.fetch import entries, get
from fedflat.data.files.paths import set_data_dir
from fedflat.registry import builtin_modules as homes
from fedflat.registry import specs as spelling

FILE = '''
from dataclasses import dataclass
import hashlib
from pathlib import Path

import torch

from fedflat.data.files.formats import read_idx
from fedflat.data.files.paths import FileLayout
from fedflat.data.files.sources import files
from fedflat.data.named_set import FileSet
from fedflat.data.named_set import RawSet
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class Shapes(FileSet):
    """Squares and others."""

    layout = FileLayout(("shapes",), ("images", "labels"))
    sources = (files(URL, {"images": IMAGES, "labels": LABELS}),)
    counts = (6, 2)

    @classmethod
    def read(cls, files):
        images, labels = read_idx(files[0], 3), read_idx(files[1], 1)
        return RawSet(torch.tensor(images).unsqueeze(1), torch.tensor(labels).long(), 6, 2)


shapes = register("data set", "shapes")(Shapes)
'''


@pytest.fixture
def shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The set's module in the package, and its files where it says; its images."""
    images = np.arange(8 * 4).reshape(8, 2, 2)
    written = {"images": idx(images), "labels": idx(np.arange(8) % 2)}
    text = FILE.replace("URL", repr(f"{tmp_path.as_uri()}/"))
    for name, data in written.items():
        (tmp_path / name).write_bytes(data)
        text = text.replace(name.upper(), repr(md5(data)))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "shapes.py").write_text(text)
    monkeypatch.setattr(
        fedflat.data.sets, "__path__", [*fedflat.data.sets.__path__, str(tmp_path / "more")]
    )
    homes.import_all()  # what is registered from here on is forgotten afterwards
    monkeypatch.setattr(spelling, "_REGISTRY", dict(spelling._REGISTRY))
    homes.import_homes.cache_clear()
    return images


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def test_a_module_in_the_folder_is_a_data_set(shapes: np.ndarray, tmp_path: Path) -> None:
    assert {info.name: info.advice for info in entries()}["shapes"] == "fedflat data get shapes"
    assert get("shapes", tmp_path / "to", lambda text: None) == tmp_path / "to" / "shapes"
    set_data_dir(tmp_path / "to")
    fed = spelling.parse("shapes(lda(0.5), clients=2)", "data set").open(0)
    assert (fed.population, fed.shape, fed.classes) == (2, (1, 2, 2), 2)
    np.testing.assert_array_equal(fed.test.examples.inputs[:, 0], shapes[6:])
    assert '    "shapes": "fedflat.data.sets.shapes",' in public.exports_text().splitlines()
    assert "from fedflat.data.sets.shapes import shapes as shapes" in public.stub().splitlines()
