"""Predict the masks or classes of image files with the model of a run.

Images are prepared as the run's test images are. An image is resized to the size that the run is
evaluated at, and its mask is resized back. With a given `size` it is fed at that size, padded with
repeated edges until both sides are multiples of `STRIDE`, as segmentation models need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from fedflat.analysis.loaded_run import LoadedRun
from fedflat.client.piece import EvalModel, eval_model_piece
from fedflat.data.examples import AnyExamples, Examples
from fedflat.data.figures import palette
from fedflat.data.files.pictures import Picture, check_max_pixels, opened, pictures_in
from fedflat.data.on_disk import OnDisk
from fedflat.data.scenes.scenes import FrameFiles, Scenes, read_image, unframed
from fedflat.errors import MAX_PIXELS, DataError, SettingError

Pixels = NDArray[np.uint8]
OPACITY = 0.5
"""Share of the class colour in a pixel."""
MARGIN = 6
LEAST_WIDTH = 320
"""Width of the legend of a narrow photo, in pixels."""


def overlay(
    photo: Pixels,
    ids: Pixels,
    colours: Pixels,
    shares: Mapping[str, float],
    names: Sequence[str],
) -> Pixels:
    """The photo ``(h, w, 3)`` blended with the colours of ``ids``, above a legend.

    The legend has the classes that occur, the largest share first.
    """
    blended = (1 - OPACITY) * photo + OPACITY * colours[ids]
    top = np.where((ids == 255)[..., None], photo, blended.round()).astype(np.uint8)
    width = max(photo.shape[1], LEAST_WIDTH)
    legend = _legend(width, [(colours[names.index(n)], n, s) for n, s in shares.items()])
    top = np.pad(top, ((0, 0), (0, width - top.shape[1]), (0, 0)), constant_values=255)
    return np.concatenate([top, legend])


def _legend(width: int, entries: Sequence[tuple[Any, str, float]]) -> Pixels:
    """Squares in the colours of the classes, with names and shares, in as many lines as needed."""
    from PIL import Image, ImageDraw, ImageFont

    size = min(max(width // 50, 12), 40)
    font = ImageFont.load_default(size)
    texts = [f"{name} {100 * share:.1f} %" for _, name, share in entries]
    places, x, line = [], MARGIN, 0
    for text in texts:
        room = size + MARGIN + int(font.getlength(text)) + 3 * MARGIN
        if x > MARGIN and x + room > width:
            x, line = MARGIN, line + 1
        places.append((x, MARGIN + line * (size + 2 * MARGIN)))
        x += room
    height = MARGIN + (line + 1) * (size + 2 * MARGIN)
    picture = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(picture)
    for (colour, _, _), text, (x, y) in zip(entries, texts, places, strict=True):
        pen.rectangle((x, y, x + size, y + size), fill=tuple(map(int, colour)), outline="black")
        pen.text((x + size + MARGIN, y + size / 2), text, fill="black", font=font, anchor="lm")
    return np.array(picture)


Bytes = NDArray[np.uint8]
STRIDE = 32
MAX_INPUT_PIXELS = 1 << 24
"""Limit for images fed at a given size: a network stores hundreds of numbers per pixel."""
IDS, MASK, OVERLAY = ".ids.png", ".mask.png", ".overlay.png"
"""Endings of the names of written masks. Such files are not predicted again."""
OWN = (0, 0)
"""Feed each image at its own size."""


@dataclass(frozen=True)
class Prediction:
    path: Path
    shares: dict[str, float]
    """Share of each class in the mask, the largest first; or probability of each class."""
    ids: Bytes | None = None
    confidence: float = 0.0
    """Probability of the predicted class; of a mask, the mean over its pixels."""

    @property
    def first(self) -> str:
        """The class with the largest share."""
        return next(iter(self.shares))


@dataclass(frozen=True)
class Predictor:
    """Predicts masks or classes of image files with a model of a run."""

    loaded: LoadedRun
    model: str | None = None
    size: tuple[int, int] | None = None
    """Height and width that images are fed at, or `OWN`. None: as the run is evaluated."""
    max_pixels: int = MAX_PIXELS
    """Images with more pixels are refused before they are decoded."""

    def __post_init__(self) -> None:
        check_max_pixels("predict", self.max_pixels)
        task, shape = self.loaded.setup.exp.task, self.loaded.setup.fed.shape
        if not (self.segments or task.classifies):
            raise SettingError(
                f"{self.loaded.folder}: only classes and masks can be predicted, found {task}. "
                "Choose another run."
            )
        if len(shape) != 3 or shape[0] not in (1, 3) or not _are_pictures(self.examples):
            size = "x".join(map(str, shape))
            raise SettingError(
                f"{self.loaded.folder} was trained on {self.loaded.experiment.on}, whose inputs "
                f"of {size} are not images. Choose a run on images."
            )
        if self.size is not None and not self.segments:
            raise SettingError(
                "predict: classes are predicted at the size that the run is evaluated at. "
                "Leave --size out."
            )
        self.loaded.setup.job.learner.load(self.fit.model)

    @cached_property
    def fit(self) -> EvalModel:
        """The model as it is evaluated on unseen clients, without the state of any client."""
        setup, (_, model) = self.loaded.setup, self.loaded.model(self.model)
        piece = eval_model_piece(setup.job.pieces)
        return (
            EvalModel(model)
            if piece is None
            else piece.eval_model(setup.job.learner.flat.layout, model, ())
        )

    @cached_property
    def segments(self) -> bool:
        return self.loaded.setup.exp.task.segments

    @cached_property
    def examples(self) -> AnyExamples:
        """The test examples of the run. Images are prepared in the same way."""
        return self.loaded.setup.fed.test.examples

    @cached_property
    def names(self) -> list[str]:
        return class_names(self.loaded)

    @cached_property
    def colours(self) -> Bytes:
        return palette(self.names, len(self.names))

    def look(self, path: Path) -> Prediction:
        """Predict the mask or the class of an image file."""
        return self._mask(path) if self.segments else self._class(path)

    def _mask(self, path: Path) -> Prediction:
        frame = self._frame(path)
        x, own = read_image(path, frame, self.max_pixels)
        scores = self._scores(x if self.size is None else _pad(x))[
            ..., : frame.height, : frame.width
        ]
        sure = float(scores.double().softmax(0).amax(0).mean())
        ids = unframed(scores.argmax(0).to(torch.uint8).numpy(), frame, own)
        counts = np.bincount(ids.ravel(), minlength=256)[: len(self.names)]
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda place: -counts[place])
        return Prediction(
            path, {self.names[place]: float(counts[place] / ids.size) for place in order}, ids, sure
        )

    def overlay(self, seen: Prediction) -> Bytes:
        """The image with the colours of its mask on it, and a legend below."""
        assert seen.ids is not None
        with opened(seen.path, self.max_pixels) as picture:
            photo = np.asarray(picture.convert("RGB"))
        return overlay(photo, seen.ids, self.colours, seen.shares, self.names)

    def _class(self, path: Path) -> Prediction:
        channels, height, width = self.loaded.setup.fed.shape
        x = Picture(channels, (height, width), self.max_pixels)(str(path))
        probabilities = self._scores(x).double().softmax(0)
        order = probabilities.argsort(descending=True, stable=True)[: len(self.names)].tolist()
        shares = {self.names[place]: float(probabilities[place]) for place in order}
        return Prediction(path, shares, confidence=max(shares.values()))

    def _frame(self, path: Path) -> FrameFiles:
        if self.size is None:
            _, height, width = self.loaded.setup.fed.shape
            return (
                self.examples.frame
                if isinstance(self.examples, Scenes)
                else FrameFiles(height, width)
            )
        with opened(path, self.max_pixels) as picture:
            height, width = (picture.height, picture.width) if self.size == OWN else self.size
        if height * width > MAX_INPUT_PIXELS:
            raise DataError(
                f"{path}: {width}x{height} pixels are too many. Use a smaller --size, or leave it "
                "out to resize the image to the size that the run is evaluated at."
            )
        return FrameFiles(height, width)

    def _scores(self, x: Tensor) -> Tensor:
        learner = self.loaded.setup.job.learner
        # Statistics of a batch need two examples.
        places = torch.tensor([0, 0] if self.fit.batch_statistics else [0])
        batch = self.examples.like(x.unsqueeze(0)).batch(places, learner.dtype)
        inputs = learner.in_memory_format(batch.inputs.to(learner.device))
        output: Tensor = learner.flat.forward(inputs, norms=self.fit.batch_statistics)
        return output[0, : len(self.names)].cpu()


def class_names(loaded: LoadedRun) -> list[str]:
    """Return the names of the classes of a run's data, or their numbers."""
    names = loaded.experiment.on.class_names() if loaded.experiment.on is not None else ()
    return [*names, *map(str, range(len(names), loaded.setup.fed.classes))]


