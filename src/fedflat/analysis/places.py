"""What queries retrieve: positions of right and wrong answers, and images side by side."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedflat.analysis.analysis import AnalysisJob, Result
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.pictures import encode_image, levels, predictions, scored_tests
from fedflat.core.flat import Model
from fedflat.data.examples import ClientData
from fedflat.data.places.targets import Places
from fedflat.tasks.recall import Retrieved, retrieve
from fedflat.tasks.retrieval import Retrieval

AREA_FACETS = ("city", "town", "set")
"""Facets whose values are areas with a map of their own."""
EVERYWHERE = "everywhere"
WIDTH = 160
"""Largest width of a stored image in pixels."""
SHOWN_CLIENTS, SHOWN_POINTS = 200, 24
"""Most clients on the maps, and most points of a client."""


def compute_places(job: AnalysisJob, each: int) -> Result:
    """Return maps of all test sets, some queries with their nearest images, and the clients."""
    loaded, (_, model) = job.loaded, job.loaded.model(job.scope.model)
    tests = scored_tests(loaded)
    sets: dict[str, Result] = {}
    for done, (name, data) in enumerate(tests.items()):
        found = _set(loaded, model, data, each)
        if found is not None:
            sets[name] = found
        job.on_progress(done + 1, len(tests) + 1, name)
    clients = _clients(loaded)
    job.on_progress(len(tests) + 1, len(tests) + 1, "clients")
    return {"sets": sets, "clients": clients}


def _set(loaded: LoadedRun, model: Model, data: ClientData, each: int) -> Result | None:
    task = loaded.setup.exp.task
    assert isinstance(task, Retrieval)
    places = Places.of(data.targets)
    descriptors = torch.empty(len(data), 0, dtype=torch.float64)
    for rows, _, output in predictions(loaded, model, data):
        if not descriptors.shape[1]:
            descriptors = torch.zeros(len(data), output.shape[1], dtype=torch.float64)
        descriptors[rows.cpu()] = output.double().cpu()
    queries, database = places.queries, places.database
    if len(queries) == 0 or len(database) == 0:
        return None
    parts = [Places(places.where[rows], None, places.numbered) for rows in (queries, database)]
    found = retrieve(
        descriptors[queries],
        parts[0],
        descriptors[database],
        parts[1],
        task.beyond,
        itself=places.roles is None,
    )
    return _described(data, places, found, task, each)


def _described(
    data: ClientData, places: Places, found: Retrieved, task: Retrieval, each: int
) -> Result:
    areas, queries, database = areas_of(data), places.queries, places.database
    nearest = database[found.order[:, 0]]
    metres = torch.linalg.vector_norm(places.where[queries] - places.where[nearest], dim=1)
    rows = [
        {
            "area": areas[query],
            "x": round(float(places.where[query][0]), 1),
            "y": round(float(places.where[query][1]), 1),
            "right": bool(found.right[i, 0]),
            "possible": bool(found.possible[i]),
            "metres": round(float(metres[i]), 1),
        }
        for i, query in enumerate(queries.tolist())
    ]
    chosen = examples_of(found, each)
    return {
        "queries": rows,
        "database": [
            {"area": areas[i], "x": round(float(x), 1), "y": round(float(y), 1)}
            for i, (x, y) in zip(database.tolist(), places.where[database].tolist(), strict=True)
        ],
        "examples": [
            rows[i]
            | {
                "query": _image(data, int(queries[i])),
                "found": _image(data, int(nearest[i])),
            }
            for i in chosen
        ],
        "recall": [found.recall(n, all_queries=task.queries == "all") for n in (1, 5, 10)],
        "without_positive": int((~found.possible).sum()),
    }


def examples_of(found: Retrieved, each: int) -> list[int]:
    """Positions of ``each`` right and ``each`` wrong queries, evenly spaced."""
    first = found.right[:, 0] & found.possible
    chosen = []
    for wanted in (first, ~found.right[:, 0] & found.possible):
        places = wanted.nonzero().squeeze(1).tolist()
        count = min(each, len(places))
        chosen += [places[(2 * i + 1) * len(places) // (2 * count)] for i in range(count)]
    return chosen


def areas_of(data: ClientData) -> list[str]:
    """The area of each example: its city or town, if these are known."""
    domains = data.domains
    facet = next((f for f in AREA_FACETS if domains and f in domains.facets), None)
    if domains is None or facet is None:
        return [EVERYWHERE] * len(data)
    place = domains.facets.index(facet)
    return [domain[place] for domain in domains.each]


def _clients(loaded: LoadedRun) -> list[Result]:
    """Some points of each client, for the maps of the areas where it is."""
    fed: Any = loaded.setup.fed
    if not fed.here:
        return []
    count = min(fed.population, SHOWN_CLIENTS)
    clients = []
    for client in (place * fed.population // count for place in range(count)):
        data = fed.data(client)
        areas, where = areas_of(data), Places.of(data.targets).where
        step = -(-len(data) // SHOWN_POINTS)
        points = [
            [areas[i], round(float(where[i][0]), 1), round(float(where[i][1]), 1)]
            for i in range(0, len(data), step)
        ]
        clients.append({"client": client, "images": len(data), "points": points})
    return clients


def _image(data: ClientData, row: int) -> str:
    index: Tensor = data.index[row : row + 1]
    return encode_image(levels(data.examples.raw(index))[0], WIDTH)
