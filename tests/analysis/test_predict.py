"""``fedflat predict``: masks and classes of image files, against plain PyTorch on the same
pixels."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import fedflat
from experiments.small import FEDFLAT
from fedflat.cli.main import main
from fedflat.data.scenes.scenes import FrameFiles, unframed

ON = (
    "street(towns=1, weather='sun', unseen_weather='', unseen_towns=0, clients=2, examples=3, width=64, height=32, "
    "tests=2)"
)
QUICK: dict[str, Any] = {"rounds": 2, "clients_per_round": 2, "threads": 1}
MEAN, STD = [0.45, 0.46, 0.48], [0.25, 0.25, 0.26]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of pixels."""
    folder = tmp_path_factory.mktemp("runs") / "street"
    fedflat.run(
        "fedavg + swa(start=0.0)", on=ON, model="small_unet(width=4)", lr=0.5, out=folder, **QUICK
    )
    return folder


def photo(path: Path, height: int = 32, width: int = 64, seed: int = 0) -> np.ndarray:
    pixels = np.random.default_rng(seed).integers(
        256, size=(height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8
    )
    image = Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)
    image.save(path)
    return np.asarray(image)


def by_hand(run: Path, pixels: np.ndarray, model: str | None = None) -> torch.Tensor:
    """Class scores ``(C, h, w)`` of the run's module, the colours normalised by the numbers of the
    data set."""
    x = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
    x = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    with torch.no_grad():
        return fedflat.load(run, model=model)(x[None])[0]


def ids(path: Path) -> np.ndarray:
    image = Image.open(path)
    assert image.mode == "L"
    return np.asarray(image)