def pictures(places: Sequence[Path]) -> Iterator[Path]:
    """Iterate over image files and the images in folders, without written masks."""
    for place in places:
        if place.exists() and not place.is_dir():
            yield place
            continue
        if not place.is_dir():
            raise DataError(f"{place} does not exist. Give images or a folder of images.")
        images = [
            path
            for path in map(Path, pictures_in(place))
            if not path.name.endswith((IDS, MASK, OVERLAY))
        ]
        if not images:
            raise DataError(f"{place} has no images in it. Give images or a folder of images.")
        yield from images


def _are_pictures(examples: AnyExamples) -> bool:
    """True if the inputs are stored as bytes, or as floats from 0 to 1."""
    if not isinstance(examples, Examples):
        return isinstance(examples, Scenes) or (
            isinstance(examples, OnDisk) and isinstance(examples.read, Picture)
        )
    x = examples.inputs
    if not isinstance(x, Tensor):
        return False
    return x.dtype == torch.uint8 or (
        x.is_floating_point() and float(x.min()) >= 0 and float(x.max()) <= 1
    )


def _pad(x: Tensor) -> Tensor:
    """Repeat the last column and row until both sides are multiples of `STRIDE`."""
    height, width = x.shape[-2:]
    more = (0, -width % STRIDE, 0, -height % STRIDE)
    return pad(x.float().unsqueeze(0), more, mode="replicate")[0].to(x.dtype)
