"""What a run's model makes of pictures in files: a mask of classes, or a class, prepared as the
run's test images are.

A picture is brought to the size that the run is tested at, and its mask back to the picture's own.
With another size of one's own it is fed at that size, with its edges repeated to the right and
below until both sides are multiples of `STRIDE`, which every model of pixels can take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from fedflat.analysis.loaded_run import LoadedRun
from fedflat.client.piece import EvalModel, eval_model_piece
from fedflat.data.examples import AnyExamples, Examples
from fedflat.data.files.pictures import Picture, check_max_pixels, opened, pictures_in
from fedflat.data.on_disk import OnDisk
from fedflat.data.palette import palette
from fedflat.data.scenes.reading import FrameFiles, read_image, unframed
from fedflat.data.scenes.scenes import Scenes
from fedflat.errors import MAX_PIXELS, DataError, SettingError
from fedflat.experiments.evaluation import load
from fedflat.tasks.segmentation import Segmentation

Bytes = NDArray[np.uint8]
STRIDE = 32
MOST_PIXELS = 1 << 24
"""Of a picture that is fed at a size of one's own: a network keeps a hundred numbers and more for
each."""
IDS, MASK = ".ids.png", ".mask.png"
"""How the names of masks end, which are no pictures to be looked at again."""
OWN = (0, 0)
"""The size of each picture itself."""


@dataclass(frozen=True)
class Prediction:
    """What was made of one picture: its mask, or its class."""

    path: Path
    shares: dict[str, float]
    """Of the classes that occur in a mask, the largest first; or each class's probability."""
    ids: Bytes | None = None

    @property
    def first(self) -> str:
        """The class with the largest share."""
        return next(iter(self.shares))


@dataclass(frozen=True)
class Predictor:
    """A model of a run that looks at pictures."""

    loaded: LoadedRun
    model: str | None = None
    size: tuple[int, int] | None = None
    """Height and width that pictures are fed at, or `OWN`; None: as the run is tested."""
    max_pixels: int = MAX_PIXELS
    """Pictures with more pixels are refused before they are decoded."""

    def __post_init__(self) -> None:
        check_max_pixels("predict", self.max_pixels)
        task, shape = self.loaded.ready.exp.task, self.loaded.ready.fed.shape
        if not (self.segments or task.classifies):
            raise SettingError(
                f"{self.loaded.folder} learns {task}, and only classes and masks can be predicted."
            )
        if len(shape) != 3 or shape[0] not in (1, 3) or not _pictures(self.examples):
            size = "x".join(map(str, shape))
            raise SettingError(
                f"{self.loaded.folder} is of {self.loaded.experiment.on}, whose inputs of {size} are no pictures. "
                "Predict with a run on pictures."
            )
        if self.size is not None and not self.segments:
            raise SettingError(
                "predict: a class is told at the size that the run is tested at; leave --size out."
            )
        load(self.loaded.ready.learner, self.fit.model)

    @cached_property
    def fit(self) -> EvalModel:
        """The model as it is tested where nobody has been: what clients keep is theirs."""
        prepared, (_, model) = self.loaded.ready, self.loaded.model(self.model)
        piece = eval_model_piece(prepared.job.pieces)
        return (
            EvalModel(model) if piece is None else piece.eval_model(prepared.info.layout, model, ())
        )

    @cached_property
    def segments(self) -> bool:
        """Whether each pixel has a class."""
        return isinstance(self.loaded.ready.exp.task, Segmentation)

    @cached_property
    def examples(self) -> AnyExamples:
        """What the run is tested on, whose pictures are prepared in the same way."""
        return self.loaded.ready.fed.test.examples

    @cached_property
    def names(self) -> list[str]:
        """What the classes are called."""
        return class_names(self.loaded)

    @cached_property
    def colours(self) -> Bytes:
        """The colours of masks."""
        return palette(self.names, len(self.names))

    def look(self, path: Path) -> Prediction:
        """What is in the picture."""
        return self._mask(path) if self.segments else self._class(path)

    def _mask(self, path: Path) -> Prediction:
        frame = self._frame(path)
        x, own = read_image(path, frame, self.max_pixels)
        scores = self._scores(x if self.size is None else _filled(x))[
            ..., : frame.height, : frame.width
        ]
        ids = unframed(scores.argmax(0).to(torch.uint8).numpy(), frame, own)
        counts = np.bincount(ids.ravel(), minlength=256)[: len(self.names)]
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda place: -counts[place])
        return Prediction(
            path, {self.names[place]: float(counts[place] / ids.size) for place in order}, ids
        )

    def _class(self, path: Path) -> Prediction:
        channels, height, width = self.loaded.ready.fed.shape
        x = Picture(channels, (height, width), self.max_pixels)(str(path))
        told = self._scores(x).double().softmax(0)
        order = told.argsort(descending=True, stable=True)[: len(self.names)].tolist()
        return Prediction(path, {self.names[place]: float(told[place]) for place in order})

    def _frame(self, path: Path) -> FrameFiles:
        if self.size is None:
            _, height, width = self.loaded.ready.fed.shape
            return (
                self.examples.frame
                if isinstance(self.examples, Scenes)
                else FrameFiles(height, width)
            )
        with opened(path, self.max_pixels) as picture:
            height, width = (picture.height, picture.width) if self.size == OWN else self.size
        if height * width > MOST_PIXELS:
            raise DataError(
                f"{path}: {width}x{height} pixels are too many at once. Say a smaller --size, or leave it out: then it "
                "is brought to the size that the run is tested at."
            )
        return FrameFiles(height, width)

    def _scores(self, x: Tensor) -> Tensor:
        learner = self.loaded.ready.learner
        twice = torch.tensor(
            [0, 0] if self.fit.batch_statistics else [0]
        )  # statistics of a batch need two examples
        batch = self.examples.like(x.unsqueeze(0)).batch(twice, learner.dtype)
        inputs = learner.in_memory_format(batch.inputs.to(learner.device))
        output: Tensor = learner.flat.forward(inputs, norms=self.fit.batch_statistics)
        return output[0, : len(self.names)].cpu()


def class_names(loaded: LoadedRun) -> list[str]:
    """What the classes of a run's data are called: by their names, or by their numbers."""
    named = loaded.experiment.on.class_names() if loaded.experiment.on is not None else ()
    return [*named, *map(str, range(len(named), loaded.ready.fed.classes))]


def pictures(places: Sequence[Path]) -> Iterator[Path]:
    """These files, and those of these folders, but for masks that were written beside them."""
    for place in places:
        if place.exists() and not place.is_dir():
            yield place
            continue
        if not place.is_dir():
            raise DataError(f"{place} is not there. Name pictures, or a folder of them.")
        found = [
            path for path in map(Path, pictures_in(place)) if not path.name.endswith((IDS, MASK))
        ]
        if not found:
            raise DataError(f"{place} has no pictures in it. Name pictures, or a folder of them.")
        yield from found


def _pictures(examples: AnyExamples) -> bool:
    """Whether they are stored as bytes, or as floats from 0 to 1."""
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


def _filled(x: Tensor) -> Tensor:
    """The picture with its last column and row repeated until both sides are multiples of
    `STRIDE`."""
    height, width = x.shape[-2:]
    more = (0, -width % STRIDE, 0, -height % STRIDE)
    return pad(x.float().unsqueeze(0), more, mode="replicate")[0].to(x.dtype)
