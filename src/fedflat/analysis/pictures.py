"""What a model sees: examples of every test set beside their truth, and which class is taken for
which.

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

from fedflat.analysis.analyses import AnalysisResult, Scope, Tell, once
from fedflat.analysis.analysis_store import Result
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.predict import class_names
from fedflat.client.domain_scores import part_outputs
from fedflat.client.piece import eval_model_piece
from fedflat.core.flat import Model
from fedflat.data.batch import Batch
from fedflat.data.examples import ClientData, Examples
from fedflat.data.files.png import png
from fedflat.data.palette import palette
from fedflat.errors import SettingError, number
from fedflat.experiments.eval_models import EvalModels
from fedflat.flatness.subsample import subset
from fedflat.tasks.iou import confusion, mean_iou
from fedflat.tasks.segmentation import Segmentation

WIDEST = 256
"""Pixels across of a picture that is kept."""
MOST_EACH = 12
"""Examples of a test set."""
MOST_CLASSES = 256
"""Of a confusion that can be looked at."""


def analyse_pictures(
    loaded: LoadedRun, look: Scope, on_progress: Tell, *, each: int = 3
) -> AnalysisResult:
    """The same few examples of every test set: the image, its truth, and what the model makes of
    it.

    So many of each set, spread over it; of a set with domains one of each, `MOST_EACH` at most.
    """
    number("pictures", "each", each, low=1, high=MOST_EACH, whole=True)
    task = loaded.ready.exp.task
    if not isinstance(task, Segmentation):
        raise SettingError(
            f"{loaded.folder} learns {task}: there are pictures of masks only. Ask for --confusion."
        )
    name, model = loaded.model(look.model)
    settings = {"model": name, "each": each} | (
        {} if loaded.standing is None else {"round": loaded.standing}
    )

    def work() -> Result:
        names, tests = class_names(loaded), _tests(loaded)
        sets = {}
        for done, (where, data) in enumerate(tests.items()):
            guesses = _guesses(loaded, model, data, chosen(data, each))
            sets[where] = [
                _example(loaded, data, place, guess) for place, guess in sorted(guesses.items())
            ]
            on_progress(done + 1, len(tests), where)
        colours = palette(names, len(names))[: len(names)].tolist()
        return {
            "names": names,
            "colours": colours,
            "sets": {where: some for where, some in sets.items() if some},
        }

    return once(loaded.shelf, "pictures", settings, work)


def analyse_confusion(loaded: LoadedRun, look: Scope, on_progress: Tell) -> AnalysisResult:
    """How many examples, or pixels, of each class were given each class, on every test set."""
    task, width = loaded.ready.exp.task, loaded.ready.learner.outputs
    if not (task.classifies or isinstance(task, Segmentation)):
        raise SettingError(
            f"{loaded.folder} learns {task}, which gives no classes that could be confused."
        )
    if width > MOST_CLASSES:
        raise SettingError(
            f"{loaded.folder} tells {width} classes apart, and a page shows {MOST_CLASSES} at most."
        )
    name, model = loaded.model(look.model)
    tests = _tests(loaded) if look.where == "test" else {look.where: loaded.examples(look.where)}
    ignored = task.ignore if isinstance(task, Segmentation) else -1

    def work() -> Result:
        sets = {}
        for done, (where, data) in enumerate(tests.items()):
            some = (
                data
                if look.examples is None
                else subset(data, min(look.examples, len(data)), look.seed)
            )
            matrix = torch.zeros(width, width, dtype=torch.long)
            for _, batch, output in _seen(loaded, model, some):
                matrix += confusion(output.argmax(1), batch.targets, width, ignored).cpu()
            if matrix.any():
                sets[where] = matrix.tolist()
            on_progress(done + 1, len(tests), where)
        names = class_names(loaded)
        return {"names": [*names, *map(str, range(len(names), width))], "sets": sets}

    return once(loaded.shelf, "confusion", look.said(loaded, name), work)


def chosen(data: ClientData, each: int) -> list[int]:
    """Places of examples to be shown: one of each domain, if there are several; else ``each``,
    spread evenly."""
    domains = data.domains.finest() if data.domains else {}
    if len(domains) > 1:
        first = [places[len(places) // 2] for places in domains.values()]
        return [first[i] for i in _spread(len(first), min(len(first), MOST_EACH))]
    return _spread(len(data), min(each, len(data)))


def _spread(count: int, wanted: int) -> list[int]:
    return [(2 * i + 1) * count // (2 * wanted) for i in range(wanted)]


def _tests(loaded: LoadedRun) -> dict[str, ClientData]:
    """The test sets that have scores."""
    fed, task = loaded.ready.fed, loaded.ready.exp.task
    return {name: data for name, data in fed.tests.items() if name != task.reference}


def _seen(loaded: LoadedRun, model: Model, data: ClientData) -> Iterator[tuple[Tensor, Batch, Any]]:
    """Batch by batch, as the run is tested: places, batch, and what the model makes of it."""
    prepared = loaded.ready
    fitted = eval_model_piece(prepared.job.pieces) is not None
    eval_models = prepared.eval_models(loaded.state.clients) if fitted else EvalModels()
    for part in eval_models.parts(data, model):
        yield from part_outputs(prepared.learner, data, part)


def _guesses(
    loaded: LoadedRun, model: Model, data: ClientData, wanted: list[int]
) -> dict[int, Tensor]:
    """The masks of the examples at these places."""
    found = {}
    for places, _, output in _seen(loaded, model, data):
        for row, place in enumerate(places.tolist()):
            if place in wanted:
                found[place] = output[row].argmax(0)
    return found


def _example(loaded: LoadedRun, data: ClientData, place: int, guess: Tensor) -> Result:
    raw = data.examples.raw(data.index[place : place + 1])
    truth, task = raw.targets[0].long(), loaded.ready.exp.task
    ignored = task.ignore if isinstance(task, Segmentation) else -1
    score = mean_iou(confusion(guess, truth, loaded.ready.learner.outputs, ignored))
    return {
        "place": int(data.index[place]),
        "domain": ", ".join(data.domains.each[place]) if data.domains else "",
        "image": kept(levels(raw)[0]),
        "truth": kept_mask(loaded, torch.where(truth == ignored, 255, truth)),
        "mask": kept_mask(loaded, guess),
        "score": score if np.isfinite(score) else None,
    }


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


def kept_mask(loaded: LoadedRun, mask: Tensor) -> str:
    """A mask ``(h, w)`` likewise, in its colours."""
    names = class_names(loaded)
    step = -(-mask.shape[-1] // WIDEST)
    return b64encode(
        png(mask[::step, ::step].to(torch.uint8).cpu().numpy(), palette(names, len(names)))
    ).decode()
