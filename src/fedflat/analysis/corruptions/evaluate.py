"""The headline of a model under each kind of corruption and severity, on images drawn here or as
published.

    found = {}                                       # or what was found before an interruption
    for kind, scores in under_all(learner, model, data, known=found):
        found[kind] = scores                         # and perhaps write it down
    result(found)

What is random in drawn images depends on the seed, the kind and the example's place in the set. It
is the same at all severities, and whichever other kinds are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from fedflat.analysis.corruptions.corruptions import COLOURED, KINDS, by_name
from fedflat.analysis.corruptions.digital import pillow
from fedflat.analysis.corruptions.kind import SEVERITIES, Bytes
from fedflat.analysis.corruptions.official import Official
from fedflat.client.learner import Learner
from fedflat.core.flat import Model
from fedflat.core.seeds import numpy_generator
from fedflat.data.batch import arguments
from fedflat.data.examples import ClientData, Examples
from fedflat.errors import SettingError, number
from fedflat.flatness.points import Tell, cut, move, quiet

CHUNK = 1000
CLEAN = "clean"
DRAWN = "drawn by fedflat"


def under_all(
    learner: Learner,
    model: Model,
    data: ClientData,
    *,
    kinds: Sequence[str] | None = None,
    severities: Sequence[int] = SEVERITIES,
    seed: int = 0,
    known: Collection[str] = (),
    on_progress: Tell = quiet,
    published: Official | None = None,
    reference: ClientData | None = None,
) -> Iterator[tuple[str, list[float]]]:
    """Of each kind its name and the headline at each severity, one kind at a time; first
    ``("clean", [headline])``.

    kinds
        Which ones; None: all that the images can have.
    known
        Names that are not asked for again.
    published
        The files that hold the images of the whole test set, of which ``data`` is a part; None: they are drawn.
    reference
        What the examples are looked up in, if the task does so: a gallery of clean images.
    """
    images = pixels(data)
    able = [name for name in KINDS if images.shape[1] == 3 or name not in COLOURED]
    asked = able if kinds is None else list(kinds)
    _check(asked, severities, able)
    if published is not None:
        published.check(asked, data)
    elif "jpeg_compression" in asked:
        pillow()

    def change(name: str, severity: int) -> Bytes:
        if published is not None:
            return published.images(name, severity, data)
        return corrupted(images, name, severity, seed)

    names = [name for name in (CLEAN, *asked) if name not in known]
    judge = partial(_judged, learner, model, data, reference)
    return _walk(judge, pixels(data), names, severities, change, on_progress)


def _check(kinds: Sequence[str], severities: Sequence[int], able: Sequence[str]) -> None:
    for name in kinds:
        by_name(name)
        if name not in able:
            raise SettingError(f"{name} changes colours, and these images are grey. Leave it out.")
    for severity in severities:
        number(
            "corruptions", "severity", severity, low=SEVERITIES[0], high=SEVERITIES[-1], whole=True
        )
    if not kinds or not severities:
        raise SettingError(
            "corruptions: no kind or no severity was asked for. Name at least one of each."
        )


def _walk(
    judge: Callable[[Bytes], float],
    clean: Bytes,
    kinds: Sequence[str],
    severities: Sequence[int],
    change: Callable[[str, int], Bytes],
    on_progress: Tell,
) -> Iterator[tuple[str, list[float]]]:
    total, done = sum(1 if name == CLEAN else len(severities) for name in kinds), 0
    for name in kinds:
        found = []
        for x in [clean] if name == CLEAN else (change(name, severity) for severity in severities):
            found.append(judge(x))
            done += 1
            on_progress(done, total, name)
        yield name, found


def pixels(data: ClientData) -> Bytes:
    """The images of a set as they are stored; refused unless they are uint8 with 1 or 3
    channels."""
    x = data.examples.inputs if isinstance(data.examples, Examples) else None
    if not isinstance(x, torch.Tensor):
        raise SettingError(
            "corruptions: the data must be one tensor of images in memory, found others."
        )
    if x.dtype != torch.uint8 or x.dim() != 4 or x.shape[1] not in (1, 3):
        raise SettingError(
            f"corruptions: the data must be images stored as uint8 with 1 or 3 channels, found {tuple(x.shape)} of "
            f"{str(x.dtype).removeprefix('torch.')}. Choose cifar10, cifar100, mnist or fashion_mnist, or give uint8 "
            "tensors."
        )
    found: Bytes = x.index_select(0, data.index).cpu().numpy()
    return found


def _targets(data: ClientData) -> torch.Tensor:
    """What is to be found in each image: its class, its mask or its numbers."""
    targets = data.examples.targets if isinstance(data.examples, Examples) else None
    if not isinstance(targets, torch.Tensor):
        raise SettingError("corruptions: the targets must be one tensor in memory, found others.")
    return targets.index_select(0, data.index)


def corrupted(x: Bytes, kind: str, severity: int, seed: int) -> Bytes:
    """The images under a kind, a thousand at a time, each thousand with its own generator."""
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


def _judged(
    learner: Learner, model: Model, data: ClientData, reference: ClientData | None, x: Bytes
) -> float:
    """The headline on the examples with these images, looked up in the reference if there is
    one."""
    y, like = _targets(data), data.examples
    assert isinstance(like, Examples)
    examples = Examples(torch.from_numpy(x).to(y.device), y, like.classes, like.mean, like.std)
    batches = cut(learner, ClientData(examples, torch.arange(len(y), device=y.device)))
    move(learner, model.params, model.buffers)
    meter, judged = learner.task.meter(learner.outputs), learner.task.headline
    for batch in cut(learner, reference) if reference is not None else ():
        meter.refer(learner.flat.forward(*arguments(batch.inputs)), batch)  # type: ignore[attr-defined]
    for batch in batches:
        meter.add(learner.flat.forward(*arguments(batch.inputs)), batch)
    found = meter.scores().get(judged.name)
    if found is None:
        said = (
            f"the run has no {judged.label}, since its loss is its own. Take the loss of the task."
        )
        raise SettingError(f"corruptions: {said}")
    return found


def result(
    found: Mapping[str, Sequence[float]], published: Official | None = None
) -> dict[str, Any]:
    """The scores ready for JSON: on clean images, of each kind by severity, the mean of these;
    whose images."""
    kinds = {name: list(scores) for name, scores in found.items() if name != CLEAN}
    every = [score for scores in kinds.values() for score in scores]
    return {
        CLEAN: found[CLEAN][0],
        "kinds": kinds,
        "mean": sum(every) / len(every),
        "source": source(published),
    }


def source(published: Official | None) -> str:
    """Whose images they are, for tables."""
    return DRAWN if published is None else published.source


def measure(
    learner: Learner,
    model: Model,
    data: ClientData,
    *,
    published: Official | None = None,
    **how: Any,
) -> dict[str, Any]:
    """All at once; ``how`` as for `under_all`."""
    return result(dict(under_all(learner, model, data, published=published, **how)), published)
