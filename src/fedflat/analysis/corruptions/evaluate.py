"""The headline of a model under each kind of corruption and severity.

    found = {}                                       # or scores from before an interruption
    for kind, scores in evaluate_corruptions(learner, model, data, known=found):
        found[kind] = scores                         # and perhaps save them
    result(found)

Images are generated here or read from the published files. The random numbers of generated images
depend on the seed, the kind and the example's index in the set. They are the same at all severities
and for any choice of kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from fedflat.analysis.corruptions.corruptions import COLOURED, KINDS, Official, by_name
from fedflat.analysis.corruptions.digital import pillow
from fedflat.analysis.corruptions.noise_and_blur import SEVERITIES, Bytes
from fedflat.client.learner import Learner
from fedflat.core.flat import Model
from fedflat.core.seeds import numpy_generator
from fedflat.data.examples import ClientData, Examples, arguments
from fedflat.errors import SettingError, number
from fedflat.flatness.points import OnProgress, load_point, no_progress, split_batches

CHUNK = 1000
CLEAN = "clean"
GENERATED = "drawn by fedflat"


def evaluate_corruptions(
    learner: Learner,
    model: Model,
    data: ClientData,
    *,
    kinds: Sequence[str] | None = None,
    severities: Sequence[int] = SEVERITIES,
    seed: int = 0,
    known: Collection[str] = (),
    on_progress: OnProgress = no_progress,
    published: Official | None = None,
    reference: ClientData | None = None,
) -> Iterator[tuple[str, list[float]]]:
    """Iterate over kinds and their scores by severity, starting with ``("clean", [score])``.

    kinds
        Names of the kinds. None for all that the images support.
    known
        Names that are skipped.
    published
        Published files of the whole test set, of which `data` is a part. None: images are
        generated.
    reference
        The clean examples of a gallery, if the task has one.
    """
    images = pixels(data)
    supported = [name for name in KINDS if images.shape[1] == 3 or name not in COLOURED]
    chosen = supported if kinds is None else list(kinds)
    _check(chosen, severities, supported)
    if published is not None:
        published.check(chosen, data)
    elif "jpeg_compression" in chosen:
        pillow()

    def change(name: str, severity: int) -> Bytes:
        if published is not None:
            return published.images(name, severity, data)
        return corrupt_all(images, name, severity, seed)

    names = [name for name in (CLEAN, *chosen) if name not in known]
    score = partial(_score, learner, model, data, reference)
    return _evaluate_kinds(score, pixels(data), names, severities, change, on_progress)


def _check(kinds: Sequence[str], severities: Sequence[int], supported: Sequence[str]) -> None:
    for name in kinds:
        by_name(name)
        if name not in supported:
            raise SettingError(f"{name} needs colour images, and these are grey. Leave it out.")
    for severity in severities:
        number(
            "corruptions", "severity", severity, low=SEVERITIES[0], high=SEVERITIES[-1], whole=True
        )
    if not kinds or not severities:
        raise SettingError(
            "corruptions: no kind or no severity was given. Give at least one of each."
        )


def _evaluate_kinds(
    score: Callable[[Bytes], float],
    clean: Bytes,
    kinds: Sequence[str],
    severities: Sequence[int],
    change: Callable[[str, int], Bytes],
    on_progress: OnProgress,
) -> Iterator[tuple[str, list[float]]]:
    total, done = sum(1 if name == CLEAN else len(severities) for name in kinds), 0
    for name in kinds:
        scores = []
        for x in [clean] if name == CLEAN else (change(name, severity) for severity in severities):
            scores.append(score(x))
            done += 1
            on_progress(done, total, name)
        yield name, scores


def pixels(data: ClientData) -> Bytes:
    """Return the stored images. Refuse any but uint8 images with 1 or 3 channels."""
    x = data.examples.inputs if isinstance(data.examples, Examples) else None
    if not isinstance(x, torch.Tensor):
        raise SettingError(
            "corruptions: the data must be one tensor of images in memory, found another type. "
            "Choose data that are in memory."
        )
    if x.dtype != torch.uint8 or x.dim() != 4 or x.shape[1] not in (1, 3):
        raise SettingError(
            "corruptions: the data must be images stored as uint8 with 1 or 3 channels, found "
            f"{tuple(x.shape)} of {str(x.dtype).removeprefix('torch.')}. "
            "Choose cifar10, cifar100, mnist or fashion_mnist, or give uint8 tensors."
        )
    images: Bytes = x.index_select(0, data.index).cpu().numpy()
    return images


def _targets(data: ClientData) -> torch.Tensor:
    """Return the target of each image: a class, a mask or numbers."""
    targets = data.examples.targets if isinstance(data.examples, Examples) else None
    if not isinstance(targets, torch.Tensor):
        raise SettingError("corruptions: the targets must be one tensor in memory.")
    return targets.index_select(0, data.index)


def corrupt_all(x: Bytes, kind: str, severity: int, seed: int) -> Bytes:
    """Return corrupted images, in chunks of a thousand with one generator each."""
    chunks = range(0, len(x), CHUNK)
    return np.concatenate(
        [
            by_name(kind)(
                x[start : start + CHUNK],
                severity,
                numpy_generator(seed, f"corruption {kind}", start),
            )
            for start in chunks
        ]
    )


def _score(
    learner: Learner, model: Model, data: ClientData, reference: ClientData | None, x: Bytes
) -> float:
    """Return the headline on the examples with these images."""
    y, like = _targets(data), data.examples
    assert isinstance(like, Examples)
    compared = learner.task.reference_rows(y)
    if compared is not None:  # only queries are corrupted
        x = np.where(compared.cpu().numpy()[:, None, None, None], pixels(data), x)
    examples = Examples(torch.from_numpy(x).to(y.device), y, like.classes, like.mean, like.std)
    batches = split_batches(learner, ClientData(examples, torch.arange(len(y), device=y.device)))
    load_point(learner, model.params, model.buffers)
    meter, task_headline = learner.task.meter(learner.outputs), learner.task.headline
    for batch in split_batches(learner, reference) if reference is not None else ():
        output = learner.flat.forward(*arguments(batch.inputs))
        meter.refer(output, batch)  # type: ignore[attr-defined]
    for batch in batches:
        meter.add(learner.flat.forward(*arguments(batch.inputs)), batch)
    score = meter.scores().get(task_headline.name)
    if score is None:
        raise SettingError(
            f"corruptions: the run has no {task_headline.label}, since it has its own loss. "
            "Use the loss of the task."
        )
    return score


def result(
    found: Mapping[str, Sequence[float]], published: Official | None = None
) -> dict[str, Any]:
    """Return the scores as JSON values.

    They are the score on clean images, the scores by kind and severity, their mean, and the source
    of the images.
    """
    kinds = {name: list(scores) for name, scores in found.items() if name != CLEAN}
    every = [score for scores in kinds.values() for score in scores]
    return {
        CLEAN: found[CLEAN][0],
        "kinds": kinds,
        "mean": sum(every) / len(every),
        "source": source(published),
    }


def source(published: Official | None) -> str:
    """Return the source of the images, for tables."""
    return GENERATED if published is None else published.source


def measure(
    learner: Learner,
    model: Model,
    data: ClientData,
    *,
    published: Official | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Evaluate all corruptions. `options` are those of `evaluate_corruptions`."""
    return result(
        dict(evaluate_corruptions(learner, model, data, published=published, **options)), published
    )
