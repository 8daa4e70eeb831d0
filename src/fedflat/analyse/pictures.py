"""What a model sees: examples of every test set beside their truth, and which class is taken for which.

Pictures are kept as small PNG files in the JSON of the analysis, so that a page needs no data.
"""

from __future__ import annotations

from base64 import b64encode

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import avg_pool2d

from fedflat.analyse.analyses import Found, Look, Tell, once
from fedflat.analyse.predict import class_names
from fedflat.analyse.shelf import Result
from fedflat.analyse.subject import Subject
from fedflat.client.judge import outputs
from fedflat.data.batch import arguments
from fedflat.data.examples import AnyExamples, ClientData
from fedflat.data.files.png import png
from fedflat.data.palette import palette
from fedflat.engine.flat import Model
from fedflat.errors import SettingError, number
from fedflat.flatness.subsample import subset
from fedflat.running.evaluate import load
from fedflat.tasks.iou import confusion, mean_iou
from fedflat.tasks.segmentation import Segmentation

Bytes = NDArray[np.uint8]
WIDEST = 256
"""Pixels across of a picture that is kept."""
MOST_EACH = 20
MOST_CLASSES = 256
"""Of a confusion that can be looked at."""


def see_pictures(subject: Subject, look: Look, tell: Tell, *, each: int = 3) -> Found:
    """The same few examples of every test set: the image, its truth, and what the model makes of it."""
    number("pictures", "each", each, low=1, high=MOST_EACH, whole=True)
    task = subject.ready.exp.task
    if not isinstance(task, Segmentation):
        raise SettingError(f"{subject.folder} learns {task}: there are pictures of masks only. Ask for --confusion.")
    name, model = subject.model(look.model)
    settings = _settings(subject, name) | {"each": each}

    def work() -> Result:
        load(subject.ready.learner, model)
        names, tests = class_names(subject), _tests(subject)
        sets = {}
        for done, (where, data) in enumerate(tests.items()):
            places = [(2 * i + 1) * len(data) // (2 * min(each, len(data))) for i in range(min(each, len(data)))]
            sets[where] = [_example(subject, data, place, task.ignore) for place in places]
            tell(done + 1, len(tests), where)
        colours = palette(names, len(names))[: len(names)].tolist()
        return {"names": names, "colours": colours, "sets": sets}

    return once(subject.shelf, "pictures", settings, work)


def see_confusion(subject: Subject, look: Look, tell: Tell) -> Found:
    """How many examples, or pixels, of each class were given each class, on every test set."""
    task, width = subject.ready.exp.task, subject.ready.learner.outputs
    if not (task.classifies or isinstance(task, Segmentation)):
        raise SettingError(f"{subject.folder} learns {task}, which gives no classes that could be confused.")
    if width > MOST_CLASSES:
        raise SettingError(f"{subject.folder} tells {width} classes apart, more than the {MOST_CLASSES} one can look at.")
    name, model = subject.model(look.model)
    tests = _tests(subject) if look.where == "test" else {look.where: subject.examples(look.where)}

    def work() -> Result:
        sets = {}
        for done, (where, data) in enumerate(tests.items()):
            some = data if look.examples is None or look.examples >= len(data) else subset(data, look.examples, look.seed)
            sets[where] = _matrix(subject, model, some).tolist()
            tell(done + 1, len(tests), where)
        names = class_names(subject)
        return {"names": [*names, *map(str, range(len(names), width))], "sets": sets}

    return once(subject.shelf, "confusion", look.said(subject, name), work)


def _tests(subject: Subject) -> dict[str, ClientData]:
    """The test sets that have scores."""
    fed, task = subject.ready.fed, subject.ready.exp.task
    return {name: data for name, data in fed.tests.items() if name != task.reference}


def _settings(subject: Subject, model: str) -> dict[str, object]:
    return {"model": model} | ({} if subject.standing is None else {"round": subject.standing})


def _matrix(subject: Subject, model: Model, data: ClientData) -> Tensor:
    learner, task = subject.ready.learner, subject.ready.exp.task
    load(learner, model)
    ignored = task.ignore if isinstance(task, Segmentation) else -1
    matrix = torch.zeros(learner.outputs, learner.outputs, dtype=torch.long)
    for batch, output in outputs(learner, data):
        matrix += confusion(output.argmax(1), batch.targets, learner.outputs, ignored).cpu()
    return matrix


def _example(subject: Subject, data: ClientData, place: int, ignored: int) -> Result:
    learner = subject.ready.learner
    batch = data.batch(torch.tensor([place]), learner.dtype)
    guess = learner.flat.forward(*arguments(learner.laid_out(batch.inputs))).argmax(1)
    matrix = confusion(guess, batch.targets, learner.outputs, ignored)
    truth = torch.where(batch.targets == ignored, 255, batch.targets)
    score = mean_iou(matrix)
    return {
        "place": int(data.index[place]), "image": kept(levels(data.examples, batch.inputs)[0]),
        "truth": kept_mask(subject, truth[0]), "mask": kept_mask(subject, guess[0]),
        "score": score if np.isfinite(score) else None,
    }  # fmt: skip


def levels(examples: AnyExamples, inputs: Tensor) -> Tensor:
    """Inputs that were made ready for a model as levels from 0 to 255 again."""
    ends = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, inputs.shape[1], 1, 1)
    black, white = examples.like(ends).batch(torch.arange(2), inputs.dtype).inputs.to(inputs.device).split(1)
    return ((inputs - black) / (white - black) * 255).clamp(0, 255)


def kept(image: Tensor, widest: int = WIDEST) -> str:
    """An image ``(C, h, w)`` of levels as a small PNG file in letters."""
    step = -(-image.shape[-1] // widest)
    small = avg_pool2d(image.unsqueeze(0), step, ceil_mode=True)[0] if step > 1 else image
    pixels = small.round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    return b64encode(png(pixels if pixels.shape[2] == 3 else pixels[..., 0])).decode()


def kept_mask(subject: Subject, mask: Tensor) -> str:
    """A mask ``(h, w)`` likewise, in its colours."""
    names = class_names(subject)
    step = -(-mask.shape[-1] // WIDEST)
    return b64encode(png(mask[::step, ::step].to(torch.uint8).cpu().numpy(), palette(names, len(names)))).decode()
