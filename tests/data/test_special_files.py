"""Named pipes, devices and huge images among data files: an error that names the file, at once;
EXIF orientation."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import fedflat as ff
from data.scenes import streets
from experiments.small import FEDFLAT
from fedflat.cli.main import main
from fedflat.data.files.formats import read_cifar, read_idx, read_leaf
from fedflat.data.files.paths import set_data_dir
from fedflat.data.files.pictures import Picture, opened
from fedflat.data.scenes.classes import Ids
from fedflat.data.scenes.scenes import FrameFiles, read_image, read_scene, whole_mask
from fedflat.data.sets.omniglot import Omniglot
from fedflat.data.sets.shakespeare import Shakespeare
from fedflat.data.sets.stackoverflow import vocabulary
from fedflat.errors import DataError, FedflatError, SettingError
from fedflat.papers.reproduce.table_file import read_table
from fedflat.registry.specs import parse

IDS = Ids(tuple(range(256)))
FRAME = FrameFiles(6, 8)


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """A reader that waits for a pipe fails, in place of the whole suite."""

    def fail(number: int, frame: object) -> None:
        raise AssertionError("the reader waits")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(os.devnull)


def photo(path: Path) -> Path:
    Image.new("RGB", (8, 6)).save(path)
    return path


READERS: dict[str, Callable[[Path], object]] = {
    "a.png": lambda path: Picture()(str(path)),
    "image.png": lambda path: read_scene(path, None, IDS, FRAME),
    "mask.png": lambda path: read_scene(photo(path.parent / "photo.png"), path, IDS, FRAME),
    "labels.png": lambda path: whole_mask(path, IDS),
    "leaf.json": lambda path: list(read_leaf(path.parent)),
    "images-idx3-ubyte": lambda path: read_idx(path, 3),
    "images-idx3-ubyte.gz": lambda path: read_idx(path, 3),
    "index.csv": lambda path: Omniglot.read([path.parent, path]),
    "plays.jsonl": lambda path: Shakespeare.read([path]),
    "plays.jsonl.gz": lambda path: Shakespeare.read([path]),
    "words": lambda path: vocabulary(path, 10, 0),
    "split.json": lambda path: ff.digits(ff.from_file(str(path)), clients=2).open(0),
    "table.toml": lambda path: read_table(path, "mine"),
    "devices.json": lambda path: ff.run(
        "fedavg",
        on="digits(clients=2)",
        rounds=1,
        clients_per_round=2,
        clock=f"measured('{path}')",
        quiet=True,
    ),
}
"""Everything that reads a file of the user, by the file's name."""


@pytest.mark.parametrize("kind", [pipe, device])
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_refused(
    tmp_path: Path, name: str, kind: Callable[[Path], None]
) -> None:
    kind(tmp_path / name)
    with pytest.raises(
        FedflatError, match=r"it is (a named pipe|a device), not a file|it is a link"
    ) as found:
        READERS[name](tmp_path / name)
    assert name in str(found.value)


@pytest.mark.parametrize("kind", [pipe, device])
def test_cifar_of_no_files(tmp_path: Path, kind: Callable[[Path], None]) -> None:
    """Which have no records."""
    kind(tmp_path / "a.bin")
    with pytest.raises(DataError, match=r"a\.bin must be a whole number of records"):
        read_cifar([tmp_path / "a.bin"], tmp_path / "a.bin", 10)


@pytest.mark.parametrize("name", READERS)
def test_links_to_files_are_followed(tmp_path: Path, name: str) -> None:
    """Data sets are often folders of links. (The file of a clock must not be one.)"""
    (tmp_path / "elsewhere").write_bytes(b"\xff")
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FedflatError) as found:
        READERS[name](tmp_path / name)
    assert ("it is a link" in str(found.value)) is (name == "devices.json")


@pytest.mark.parametrize("kind", [pipe, device])
@pytest.mark.parametrize(
    ("on", "make", "name"),
    [
        (
            "camvid(clients=1)",
            lambda root: streets.camvid(root, {"0001TP": (1, 1), "0006R0": (3, 1)}),
            "index.csv",
        ),
        (
            "mapillary(size=[6, 8])",
            lambda root: streets.mapillary(root, {"Europe": 17}),
            "places.csv",
        ),
    ],
)
def test_an_index_that_is_no_file(
    tmp_path: Path, on: str, make: Callable[[Path], object], name: str, kind: Callable[[Path], None]
) -> None:
    make(tmp_path)
    set_data_dir(tmp_path)
    [path] = tmp_path.rglob(name)
    kind(path)
    with pytest.raises(DataError, match=rf"{name}.*not a file"):
        parse(on, "data set").open(0)


def test_a_replay_that_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe(tmp_path / "replay.json")
    words = [
        "run",
        "fedavg",
        "--on",
        "digits(clients=2)",
        "--replay",
        str(tmp_path / "replay.json"),
        "--quiet",
    ]
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    assert f"--replay {tmp_path}/replay.json: cannot be read" in capsys.readouterr().err


