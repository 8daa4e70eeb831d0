from __future__ import annotations

from pathlib import Path

import pytest

from data.miniature import write_cifar_files, write_idx_set
from fedflat.data.files import paths as places
from fedflat.data.files.paths import find, home, locate, roots, set_data_dir
from fedflat.data.sets.cifar import Cifar10
from fedflat.data.sets.mnist import FashionMnist, Mnist
from fedflat.errors import DataError

SETS = {"mnist": Mnist, "fashion_mnist": FashionMnist}
# The fixture of all tests replaces it.
cache_dir = places.cache_dir


def test_order_of_the_folders(tmp_path, monkeypatch):
    assert roots() == [tmp_path / "cache", tmp_path / "system"]
    monkeypatch.setenv("FEDFLAT_DATA", str(tmp_path / "message"))
    set_data_dir(tmp_path / "chosen")
    assert roots() == [tmp_path / name for name in ("chosen", "message", "cache", "system")]
    assert home() == tmp_path / "chosen"
    set_data_dir(None)
    monkeypatch.setenv("FEDFLAT_DATA", "")
    assert home() == tmp_path / "cache"


def test_the_first_folder_with_all_files_is_taken(tmp_path, monkeypatch):
    layout = Mnist.layout
    assert find(layout) is None
    for name in ("system", "cache", "message", "chosen"):
        write_idx_set(tmp_path / name / "mnist", 10, 10)
        monkeypatch.setenv("FEDFLAT_DATA", str(tmp_path / "message"))
        set_data_dir(tmp_path / "chosen")
        files = find(layout)
        assert files is not None
        assert [file.name for file in files] == list(layout.files)
        assert {file.parent for file in files} == {tmp_path / name / "mnist"}
    (tmp_path / "chosen" / "mnist" / layout.files[2]).unlink()
    assert find(layout)[0].parent == tmp_path / "message" / "mnist"


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "MNIST/raw"),
        ("fashion_mnist", "FashionMNIST/raw"),
        ("fashion_mnist", "fashion-mnist"),
    ],
)
def test_other_names_of_the_folder(tmp_path, name, folder):
    write_idx_set(tmp_path / "system" / folder, 10, 10, compressed=True)
    assert (
        locate(name, SETS[name].layout)[0]
        == tmp_path / "system" / folder / "train-images-idx3-ubyte.gz"
    )


def test_cifar_may_be_in_the_given_folder_itself(tmp_path):
    write_cifar_files(tmp_path / "here", "cifar10", 1)
    set_data_dir(str(tmp_path / "here"))
    assert locate("cifar10", Cifar10.layout)[-1] == tmp_path / "here" / "test_batch.bin"


def test_a_missing_set_says_where_it_was_looked_for_and_what_to_do(tmp_path):
    with pytest.raises(DataError) as caught:
        locate("cifar10", Cifar10.layout)
    text = str(caught.value)
    assert str(tmp_path / "cache" / "cifar-10-batches-bin") in text
    assert str(tmp_path / "system" / "cifar-10-batches-bin") in text
    assert "`fedflat data get cifar10`" in text
    assert "--data-dir" in text


def test_an_incomplete_set_names_the_missing_files(tmp_path):
    folder = tmp_path / "cache" / "cifar-10-batches-bin"
    write_cifar_files(folder, "cifar10", 1)
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"is there, but without data_batch_3.bin"):
        locate("cifar10", Cifar10.layout)


def test_the_cache_follows_the_platform(monkeypatch):
    monkeypatch.setattr(places.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/where")
    assert cache_dir() == Path("/some/where/fedflat")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path.home() / ".cache" / "fedflat"
    monkeypatch.setattr(places.sys, "platform", "darwin")
    assert cache_dir() == Path.home() / "Library" / "Caches" / "fedflat"
    monkeypatch.setattr(places.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert cache_dir() == Path("/local/fedflat")


def test_the_home_folder_of_an_unknown_user_does_not_exist(monkeypatch):
    monkeypatch.setenv("FEDFLAT_DATA", "~nobody-of-this-name/data")
    with pytest.raises(
        DataError, match=r"mnist is not on this machine .*~nobody-of-this-name/data"
    ):
        locate("mnist", Mnist.layout)
