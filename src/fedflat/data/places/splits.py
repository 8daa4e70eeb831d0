"""The three splits of sequences among clients in FedVPR (Caldarola's doctoral thesis, 6.3).

    proximity    per city: pick an image of an unused query sequence; a client is all unused
                 sequences with an image within ``radius`` of it. A valid client uses up its
                 sequences; of an invalid one only the picked sequence is no longer picked. This
                 goes on until no query sequence can be picked; the rest is left out
    clustering   per city: k-means on descriptors of sequences into as many clusters as the city has
                 proximity clients; clusters that are not valid clients are left out
    random       every client gets sequences of every city and role: one each and the rest in turn,
                 or, if there are fewer than clients, number ``j mod n`` for client ``j``

"Within the radius" is not defined for a sequence in the thesis. ``rule="any"``: any of its images;
``"first"``: its first image. The picked sequence always belongs. Descriptors are the means of a
network's outputs. They are kept in the cache folder: the images of a large set take hours.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch

from fedflat.core.seeds import derive, seed_torch
from fedflat.core.weight_files import named_weights
from fedflat.data.examples import AnyExamples
from fedflat.data.files import paths
from fedflat.data.k_means import Points, k_means
from fedflat.data.places.msls_files import ImageSequence, Validity, by_city
from fedflat.data.places.targets import QUERY
from fedflat.errors import DataError, SettingError
from fedflat.files import Damaged, read_file, write_file
from fedflat.registry.specs import parse

Clients = list[list[int]]
"""For each client, positions of its sequences in ascending order."""
Pick = Callable[[list[int]], tuple[int, int]]
"""Given the query sequences that can be picked, one of them and the position of an image in it."""


def proximity(
    sequences: Sequence[ImageSequence],
    radius: float,
    pick: Pick,
    *,
    rule: str = "any",
    valid: Validity = Validity(),
) -> Clients:
    clients: Clients = []
    for members in by_city(sequences).values():
        clients += _near_each_other(sequences, members, radius, pick, rule, valid)
    return clients


def _near_each_other(
    sequences: Sequence[ImageSequence],
    members: list[int],
    radius: float,
    pick: Pick,
    rule: str,
    valid: Validity,
) -> Iterator[list[int]]:
    seen = [sequences[i].where[:1] if rule == "first" else sequences[i].where for i in members]
    where = np.concatenate(seen)
    owner = np.repeat(np.arange(len(members)), [len(one) for one in seen])
    unused = np.ones(len(members), dtype=bool)
    seeds = [place for place, i in enumerate(members) if sequences[i].role == QUERY]
    while seeds:
        chosen, image = pick([members[place] for place in seeds])
        place = members.index(chosen)
        apart = np.linalg.norm(where - sequences[chosen].where[image], axis=1)
        near = np.zeros(len(members), dtype=bool)
        near[owner[apart <= radius]] = True
        near[place] = True
        client = np.flatnonzero(near & unused)
        found = [members[j] for j in client]
        if valid([sequences[i] for i in found]):
            unused[client] = False
            seeds = [seed for seed in seeds if unused[seed]]
            yield found
        else:
            seeds.remove(place)


def picked_at_random(sequences: Sequence[ImageSequence], rng: np.random.Generator) -> Pick:
    """Pick a sequence, then one of its images, all equally likely."""

    def pick(seeds: list[int]) -> tuple[int, int]:
        chosen = seeds[int(rng.integers(len(seeds)))]
        return chosen, int(rng.integers(len(sequences[chosen])))

    return pick


def clustering(
    sequences: Sequence[ImageSequence],
    descriptors: Points,
    like: Clients,
    seed: int,
    *,
    valid: Validity = Validity(),
) -> Clients:
    """Clients of similar sequences; ``like`` are proximity clients, which give the numbers."""
    clients: Clients = []
    for members in by_city(sequences).values():
        inside = set(members)
        count = sum(client[0] in inside for client in like)
        if count == 0:
            continue
        labels = k_means(descriptors[members], count, seed)
        groups = [[members[j] for j in np.flatnonzero(labels == c)] for c in range(count)]
        clients += [group for group in groups if valid([sequences[i] for i in group])]
    return clients


def random_split(
    sequences: Sequence[ImageSequence], count: int, rng: np.random.Generator
) -> Clients:
    """``count`` clients that all have sequences of every city and role."""
    piles = []
    for members in by_city(sequences).values():
        for role in sorted({sequences[i].role for i in members}):
            pile = [i for i in members if sequences[i].role == role]
            piles.append([pile[j] for j in rng.permutation(len(pile))])
    return deal(piles, count)


def deal(piles: Sequence[Sequence[int]], count: int) -> Clients:
    """Give each client something of every pile.

    >>> deal([[1, 2], [10, 11, 12, 13, 14]], 3)
    [[1, 10, 13], [2, 11, 14], [1, 12]]
    """
    clients: Clients = [[] for _ in range(count)]
    turn = 0
    for pile in piles:
        if len(pile) < count:
            for j in range(count):
                clients[j].append(pile[j % len(pile)])
            continue
        for j, one in enumerate(pile):
            if j < count:
                clients[j].append(one)
            else:
                clients[turn % count].append(one)
                turn += 1
    return clients


def draw_validation(
    clients: Clients, count: int, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Positions of the clients that train, and of ``count`` others drawn for validation."""
    if count >= len(clients):
        raise SettingError(
            f"msls: {count} clients cannot be set aside for validation, since the split has "
            f"{len(clients)}. Set validation_clients to less, or change the split."
        )
    drawn = sorted(rng.choice(len(clients), count, replace=False).tolist())
    return [i for i in range(len(clients)) if i not in drawn], drawn


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
