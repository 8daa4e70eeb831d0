"""Drawers as clients, from a miniature of the two files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedflat import omniglot
from fedflat.data.files.paths import set_data_dir
from fedflat.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 784), dtype=np.uint8)
ROWS = [
    (a, c, d, 3 * a + c, 2 * a + at)
    for a in range(2)
    for at, d in enumerate((1, 15, 16))
    for c in range(2)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "omniglot_small"
    folder.mkdir()
    Image.fromarray(PIXELS).save(folder / "images.png")
    lines = ["row,alphabet,character,drawer,label,client"]
    lines += [
        f"{i},A{a},character{c},{d},{label},{client}"
        for i, (a, c, d, label, client) in enumerate(ROWS)
    ]
    (folder / "index.csv").write_text("\n".join(lines) + "\n")
    set_data_dir(tmp_path)
    return folder


def test_a_client_is_a_drawer_and_others_are_for_testing(folder: Path) -> None:
    fed = omniglot(clients=4).open(0)
    assert (list(fed.sizes()), fed.shape, fed.classes) == ([2, 2, 2, 2], (1, 28, 28), 5)
    assert fed.data(3).labels.tolist() == [3, 4]
    assert fed.test.labels.tolist() == [0, 1, 3, 4]
    data = fed.data(2)
    np.testing.assert_array_equal(data.examples.inputs[data.index].reshape(2, -1), PIXELS[6:8])
    np.testing.assert_array_equal(fed.test.examples.inputs.reshape(4, -1), PIXELS[[4, 5, 10, 11]])
    assert len(omniglot(clients=2).open(1).test) == 4


def test_alphabets_are_the_known_domains(folder: Path) -> None:
    fed = omniglot(clients=4).open(0)
    assert [fed.domain(client) for client in range(4)] == [("A0",), ("A0",), ("A1",), ("A1",)]
    assert fed.test.domains is not None
    assert fed.test.domains.each == (("A0",), ("A0",), ("A1",), ("A1",))
    some = omniglot(clients=2).open(0)
    owners = [fed.data(k).labels.tolist() for k in range(4)]
    for client in range(2):
        place = owners.index(some.data(client).labels.tolist())
        assert some.domain(client) == fed.domain(place)


def test_wrong_files(folder: Path) -> None:
    (folder / "index.csv").write_text("row,drawer,label,client\n0,1,0,0\n1,16,0,0\n")
    with pytest.raises(DataError, match=r"has 12 images, and index.csv has 2 rows"):
        omniglot(clients=4).open(0)
    (folder / "index.csv").write_text("row,drawer,label\n0,1,0\n")
    with pytest.raises(DataError, match="must have the columns drawer, label and client"):
        omniglot(clients=4).open(0)
    (folder / "images.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match="must have the columns"):
        omniglot(clients=4).open(0)
    (folder / "index.csv").write_text("row,drawer,label,client\n0,1,0,0\n1,16,0,0\n")
    with pytest.raises(DataError, match=r"images.png is damaged or was cut off"):
        omniglot(clients=4).open(0)