@pytest.mark.usefixtures("warm_processes")
def test_a_pipe_in_a_folder_of_pictures(tmp_path: Path) -> None:
    """By the threads that read ahead, too; in a process that is killed if it waits."""
    for place in range(10):
        (tmp_path / "data" / "a").mkdir(parents=True, exist_ok=True)
        photo(tmp_path / "data" / "a" / f"{place}.png")
    pipe(tmp_path / "data" / "a" / "3.png")
    words = [
        "run",
        "fedavg",
        "--on",
        f"image_folder('{tmp_path / 'data'}', clients=2)",
        "--model",
        "logistic",
    ]
    words += [
        "--rounds",
        "1",
        "--clients-per-round",
        "2",
        "--threads",
        "1",
        "--quiet",
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(
        [FEDFLAT, *words], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 2
    assert "3.png cannot be read: it is a named pipe, not a file" in done.stderr


def bomb(path: Path, width: int = 13_000, height: int = 13_000) -> Path:
    """A PNG file with a header and nothing behind it: decoding it fails."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(b"")
    chunks = (
        struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part))
        for part in (head, data)
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    return path


PICTURES: dict[str, Callable[[Path], object]] = {
    "picture": lambda path: Picture()(str(path)),
    "image": lambda path: read_image(path, FRAME),
    "mask": lambda path: read_scene(photo(path.parent / "photo.png"), path, IDS, FRAME),
    "labels": lambda path: whole_mask(path, IDS),
    "omniglot": lambda path: Omniglot.read([path, _index(path)]),
}


def _index(path: Path) -> Path:
    (path.parent / "index.csv").write_text("row,drawer,label,client\n0,1,0,0\n")
    return path.parent / "index.csv"


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("side", [13_000, 100_000])
def test_too_many_pixels_are_not_decoded(tmp_path: Path, name: str, side: int) -> None:
    """One limit for all, below and above that of Pillow; no warning of Pillow's, which is an error
    here."""
    path = bomb(tmp_path / "large.png", side, side)
    with pytest.raises(
        DataError, match=rf"large\.png has {side}x{side} pixels, and at most 67,108,864 are read"
    ):
        PICTURES[name](path)


def test_more_pixels_may_be_allowed(tmp_path: Path) -> None:
    """Beyond the limit of Pillow, which stays as it was."""
    before = Image.MAX_IMAGE_PIXELS
    Image.new("1", (40_000, 5_000)).save(tmp_path / "wide.png")
    with (
        pytest.raises(DataError, match="max_pixels=200000000 in the data set"),
        opened(tmp_path / "wide.png", 2**26),
    ):
        pass
    with opened(tmp_path / "wide.png", 200_000_000) as image:
        assert image.size == (40_000, 5_000)
    assert before == Image.MAX_IMAGE_PIXELS


def test_data_sets_take_the_limit(tmp_path: Path) -> None:
    for place in range(10):
        (tmp_path / "data" / "a").mkdir(parents=True, exist_ok=True)
        photo(tmp_path / "data" / "a" / f"{place}.png")
    folder = str(tmp_path / "data")
    assert ff.image_folder(folder, clients=2, max_pixels=48).open(0).shape == (3, 6, 8)
    with pytest.raises(DataError, match=r"8x6 pixels, and at most 47 are read.*max_pixels=48"):
        _ = ff.image_folder(folder, clients=2, max_pixels=47).open(0).shape
    streets.cityscapes(tmp_path, {"aachen": 2, "bremen": 2}, {"ulm": 1})
    set_data_dir(tmp_path)
    for limit in (47, 48):
        fed = parse(
            f"cityscapes(clients=1, size=[6, 8], augment=False, max_pixels={limit})", "data set"
        ).open(0)
        assert fed.test.examples.max_pixels == limit
        if limit == 48:
            fed.test.batch(torch.arange(1), torch.float32)
        else:
            with pytest.raises(DataError, match="at most 47 are read"):
                fed.test.batch(torch.arange(1), torch.float32)
    for limit in (0, 1.5, "many"):
        with pytest.raises(SettingError, match="max_pixels"):
            ff.image_folder(folder, max_pixels=limit)  # type: ignore[arg-type]


def turned(path: Path, pixels: np.ndarray, orientation: int = 6) -> Path:
    """A file whose pixels are stored a quarter turn to the left, with the EXIF tag that says so."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).transpose(Image.Transpose.ROTATE_90).save(path, exif=exif)
    return path


def test_photos_and_masks_are_turned_as_their_exif_data_say(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    photo, mask = (
        rng.integers(256, size=(6, 8, 3), dtype=np.uint8),
        rng.integers(19, size=(6, 8), dtype=np.uint8),
    )
    stored = turned(tmp_path / "photo.png", photo)
    assert Picture()(str(stored)).permute(1, 2, 0).tolist() == photo.tolist()
    x, size = read_image(stored, FRAME)
    assert (x.permute(1, 2, 0).tolist(), size) == (photo.tolist(), (6, 8))
    Image.fromarray(mask).save(tmp_path / "mask.png")
    for path in (tmp_path / "mask.png", turned(tmp_path / "turned.png", mask)):
        assert read_scene(stored, path, IDS, FRAME)[1].tolist() == mask.tolist()
        assert whole_mask(path, IDS).tolist() == mask.tolist()


def test_exif_data_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(256, size=(6, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=b"Exif\0\0no TIFF header at all")
    assert Picture()(str(tmp_path / "a.png")).permute(1, 2, 0).tolist() == pixels.tolist()


def test_large_files_take_little_memory(tmp_path: Path) -> None:
    """A process that may not take 1 GB more refuses 169 million pixels in 20 kB."""
    Image.new("1", (13_000, 13_000)).save(tmp_path / "large.png")
    script = (
        "import resource, sys\nfrom fedflat.data.files.pictures import Picture\nimport PIL.Image, numpy, torch\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    Picture()(sys.argv[1])\nexcept ValueError as error:\n    print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "large.png")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=50, check=True)
    output, kilobytes = done.stdout.splitlines()
    assert "13000x13000 pixels" in output
    assert int(kilobytes) < 50_000
