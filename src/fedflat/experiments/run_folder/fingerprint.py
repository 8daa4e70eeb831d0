"""What a run was made of besides its texts, as digests: the data it trains and is tested on, and
its module.

Texts name data and modules; they do not tell the files of one machine from those of another, nor a
module that was given in Python from the next one. A run remembers both, and is gone on with only if
they are the same.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from fedflat.data.batch import arguments
from fedflat.data.examples import AnyExamples, ClientData
from fedflat.data.federation import Federation, PartitionedFederation
from fedflat.data.files.paths import data_place
from fedflat.errors import RunError
from fedflat.experiments.run_folder.signed import sign
from fedflat.experiments.run_setup import RunSetup

Origin = dict[str, Any]
LOOKED_AT = 3
"""Clients that are looked at where they are made when asked for: the first, the last and one
between."""


def origin_of(setup: RunSetup) -> Origin:
    """What tells the data and the module of this run from others."""
    module, inputs = setup.job.learner.module(), arguments(setup.job.learner.sample)
    digest = "" if setup.exp.clock is None else setup.exp.clock.digest()
    trained = [tensor for tensor in module.parameters() if tensor.requires_grad]
    return {
        "data": data_digest(setup.fed),
        "place": data_place(),
        "shape": list(setup.fed.shape),
        "classes": setup.fed.classes,
        "outputs": setup.job.learner.outputs,
        "inputs": [
            {"shape": list(x.shape[1:]), "whole": not x.is_floating_point()} for x in inputs
        ],
        **(
            {} if setup.server_data is None else {"server": sign(_examples(setup.server_data.data))}
        ),
        **({"clock": digest} if digest else {}),
        "module": module_digest(module),
        "start": sign(
            [_tensor(tensor) for tensor in trained]
            + [text for text in [setup.exp.init.digest()] if text]
        ),
    }


def check_same_origin(folder: Path, recorded: Origin, now: Origin) -> None:
    """Refuse data or a module that are not those which the run was begun with."""
    if recorded.get("data", now["data"]) != now["data"]:
        place = recorded.get("place")
        raise RunError(
            f"{folder}: these are not the data that the run was begun with. Give the same ones"
            + (
                f", which were found in {place}."
                if place
                else " (--data-dir, or on=... in Python)."
            )
        )
    if recorded.get("server") != now.get("server"):
        raise RunError(
            f"{folder}: these are not the server's data that the run was begun with. Give the same ones."
        )
    if recorded.get("clock") != now.get("clock"):
        raise RunError(
            f"{folder}: the clock's file is not what it was when the run was begun. Put back the same one."
        )
    check_same_module(folder, recorded, now["module"])


def check_same_module(folder: Path, recorded: Origin, now: str) -> None:
    """Refuse a module that is not the one which the run was begun with, but for the weights that
    are trained."""
    if recorded.get("module", now) != now:
        raise RunError(
            f"{folder}: this is not the module that the run was begun with: layers, names, shapes, settings, frozen "
            "weights or buffers differ. Give the same module, with the same frozen weights."
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


def _plain(name: str, value: Any) -> bool:
    """Whether it is a setting that a module keeps as an attribute."""
    return (
        not name.startswith("_")
        and name != "training"
        and isinstance(value, bool | int | float | str | None)
    )


_KNOWN: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""Digests of tensors that are there and have not changed: a set is read once for many runs."""


def _tensor(tensor: Tensor) -> str:
    version, known = _KNOWN.get(tensor, (None, ""))
    if version != tensor._version:
        content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        found = sha256(content.numpy()).hexdigest()  # type: ignore[arg-type]
        known = f"{tensor.dtype} {tuple(tensor.shape)} {found}"
        _KNOWN[tensor] = tensor._version, known
    return str(known)
