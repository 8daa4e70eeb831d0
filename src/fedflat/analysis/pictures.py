"""Predicted masks of examples beside their ground truth, confusion matrices, and training images
before and after pieces such as ``cfsi()`` and ``lab()`` (Caldarola's thesis, Figure 6.2).

Pictures are stored as small PNG files in the JSON of the analysis, so that a report needs no data.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from fedflat.analysis.analysis import AnalysisJob, Result
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.predict import class_names
from fedflat.client.evaluate import part_outputs, whole
from fedflat.client.styles import Restyle
from fedflat.client.training import Request, open_context
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast
from fedflat.data.examples import Batch, ClientData, Examples
from fedflat.data.figures import palette
from fedflat.data.files.pictures import png
from fedflat.experiments.eval_models import eval_models_of
from fedflat.flatness.subsample import subset
from fedflat.tasks.segmentation import confusion, mean_iou

MAX_WIDTH = 256
"""Largest width of a stored picture in pixels."""


def compute_pictures(job: AnalysisJob, each: int, most: int) -> Result:
    """Return image, ground truth and predicted mask of some examples of every test set.

    There are `each` examples of a set, or one of each domain, at most `most`.
    """
    loaded, (_, model) = job.loaded, job.loaded.model(job.scope.model)
    names, tests = class_names(loaded), scored_tests(loaded)
    sets = {}
    for done, (where, data) in enumerate(tests.items()):
        masks = _masks(loaded, model, data, choose_examples(data, each, most))
        sets[where] = [_example(loaded, data, place, mask) for place, mask in sorted(masks.items())]
        job.on_progress(done + 1, len(tests), where)
    return {
        "names": names,
        "colours": palette(names, len(names))[: len(names)].tolist(),
        "sets": {where: some for where, some in sets.items() if some},
    }


def compute_confusion(job: AnalysisJob) -> Result:
    """Return the confusion matrix of each test set, or of the examples of the scope."""
    loaded, scope, (_, model) = job.loaded, job.scope, job.loaded.model(job.scope.model)
    task, width = loaded.setup.exp.task, loaded.setup.job.learner.outputs
    tests = (
        scored_tests(loaded)
        if scope.where == "test"
        else {scope.where: loaded.examples(scope.where)}
    )
    sets = {}
    for done, (where, data) in enumerate(tests.items()):
        some = data
        if scope.examples is not None:
            some = subset(data, min(scope.examples, len(data)), scope.seed)
        matrix = torch.zeros(width, width, dtype=torch.long)
        for _, batch, output in predictions(loaded, model, some):
            matrix += confusion(output.argmax(1), batch.targets, width, task.ignored_label).cpu()
        if matrix.any():
            sets[where] = matrix.tolist()
        job.on_progress(done + 1, len(tests), where)
    names = class_names(loaded)
    return {"names": [*names, *map(str, range(len(names), width))], "sets": sets}


def choose_examples(data: ClientData, each: int, most: int) -> list[int]:
    """Return indices of examples to show: one per domain if there are several, else `each`.

    There are at most `most`.
    """
    domains = data.domains.finest() if data.domains else {}
    if len(domains) > 1:
        first = [places[len(places) // 2] for places in domains.values()]
        return [first[i] for i in _evenly_spaced(len(first), min(len(first), most))]
    return _evenly_spaced(len(data), min(each, len(data)))


def _evenly_spaced(count: int, wanted: int) -> list[int]:
    return [(2 * i + 1) * count // (2 * wanted) for i in range(wanted)]


def scored_tests(loaded: LoadedRun) -> dict[str, ClientData]:
    """Return the test sets that have scores."""
    fed, task = loaded.setup.fed, loaded.setup.exp.task
    return {name: data for name, data in fed.tests.items() if name != task.reference}


def predictions(
    loaded: LoadedRun, model: Model, data: ClientData
) -> Iterator[tuple[Tensor, Batch, Any]]:
    """Iterate over indices, batch and output of each batch, as the run evaluates them."""
    setup = loaded.setup
    forms = eval_models_of(setup.job, setup.registry, setup.fed)
    parts = whole if forms is None else forms(loaded.state.clients).parts
    for part in parts(data, model):
        yield from part_outputs(setup.job.learner, data, part)


def _masks(
    loaded: LoadedRun, model: Model, data: ClientData, chosen: list[int]
) -> dict[int, Tensor]:
    """Return the predicted masks of the examples at these indices."""
    masks = {}
    for places, _, output in predictions(loaded, model, data):
        for row, place in enumerate(places.tolist()):
            if place in chosen:
                masks[place] = output[row].argmax(0)
    return masks


def _example(loaded: LoadedRun, data: ClientData, place: int, mask: Tensor) -> Result:
    raw = data.examples.raw(data.index[place : place + 1])
    truth, task = raw.targets[0].long(), loaded.setup.exp.task
    ignored = task.ignored_label
    score = mean_iou(confusion(mask, truth, loaded.setup.job.learner.outputs, ignored))
    return {
        "place": int(data.index[place]),
        "domain": ", ".join(data.domains.each[place]) if data.domains else "",
        "image": encode_image(levels(raw)[0]),
        "truth": encode_mask(loaded, torch.where(truth == ignored, 255, truth)),
        "mask": encode_mask(loaded, mask),
        "score": score if np.isfinite(score) else None,
    }


def levels(raw: Examples) -> Tensor:
    """Return stored images as levels from 0 to 255."""
    x: Tensor = raw.inputs
    return x.float() if x.dtype == torch.uint8 else (255 * x.float()).clamp(0, 255)


def encode_image(image: Tensor, widest: int = MAX_WIDTH) -> str:
    """Return an image ``(C, h, w)`` of levels as a small PNG file in base64."""
    step = -(-image.shape[-1] // widest)
    small = avg_pool2d(image.unsqueeze(0), step, ceil_mode=True)[0] if step > 1 else image
    pixels = small.round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    return b64encode(png(pixels if pixels.shape[2] == 3 else pixels[..., 0])).decode()


def encode_mask(loaded: LoadedRun, mask: Tensor) -> str:
    """Return a mask ``(h, w)`` as a small PNG file in base64, with the colours of its classes."""
    names = class_names(loaded)
    step = -(-mask.shape[-1] // MAX_WIDTH)
    return b64encode(
        png(mask[::step, ::step].to(torch.uint8).cpu().numpy(), palette(names, len(names)))
    ).decode()


def restyling(loaded: LoadedRun) -> list[Restyle]:
    """Return the client pieces that give images new styles."""
    return [piece for piece in loaded.setup.job.pieces if isinstance(piece, Restyle)]


def compute_styled(job: AnalysisJob, each: int) -> Result:
    """Return the first image of some clients before and after, with the draws of round 0."""
    setup, pieces = job.loaded.setup, restyling(job.loaded)
    fed, learner = setup.fed, setup.job.learner
    model, count = learner.initial(), min(each, fed.population)
    broadcast = Broadcast(0, model.params, model.buffers, lr=0.0)
    pairs, first = [], torch.zeros(1, dtype=torch.long)  # every second image, from the first
    for done in range(count):
        client = done * fed.population // count
        request = Request(client, broadcast, {})
        data = fed.data(client)
        for piece in pieces:
            data = piece.data(open_context(setup.job, request, data, piece), data)
        raw = data.examples.raw(data.index[:1])
        assert data.change is not None
        after = replace(raw, inputs=data.change(raw.inputs, first))
        pairs.append(
            {
                "client": client,
                "domain": ", ".join(fed.domain(client)),
                "before": encode_image(levels(raw)[0]),
                "after": encode_image(levels(after)[0]),
            }
        )
        job.on_progress(done + 1, count, f"client {client}")
    return {"piece": " + ".join(map(str, pieces)), "pairs": pairs}
