"""How long it takes to put 3,500 clients (FEMNIST's number) into groups.

python benchmarks/grouping.py [--clients 3500]
"""

from __future__ import annotations

import argparse
from time import perf_counter, process_time

import numpy as np

from fedflat.registry.specs import parse

CASES = (
    ("random(d_min=4120, k_max=21)", 62),
    ('kmeans(psi="confidence", d_min=4120, k_max=21)', 62),
    ('kmeans(psi="task2vec", d_min=4120, k_max=21)', 4800),
    ('greedy(psi="confidence", tau="kl", d_min=4120, k_max=21)', 62),
    ('greedy(psi="classifier", tau="cosine", d_min=4120, k_max=21)', 700),
    ('greedy(psi="task2vec", tau="norm_cosine", d_min=4120, k_max=21)', 700),
    ('icg(20, psi="confidence")', 62),
    ('icg(175, psi="confidence")', 62),
    ('icg(1000, psi="confidence")', 62),
)
"""The text, and how many numbers describe a client."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=3500)
    clients = parser.parse_args().clients
    for text, length in CASES:
        rng = np.random.default_rng(0)
        sizes = rng.integers(100, 350, clients).tolist()
        vectors = rng.dirichlet(np.full(length, 0.3), clients)
        grouping = parse(text, "grouping")
        start, busy = perf_counter(), process_time()
        groups = grouping.assign(vectors, sizes, rng, classes=62)
        took = f"{perf_counter() - start:6.2f} s ({process_time() - busy:6.2f} s of a core)"
        print(f"{took}  {len(groups):5d} groups  {text} of {length} numbers", flush=True)


if __name__ == "__main__":
    main()
