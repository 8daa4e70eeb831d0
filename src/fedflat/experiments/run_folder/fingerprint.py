"""Digests of the data and the module of a run.

Texts name data and modules, but files may differ between machines, and a module that was given in
Python has no text. run.json records digests of both, and a run is continued only if they are the
same.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from fedflat.data.examples import AnyExamples, ClientData, Examples, arguments
from fedflat.data.federation import Federation, PartitionedFederation
from fedflat.data.files.paths import data_place
from fedflat.data.on_disk import OnDisk
from fedflat.data.scenes.scenes import Scenes
from fedflat.errors import RunError
from fedflat.experiments.run_folder.record import ModelInput, Origin, Preparation
from fedflat.experiments.run_folder.schema import sign
from fedflat.experiments.run_setup import RunSetup

LOOKED_AT = 3
"""Clients of a federation on demand whose data are in the digest: the first, the last and one
between."""


def origin_of(setup: RunSetup) -> Origin:
    """The digests of the data and the module of this run."""
    module, inputs = setup.job.learner.module(), arguments(setup.job.learner.sample)
    digest = "" if setup.exp.clock is None else setup.exp.clock.digest()
    trained = [tensor for tensor in module.parameters() if tensor.requires_grad]
    weights = [_tensor(tensor) for tensor in trained]
    server = setup.server_data
    return Origin(
        data=data_digest(setup.fed),
        place=data_place(),
        shape=tuple(setup.fed.shape),
        classes=setup.fed.classes,
        outputs=setup.job.learner.outputs,
        inputs=tuple(ModelInput(tuple(x.shape[1:]), not x.is_floating_point()) for x in inputs),
        server=None if server is None else sign(_examples(server.data)),
        clock=digest or None,
        module=module_digest(module),
        start=sign(weights + [text for text in [setup.exp.init.digest()] if text]),
        parameters=sum(tensor.numel() for tensor in trained),
        clients=setup.fed.population,
        examples=sum(setup.fed.sizes()) if isinstance(setup.fed, PartitionedFederation) else None,
        test_examples=len(setup.fed.test),
        prepared=preparation_of(setup.fed),
    )


def preparation_of(fed: Federation) -> Preparation | None:
    """The normalization of the test examples' inputs; None if it is unknown."""
    examples = fed.test.examples
    if isinstance(examples, OnDisk | Scenes) and len(fed.test):
        examples = examples.raw(torch.tensor([0]))
    if not isinstance(examples, Examples) or not isinstance(examples.inputs, Tensor):
        return None
    scale = tuple(map(float, examples.mean)), tuple(map(float, examples.std))
    return Preparation(examples.inputs.dtype == torch.uint8, *scale)


def check_same_origin(folder: Path, recorded: Origin, now: Origin) -> None:
    """Refuse data or a module that differ from those of the run."""
    if recorded.data not in (None, now.data):
        place = recorded.place
        raise RunError(
            f"{folder}: these are not the data that the run was begun with. Give the same ones"
            + (
                f", which were found in {place}."
                if place
                else " (--data-dir, or on=... in Python)."
            )
        )
    if recorded.server != now.server:
        raise RunError(
            f"{folder}: these are not the server's data that the run was begun with. Give the same "
            "ones."
        )
    if recorded.clock != now.clock:
        raise RunError(
            f"{folder}: the clock's file is not what it was when the run was begun. Put back the "
            "same one."
        )
    check_same_module(folder, recorded, now.module)


def check_same_module(folder: Path, recorded: Origin, now: str | None) -> None:
    """Refuse a module that differs from that of the run, except for trained weights."""
    if recorded.module not in (None, now):
        raise RunError(
            f"{folder}: this is not the module that the run was begun with: layers, names, shapes, "
            "settings, frozen weights or buffers differ. Give the same module, with the same "
            "frozen weights."
        )


def data_digest(fed: Federation) -> str:
    """A digest of the examples to train and to test on, and of who holds which."""
    if isinstance(fed, PartitionedFederation) and fed.here:
        held = fed.held_out or []
        who = [
            _tensor(torch.cat([*parts])) if parts else "" for parts in (list(fed.parts), list(held))
        ]
        sizes = [list(map(len, parts)) for parts in (fed.parts, held)]
        more = [[name, _examples(data)] for name, data in fed.more.items()]
        return sign([_examples(fed.test), *_tensors(fed.train), who, sizes, *more])
    if not fed.here:
        return sign([fed.population, _examples(fed.test)])
    places = sorted({place * (fed.population - 1) // (LOOKED_AT - 1) for place in range(LOOKED_AT)})
    return sign(
        [fed.population, _examples(fed.test), [_examples(fed.data(place)) for place in places]]
    )


def _examples(data: ClientData) -> list[Any]:
    others = [trace for trace in data.examples.traces() if not isinstance(trace, Tensor)]
    return [*_tensors(data.examples), _tensor(data.index), *others]


def _tensors(examples: AnyExamples) -> list[str]:
    return [_tensor(trace) for trace in examples.traces() if isinstance(trace, Tensor)]


def module_digest(module: nn.Module) -> str:
    """A digest of a module but for the values it trains: they change."""
    parts = [
        [
            name,
            getattr(type(part), "recorded_as", type(part).__qualname__),
            part.extra_repr(),
            {k: v for k, v in vars(part).items() if _plain(k, v)},
        ]
        for name, part in module.named_modules()
    ]
    tensors = [
        [name, list(t.shape), str(t.dtype), t.requires_grad, "" if t.requires_grad else _tensor(t)]
        for name, t in (*module.named_parameters(), *module.named_buffers())
    ]
    return sign([parts, tensors])


def _plain(name: str, value: object) -> bool:
    """Whether an attribute of a module is one of its settings."""
    return (
        not name.startswith("_")
        and name != "training"
        and isinstance(value, bool | int | float | str | None)
    )


_KNOWN: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""Digests of tensors that have not changed, since many runs share a data set."""


def _tensor(tensor: Tensor) -> str:
    version, known = _KNOWN.get(tensor, (None, ""))
    if version != tensor._version:
        content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        found = sha256(content.numpy()).hexdigest()  # type: ignore[arg-type]
        known = f"{tensor.dtype} {tuple(tensor.shape)} {found}"
        _KNOWN[tensor] = tensor._version, known
    return str(known)
