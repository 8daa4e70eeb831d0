"""Mean descriptors of sequences by a network, for the split by visual similarity.

They are kept in the cache folder: the images of a large set take hours.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch

from fedflat.core.seeds import derive, seed_torch
from fedflat.core.weight_files import named_weights
from fedflat.data.examples import AnyExamples
from fedflat.data.files import paths
from fedflat.data.k_means import Points
from fedflat.data.places.sequences import ImageSequence
from fedflat.errors import DataError, SettingError
from fedflat.files import Damaged, read_file, write_file
from fedflat.registry.specs import parse

BATCH = 32
WIDTH = 256
"""Outputs of networks that have a choice."""


def sequence_descriptors(
    images: AnyExamples,
    sequences: Sequence[ImageSequence],
    network: str,
    weights: str,
    seed: int,
) -> Points:
    """The mean descriptor of each sequence, by a network in evaluation mode.

    ``network`` is the text of a model. Without ``weights`` it is the initial network of the seed;
    ``weights`` is a safetensors file, or a state dict saved by torch, with parameters by name.
    Images are read only if no descriptors of the same images and network are in the cache.
    """
    with torch.random.fork_rng(devices=[]):
        seed_torch(derive(seed, "model"))
        module = parse(network, "model").build(images.shape, WIDTH).eval()
    if weights:
        _load(module, weights)
    kept = paths.cache_dir() / "descriptors" / f"{_digest(images, sequences, network, module)}.npy"
    if kept.is_file():
        return _cached(kept, len(sequences))
    found = _described(images, sequences, network, module)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        np.save(content, found)
        write_file(kept, content.getvalue())
    except OSError:  # such as a full or read-only cache folder
        pass
    return found


def _described(
    images: AnyExamples, sequences: Sequence[ImageSequence], network: str, module: torch.nn.Module
) -> Points:
    rows = []
    with torch.no_grad():
        for sequence in sequences:
            index = torch.tensor(sequence.images)
            parts = [module(images.batch(i, torch.float32).inputs) for i in index.split(BATCH)]
            found = torch.cat(parts)
            if found.dim() != 2:
                raise SettingError(
                    f"msls: network must give one vector per image, and {network} gives "
                    f"{tuple(found.shape[1:])}. Use resnet18_gem() or embedder()."
                )
            rows.append(found.double().mean(0).numpy())
    return np.stack(rows)


def _digest(
    images: AnyExamples, sequences: Sequence[ImageSequence], network: str, module: torch.nn.Module
) -> str:
    """A digest of all that the descriptors depend on."""
    found = sha256(repr((network, images.shape, torch.__version__)).encode())
    for value in (*images.traces(), *module.state_dict().values()):
        array = value.contiguous().numpy() if isinstance(value, torch.Tensor) else None
        found.update(repr(value).encode() if array is None else array.tobytes())
    for sequence in sequences:
        found.update(np.array((-1, *sequence.images), np.int64).tobytes())
    return found.hexdigest()


def _cached(path: Path, count: int) -> Points:
    try:
        found: Points = np.load(path, allow_pickle=False)
        if found.ndim != 2 or len(found) != count:
            raise ValueError(f"it has the shape {found.shape}, and there are {count} sequences")
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}). Remove it.") from None
    return found


def _load(module: torch.nn.Module, weights: str) -> None:
    try:
        content = read_file(Path(weights), None)
        if content is None:
            raise Damaged("there is no such file")
        named = named_weights(content)
    except Damaged as error:
        raise DataError(
            f"msls: weights {weights} cannot be read ({error}). Name a safetensors file, or a "
            "state dict saved by torch."
        ) from None
    ours = module.state_dict()
    fitting = {n: t for n, t in named.items() if n in ours and t.shape == ours[n].shape}
    if not fitting:
        raise DataError(f"msls: none of the weights in {weights} fits the network.")
    module.load_state_dict(fitting, strict=False)
