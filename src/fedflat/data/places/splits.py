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
``"first"``: its first image. The picked sequence always belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fedflat.data.k_means import Points, k_means
from fedflat.data.places.sequences import ImageSequence, Validity, by_city
from fedflat.data.places.targets import QUERY
from fedflat.errors import SettingError

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
    """Clients of neighbouring sequences, city by city."""
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
