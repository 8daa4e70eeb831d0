"""Mean descriptors of sequences by a network, for the split by visual similarity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from fedflat.core.seeds import derive, seed_torch
from fedflat.data.examples import AnyExamples
from fedflat.data.k_means import Points
from fedflat.data.places.sequences import ImageSequence
from fedflat.errors import DataError, SettingError
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
    ``weights`` is a safetensors file with parameters by name.
    """
    with torch.random.fork_rng(devices=[]):
        seed_torch(derive(seed, "model"))
        module = parse(network, "model").build(images.shape, WIDTH).eval()
    if weights:
        _load(module, weights)
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


def _load(module: torch.nn.Module, weights: str) -> None:
    from safetensors.torch import load_file

    try:
        named = load_file(Path(weights))
    except Exception as error:  # safetensors raises its own type
        raise DataError(f"msls: weights {weights} cannot be read ({error}).") from None
    ours = module.state_dict()
    fitting = {n: t for n, t in named.items() if n in ours and t.shape == ours[n].shape}
    if not fitting:
        raise DataError(f"msls: none of the weights in {weights} fits the network.")
    module.load_state_dict(fitting, strict=False)