def test_masks_are_what_the_module_says(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the picture, in two files: numbers, and the same as places in a palette of Cityscapes'
    colours."""
    pixels = photo(tmp_path / "a.png")
    assert main(["predict", str(run), str(tmp_path / "a.png")]) == 0
    assert ids(tmp_path / "a.ids.png").tolist() == by_hand(run, pixels).argmax(0).tolist()
    mask = Image.open(tmp_path / "a.mask.png")
    assert np.asarray(mask).tolist() == ids(tmp_path / "a.ids.png").tolist()
    assert mask.getpalette()[:6] == [128, 64, 128, 244, 35, 232]  # road and pavement
    output = capsys.readouterr().out
    assert output.startswith(f"{tmp_path}/a.mask.png: ")
    names, counts = np.unique(ids(tmp_path / "a.ids.png"), return_counts=True)
    known = ("road", "pavement", "building", "pole", "sign", "green", "sky", "person", "car")
    assert (
        f"{known[names[counts.argmax()]]} {100 * counts.max() / mask.width / mask.height:.1f} %"
        in output
    )


def test_another_size_is_stretched_and_the_mask_stretched_back(run: Path, tmp_path: Path) -> None:
    photo(tmp_path / "a.png", 100, 90)
    assert main(["predict", str(run), str(tmp_path / "a.png"), "--out", str(tmp_path / "out")]) == 0
    small = Image.open(tmp_path / "a.png").resize((64, 32), Image.Resampling.BICUBIC)
    expected = by_hand(run, np.asarray(small)).argmax(0).to(torch.uint8).numpy()
    large = Image.fromarray(expected).resize((90, 100), Image.Resampling.NEAREST)
    assert ids(tmp_path / "out" / "a.ids.png").tolist() == np.asarray(large).tolist()


@pytest.mark.parametrize(("message", "height", "width"), [("own", 41, 70), ("64x32", 64, 32)])
def test_a_size_of_ones_own_is_filled_up(
    run: Path, tmp_path: Path, message: str, height: int, width: int
) -> None:
    """With its last row and column, to multiples of 32."""
    photo(tmp_path / "a.png", 41, 70)
    assert main(["predict", str(run), str(tmp_path / "a.png"), "--size", message]) == 0
    pixels = np.asarray(
        Image.open(tmp_path / "a.png").resize((width, height), Image.Resampling.BICUBIC)
    )
    whole = np.pad(pixels, [(0, -height % 32), (0, -width % 32), (0, 0)], mode="edge")
    expected = by_hand(run, whole)[:, :height, :width].argmax(0).to(torch.uint8).numpy()
    expected = np.asarray(Image.fromarray(expected).resize((70, 41), Image.Resampling.NEAREST))
    assert ids(tmp_path / "a.ids.png").tolist() == expected.tolist()


def test_any_model_of_the_run(run: Path, tmp_path: Path) -> None:
    pixels = photo(tmp_path / "a.png")
    made = {}
    for model in ("server", "swa"):
        words = [
            "predict",
            str(run),
            str(tmp_path / "a.png"),
            "--model",
            model,
            "--out",
            str(tmp_path / model),
        ]
        assert main(words) == 0
        made[model] = ids(tmp_path / model / "a.ids.png").tolist()
        assert made[model] == by_hand(run, pixels, model).argmax(0).tolist()
    assert made["server"] != made["swa"]


def test_a_frame_that_keeps_the_shape_is_undone() -> None:
    """Rows that were cut away are ignored, rows that were added go."""
    mask = np.arange(8, dtype=np.uint8).reshape(4, 2)
    assert unframed(mask, FrameFiles(4, 2, keep=True), (6, 2)).tolist() == [
        [255] * 2,
        *mask.tolist(),
        [255] * 2,
    ]
    assert unframed(mask, FrameFiles(4, 2, keep=True), (2, 2)).tolist() == mask[1:3].tolist()
    assert (
        unframed(mask, FrameFiles(4, 2, keep=True), (4, 4)).tolist()
        == np.repeat(mask[1:3], 2, 0).repeat(2, 1).tolist()
    )


def test_classes_and_their_probabilities(
    classes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As text, as CSV, as JSON: the largest of the softmax."""
    test = fedflat.digits(clients=10).open(0).test
    x = (test.batch(torch.arange(3), torch.float32).inputs * 255).round() / 255
    for place in range(3):
        Image.fromarray((x[place, 0] * 255).round().byte().numpy()).save(tmp_path / f"{place}.png")
    with torch.no_grad():
        saved = fedflat.load(classes)(x).softmax(1)
    assert main(["predict", str(classes), str(tmp_path)]) == 0
    lines = [
        f"{tmp_path}/{i}.png: {int(saved[i].argmax())} ({100 * saved[i].max():.1f} %)"
        for i in range(3)
    ]
    assert capsys.readouterr().out.splitlines() == lines
    assert main(["predict", str(classes), str(tmp_path), "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["class"], row["number"]) for row in rows] == [
        (str(int(row.argmax())),) * 2 for row in saved
    ]
    assert main(["predict", str(classes), str(tmp_path), "--json"]) == 0
    found = [row["probability"] for row in json.loads(capsys.readouterr().out)]
    assert found == pytest.approx(saved.max(1).values.tolist(), abs=2e-6)


def test_classes_of_a_folder_go_by_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, light in (("day", 200), ("night", 20)):
        (tmp_path / "data" / kind).mkdir(parents=True)
        for place in range(10):
            Image.new("RGB", (8, 8), (light + place,) * 3).save(
                tmp_path / "data" / kind / f"{place}.png"
            )
    on = f"image_folder('{tmp_path / 'data'}', clients=2)"
    fedflat.run(
        "fedavg", on=on, model="logistic", lr=0.1, local_epochs=20, out=tmp_path / "run", **QUICK
    )
    Image.new("RGB", (30, 20), (210, 210, 210)).save(tmp_path / "bright.png")
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "bright.png"), "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"{tmp_path}/bright.png,day,0,")


def test_one_bad_picture_does_not_end_the_others(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Palettes and greys are colours; 16 bits and truncated files are reported; what was written is
    not looked at again."""
    pixels = photo(tmp_path / "good.png")
    Image.open(tmp_path / "good.png").quantize(16).save(tmp_path / "places.png")
    Image.open(tmp_path / "good.png").convert("L").save(tmp_path / "grey.png")
    Image.fromarray(np.zeros((32, 64), np.uint16)).save(tmp_path / "deep.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "good.png").read_bytes()[:300])
    (tmp_path / "text.png").write_text("no picture")
    for again in ([], ["--overwrite"]):
        assert main(["predict", str(run), str(tmp_path), *again]) == 2
        output = capsys.readouterr()
        assert [line.split("/")[-1].split(":")[0] for line in output.out.splitlines()] == [
            "good.mask.png",
            "grey.mask.png",
            "places.mask.png",
        ]
        wrong = output.err.splitlines()
        assert [
            " ".join(line.removeprefix(f"fedflat: error: {tmp_path}/").split()[:4])
            for line in wrong
        ] == ["cut.png is damaged or", "deep.png has 16 bits", "text.png is damaged or"]
    colours = np.asarray(Image.open(tmp_path / "places.png").convert("RGB"))
    assert ids(tmp_path / "places.ids.png").tolist() == by_hand(run, colours).argmax(0).tolist()
    grey = np.repeat(np.asarray(Image.open(tmp_path / "grey.png"))[..., None], 3, 2)
    assert ids(tmp_path / "grey.ids.png").tolist() == by_hand(run, grey).argmax(0).tolist()
    assert ids(tmp_path / "good.ids.png").tolist() == by_hand(run, pixels).argmax(0).tolist()


def test_what_cannot_be_predicted_is_reported(
    run: Path, classes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo(tmp_path / "a.png")
    (tmp_path / "b").mkdir()
    photo(tmp_path / "b" / "a.jpg")
    (tmp_path / "empty").mkdir()
    a, out = str(tmp_path / "a.png"), str(tmp_path / "out")
    fedflat.run(
        "fedavg",
        on="sayings(clients=3)",
        model="char_lstm(hidden=8)",
        out=tmp_path / "text",
        **QUICK,
    )
    for words, sentence in (
        ([str(tmp_path / "nowhere"), a], "nowhere is not a run folder: it has no run.json"),
        ([str(run), str(tmp_path / "no.png")], "no.png does not exist"),
        ([str(run), str(tmp_path / "empty")], "empty has no images in it"),
        ([str(run), a, "--model", "sva"], "has no model 'sva', only server, swa"),
        ([str(run), a, str(tmp_path / "b"), "--out", out], "would both be"),
        ([str(classes), a, "--size", "own"], "Leave --size out"),
        ([str(run), a, "--size", "9000x9000"], "9000x9000 pixels are too many"),
        ([str(tmp_path / "text"), a], "only classes and masks can be predicted"),
        ([str(run), a, "--out", a], "could not be written"),
    ):
        assert main(["predict", *words]) == 2
        assert sentence in capsys.readouterr().err


def test_files_that_exist_are_not_replaced(
    run: Path, classes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even one is written then; `--overwrite` replaces them; a link is replaced, not
    followed."""
    photo(tmp_path / "a.png")
    photo(tmp_path / "b.png", seed=1)
    (tmp_path / "b.mask.png").write_text("made by hand")
    command = ["predict", str(run), str(tmp_path / "a.png"), str(tmp_path / "b.png")]
    assert main(command) == 2
    output = capsys.readouterr()
    assert (
        f"1 of the 6 files to write exist, the first is {tmp_path}/b.mask.png. Nothing was predicted"
        in output.err
    )
    assert "--overwrite" in output.err
    assert output.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.mask.png", "b.png"]
    assert (tmp_path / "b.mask.png").read_text() == "made by hand"
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    assert main([*command, "--out", str(tmp_path / "out")]) == 2  # the same command again
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "a.ids.png").symlink_to(tmp_path / "kept")
    assert main(command) == 2
    assert main([*command, "--overwrite"]) == 0
    assert (tmp_path / "kept").read_text() == "kept"
    for name in ("a.ids.png", "a.mask.png", "b.mask.png", "b.overlay.png"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
        assert not (tmp_path / name).is_symlink()
    assert (
        main(["predict", str(classes), *command[2:]]) == 0
    )  # a class is printed, no file is written


def test_a_picture_to_predict_is_never_replaced(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo(tmp_path / "a.png")
    photo(tmp_path / "a.mask.png", seed=1)
    before = (tmp_path / "a.mask.png").read_bytes()
    words = [str(tmp_path / "a.png"), str(tmp_path / "a.mask.png"), "--overwrite"]
    assert main(["predict", str(run), *words]) == 2
    assert "a.mask.png would replace an image to predict" in capsys.readouterr().err
    assert (tmp_path / "a.mask.png").read_bytes() == before


@pytest.mark.slow
def test_a_picture_of_too_many_pixels_is_refused(run: Path, classes: Path, tmp_path: Path) -> None:
    """By its header, before it takes memory: 169 million pixels in 20 kB."""
    Image.new("1", (13_000, 13_000)).save(tmp_path / "large.png")
    assert (tmp_path / "large.png").stat().st_size < 30_000
    for folder in (run, classes):
        done = apart("predict", str(folder), str(tmp_path / "large.png"))
        assert (done.returncode, done.stdout) == (2, "")
        assert "large.png has 13000x13000 pixels, and at most 67,108,864 are read" in done.stderr
        assert "--max-pixels 169000000" in done.stderr
        assert "Warning" not in done.stderr


def test_the_limit_of_pixels_can_be_changed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo(tmp_path / "a.png")
    for pixels, status in (("2047", 2), ("2048", 0)):
        assert (
            main(["predict", str(run), str(tmp_path / "a.png"), "--max-pixels", pixels]) == status
        )
    assert "a.png has 64x32 pixels, and at most 2,047 are read" in capsys.readouterr().err
    assert (
        main(["predict", str(run), str(tmp_path / "a.png"), "--max-pixels", "0", "--overwrite"])
        == 2
    )
    assert "max_pixels" in capsys.readouterr().err


def test_a_photo_is_turned_as_its_exif_data_say(run: Path, tmp_path: Path) -> None:
    """Orientation 6: the camera was held upright, and the rows of the file are the columns of the
    scene."""
    upright = photo(tmp_path / "upright.png", 40, 70)
    stored = Image.fromarray(upright).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    stored.save(tmp_path / "turned.png", exif=exif)
    assert stored.size == (40, 70)
    for size in ([], ["--size", "own"]):
        assert main(["predict", str(run), str(tmp_path / "upright.png"), *size, "--overwrite"]) == 0
        assert main(["predict", str(run), str(tmp_path / "turned.png"), *size, "--overwrite"]) == 0
        assert ids(tmp_path / "turned.ids.png").shape == (40, 70)
        assert (
            ids(tmp_path / "turned.ids.png").tolist() == ids(tmp_path / "upright.ids.png").tolist()
        )


@pytest.mark.slow
def test_a_named_pipe_or_a_device_is_no_picture(run: Path, tmp_path: Path) -> None:
    """In a folder or named: an error each, and the others are predicted."""
    photo(tmp_path / "a.png")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    for words in (
        [str(tmp_path)],
        [str(tmp_path / name) for name in ("a.png", "pipe.png", "zero.png")],
    ):
        done = apart("predict", str(run), *words, "--overwrite")
        assert done.returncode == 2
        assert done.stdout.startswith(f"{tmp_path}/a.mask.png: ")
        assert f"{tmp_path}/pipe.png cannot be read: it is a named pipe, not a file" in done.stderr
        assert f"{tmp_path}/zero.png cannot be read: it is a device, not a file" in done.stderr


def apart(*words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, which is killed if it does not end."""
    return subprocess.run(
        [FEDFLAT, *words], capture_output=True, text=True, timeout=120, check=False
    )


def test_an_image_of_no_client_is_normalised_by_its_own_statistics(tmp_path: Path) -> None:
    """Where clients keep their statistics, a picture is of a domain that no client has seen."""
    out = tmp_path / "run"
    fedflat.run(
        "fedavg + silobn", on=ON, model="bisenetv2(width=0.125)", batch_size=3, out=out, **QUICK
    )
    pixels = photo(tmp_path / "a.png")
    assert main(["predict", str(out), str(tmp_path / "a.png")]) == 0
    x = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
    x = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    module = fedflat.load(out)
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.train()
    with torch.no_grad():
        expected = module(torch.stack([x, x]))[0].argmax(0)
    same = ids(tmp_path / "a.ids.png") == expected.numpy()
    assert same.mean() > 0.999


def test_an_overlay_has_the_photo_the_colours_and_a_legend(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of each pixel is the colour of its class; squares below have the colours of classes."""
    pixels = photo(tmp_path / "a.png")
    assert main(["predict", str(run), str(tmp_path / "a.png"), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    drawn = np.asarray(Image.open(tmp_path / "a.overlay.png").convert("RGB"))
    colours = np.asarray(Image.open(tmp_path / "a.mask.png").convert("RGB"))
    expected = (pixels.astype(int) + colours) / 2
    assert np.abs(drawn[:32, :64] - expected).max() <= 0.5
    assert (drawn[:32, 64:] == 255).all()  # the legend is wider than this photo
    legend = {tuple(pixel) for pixel in drawn[32:].reshape(-1, 3).tolist()}
    assert {tuple(pixel) for pixel in colours.reshape(-1, 3).tolist()} <= legend
    confidence = float(by_hand(run, pixels).softmax(0).amax(0).mean())
    assert row["confidence"] == pytest.approx(confidence, abs=1e-5)
    assert row["overlay"] == str(tmp_path / "a.overlay.png")


def test_a_run_with_an_own_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On class folders, by name of the file and of the class."""
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for k in range(5):
            photo(tmp_path / "pets" / name / f"{k}.png", 8, 8, seed=k)
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.LazyLinear(2))\n"
    )
    net = partial(nn.Sequential, nn.Flatten(), nn.LazyLinear(2))
    folder = tmp_path / "run"
    fedflat.run(
        "fedavg",
        on=f"image_folder({str(tmp_path / 'pets')!r}, clients=2)",
        model=net,
        out=folder,
        **QUICK,
    )
    words = ["predict", str(folder), str(tmp_path / "pets" / "cat"), "--json"]
    assert main(words) == 2
    assert "--module FILE:NAME" in capsys.readouterr().err
    assert main([*words, "--module", f"{tmp_path / 'nets.py'}:net"]) == 0
    rows = json.loads(capsys.readouterr().out)
    for k, row in enumerate(rows):
        image = np.asarray(Image.open(tmp_path / "pets" / "cat" / f"{k}.png"))
        x = torch.from_numpy(image.copy()).permute(2, 0, 1).float() / 255
        with torch.no_grad():
            chances = fedflat.load(folder, module=net)(x[None])[0].softmax(0)
        assert row["class"] == ("cat", "dog")[int(chances.argmax())]
        assert row["probability"] == pytest.approx(float(chances.max()), abs=1e-5)
    assert len(rows) == 5
