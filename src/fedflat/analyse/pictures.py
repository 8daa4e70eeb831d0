"""What a model sees: examples of every test set beside their truth, and which class is taken for which.

Pictures are kept as small PNG files in the JSON of the analysis, so that a page needs no data.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from fedflat.analyse.analyses import Found, Look, Tell, once
from fedflat.analyse.predict import class_names
from fedflat.analyse.shelf import Result
from fedflat.analyse.subject import Subject
from fedflat.client.domains import passed
from fedflat.client.piece import fitting_piece
from fedflat.data.batch import Batch
from fedflat.data.examples import ClientData, Examples
from fedflat.data.files.png import png
from fedflat.data.palette import palette
from fedflat.engine.flat import Model
from fedflat.errors import SettingError, number
from fedflat.flatness.subsample import subset
from fedflat.running.fitting import Fitting
from fedflat.tasks.iou import confusion, mean_iou
from fedflat.tasks.segmentation import Segmentation

WIDEST = 256
"""Pixels across of a picture that is kept."""
MOST_EACH = 12
"""Examples of a test set."""
MOST_CLASSES = 256
"""Of a confusion that can be looked at."""


def see_pictures(subject: Subject, look: Look, tell: Tell, *, each: int = 3) -> Found:
    """The same few examples of every test set: the image, its truth, and what the model makes of it.

    So many of each set, spread over it; of a set with domains one of each, `MOST_EACH` at most.
    """
    number("pictures", "each", each, low=1, high=MOST_EACH, whole=True)
    task = subject.ready.exp.task
    if not isinstance(task, Segmentation):
        raise SettingError(f"{subject.folder} learns {task}: there are pictures of masks only. Ask for --confusion.")
    name, model = subject.model(look.model)
    settings = {"model": name, "each": each} | ({} if subject.standing is None else {"round": subject.standing})

    def work() -> Result:
        names, tests = class_names(subject), _tests(subject)
        sets = {}
        for done, (where, data) in enumerate(tests.items()):
            guesses = _guesses(subject, model, data, chosen(data, each))
            sets[where] = [_example(subject, data, place, guess) for place, guess in sorted(guesses.items())]
            tell(done + 1, len(tests), where)
        colours = palette(names, len(names))[: len(names)].tolist()
        return {"names": names, "colours": colours, "sets": {where: some for where, some in sets.items() if some}}

    return once(subject.shelf, "pictures", settings, work)


def see_confusion(subject: Subject, look: Look, tell: Tell) -> Found:
    """How many examples, or pixels, of each class were given each class, on every test set."""
    task, width = subject.ready.exp.task, subject.ready.learner.outputs
    if not (task.classifies or isinstance(task, Segmentation)):
        raise SettingError(f"{subject.folder} learns {task}, which gives no classes that could be confused.")
    if width > MOST_CLASSES:
        raise SettingError(f"{subject.folder} tells {width} classes apart, and a page shows {MOST_CLASSES} at most.")
    name, model = subject.model(look.model)
    tests = _tests(subject) if look.where == "test" else {look.where: subject.examples(look.where)}
    ignored = task.ignore if isinstance(task, Segmentation) else -1

    def work() -> Result:
        sets = {}
        for done, (where, data) in enumerate(tests.items()):
            some = data if look.examples is None else subset(data, min(look.examples, len(data)), look.seed)
            matrix = torch.zeros(width, width, dtype=torch.long)
            for _, batch, output in _seen(subject, model, some):
                matrix += confusion(output.argmax(1), batch.targets, width, ignored).cpu()
            if matrix.any():
                sets[where] = matrix.tolist()
            tell(done + 1, len(tests), where)
        names = class_names(subject)
        return {"names": [*names, *map(str, range(len(names), width))], "sets": sets}

    return once(subject.shelf, "confusion", look.said(subject, name), work)


def chosen(data: ClientData, each: int) -> list[int]:
    """Places of examples to be shown: one of each domain, if there are several; else ``each``, spread evenly."""
    domains = data.domains.finest() if data.domains else {}
    if len(domains) > 1:
        first = [places[len(places) // 2] for places in domains.values()]
        return [first[i] for i in _spread(len(first), min(len(first), MOST_EACH))]
    return _spread(len(data), min(each, len(data)))


def _spread(count: int, wanted: int) -> list[int]:
    return [(2 * i + 1) * count // (2 * wanted) for i in range(wanted)]


def _tests(subject: Subject) -> dict[str, ClientData]:
    """The test sets that have scores."""
    fed, task = subject.ready.fed, subject.ready.exp.task
    return {name: data for name, data in fed.tests.items() if name != task.reference}


def _seen(subject: Subject, model: Model, data: ClientData) -> Iterator[tuple[Tensor, Batch, Any]]:
    """Batch by batch, as the run is tested: places, batch, and what the model makes of it."""
    ready = subject.ready
    fitted = fitting_piece(ready.job.pieces) is not None
    fitting = ready.fitting(subject.state.clients) if fitted else Fitting()
    for part in fitting.parts(data, model):
        yield from passed(ready.learner, data, part)


def _guesses(subject: Subject, model: Model, data: ClientData, wanted: list[int]) -> dict[int, Tensor]:
    """The masks of the examples at these places."""
    found = {}
    for places, _, output in _seen(subject, model, data):
        for row, place in enumerate(places.tolist()):
            if place in wanted:
                found[place] = output[row].argmax(0)
    return found


def _example(subject: Subject, data: ClientData, place: int, guess: Tensor) -> Result:
    raw = data.examples.raw(data.index[place : place + 1])
    truth, task = raw.targets[0].long(), subject.ready.exp.task
    ignored = task.ignore if isinstance(task, Segmentation) else -1
    score = mean_iou(confusion(guess, truth, subject.ready.learner.outputs, ignored))
    return {
        "place": int(data.index[place]), "domain": ", ".join(data.domains.each[place]) if data.domains else "",
        "image": kept(levels(raw)[0]), "truth": kept_mask(subject, torch.where(truth == ignored, 255, truth)),
        "mask": kept_mask(subject, guess), "score": score if np.isfinite(score) else None,
    }  # fmt: skip


def levels(raw: Examples) -> Tensor:
    """Images as they are stored, as levels from 0 to 255."""
    x: Tensor = raw.inputs
    return x.float() if x.dtype == torch.uint8 else (255 * x.float()).clamp(0, 255)


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
