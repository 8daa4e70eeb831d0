"""FedCG's round. Caldarola et al., Cluster-driven Graph Federated Learning over Multiple Domains,
2021.

The network: a = tanh(W1 x + b1), z = (W2 a + b2) + lam sum_d w_d (the same layer with row d of
Vh); rows are the weight row by row, then the bias. The classifiers: one linear layer each.

    client k of C^t, from what the server sent, with A and the teacher fixed:
 1      dh = argmax of the teacher's scores, the lowest of equal ones; once for all its images
 2      Vh = relu(A V P);  per batch, from the parameters before the step: gradient of the mean of
        CE(z, y) with w one-hot at dh, by W1, b1, W2, b2, V, P, lam; and of CE(student, dh)
 3      one step of SGD for everything
    server:
 4      means by N_k of everything that was trained
 5      A_ii = beta, A_ij = (1 - beta) h_ij / sum_{m != i} h_im, h_ij = 1 / |V_i - V_j|
 6      every T rounds (completed) the teacher is the student
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from literal.problem import Array, Plan, Trace, local_step

Parts = dict[str, Array]


def run(
    x: list[Array],
    y: list[Array],
    start: Parts,
    teacher: tuple[Array, Array],
    plan: Plan,
    *,
    every: int,
    beta: float = 0.5,
    relu: bool = True,
    projection: bool = True,
    agnostic: bool = True,
    adjacency: str = "distance",
    graph_from: int = 1,
    known: list[Array] | None = None,
    first: Array | None = None,
) -> Trace:
    """``start``: W1, b1, W2, b2, V, P, lam, S, s (the student); those that are absent are not used.
    ``first``: A of the first round, if it is neither the identity nor uniform.

    Trace: models, graphs, teachers of each round, and domains (those found, by round and client).
    """
    parts, (teach, shift) = copy.deepcopy(start), teacher
    domains = len(parts["V"])
    graph = np.eye(domains) if adjacency != "uniform" else np.full((domains,) * 2, 1 / domains)
    graph = graph if first is None else first
    options = {"relu": relu, "projection": projection, "agnostic": agnostic}
    trace = Trace(models=[], graphs=[], teachers=[], domains=[])
    for t in range(plan.rounds):
        ended, found = {}, {}
        for k in plan.cohorts[t]:
            labels = [int(np.argmax(teach @ image + shift)) for image in x[k]]
            found[k] = list(known[k]) if known is not None else labels
            mine, speed = (
                copy.deepcopy(parts),
                {name: np.zeros_like(v) for name, v in parts.items()},
            )
            for batch in plan.orders[t][k]:
                slopes = {name: np.zeros_like(value) for name, value in mine.items()}
                for i in batch:
                    one = gradient(mine, graph, x[k][i], int(y[k][i]), int(found[k][i]), **options)
                    for name, value in one.items():
                        slopes[name] += value / len(batch)
                for name in mine:
                    mine[name], speed[name] = local_step(
                        mine[name], speed[name], slopes[name], plan.lr[t], plan
                    )
            ended[k] = mine
        total = sum(len(x[k]) for k in ended)
        parts = {
            name: sum(len(x[k]) / total * mine[name] for k, mine in ended.items()) for name in parts
        }
        if adjacency == "distance" and t + 1 >= graph_from:
            graph = neighbours(parts["V"], beta)
        if every and (t + 1) % every == 0 and "S" in parts:
            teach, shift = parts["S"].copy(), parts["s"].copy()
        trace.models.append(parts)
        trace.graphs.append(graph)
        trace.teachers.append((teach, shift))
        trace.domains.append(found)
    return trace


def neighbours(rows: Array, beta: float) -> Array:
    """Line 5."""
    count = len(rows)
    graph = np.zeros((count, count))
    for i in range(count):
        near = [0 if j == i else 1 / np.linalg.norm(rows[i] - rows[j]) for j in range(count)]
        for j in range(count):
            graph[i, j] = beta if i == j else (1 - beta) * near[j] / sum(near)
    return graph


def gradient(
    p: Parts,
    graph: Array,
    x: Array,
    y: int,
    d: int,
    *,
    relu: bool,
    projection: bool,
    agnostic: bool,
) -> Parts:
    """The gradients of one image's two losses, by the chain rule."""
    a = np.tanh(p["W1"] @ x + p["b1"])
    outputs, inputs = len(p["b1"]), len(p["b1"])
    classes = (p["V"].shape[1]) // (inputs + 1)
    outputs = classes
    mixed = graph @ p["V"]
    before = mixed @ p["P"] if projection else mixed
    row = np.maximum(before[d], 0) if relu else before[d]
    weight, bias = row[: outputs * inputs].reshape(outputs, inputs), row[outputs * inputs :]
    branch = weight @ a + bias
    lam = p["lam"][0] if agnostic else 1.0
    z = lam * branch + (p["W2"] @ a + p["b2"] if agnostic else 0)
    dz = softmax(z)
    dz[y] -= 1
    found: Parts = {}
    if agnostic:
        found |= {"W2": np.outer(dz, a), "b2": dz, "lam": np.array([dz @ branch])}
    slope = np.concatenate([np.outer(lam * dz, a).ravel(), lam * dz])
    slope = np.where(before[d] > 0, slope, 0) if relu else slope
    rows = np.zeros_like(p["V"])
    rows[d] = slope
    if projection:
        found["P"] = mixed.T @ rows
        rows = rows @ p["P"].T
    found["V"] = graph.T @ rows
    da = lam * (weight.T @ dz) + (p["W2"].T @ dz if agnostic else 0)
    dh = da * (1 - a**2)
    found |= {"W1": np.outer(dh, x), "b1": dh}
    if "S" in p:
        ds = softmax(p["S"] @ x + p["s"])
        ds[d] -= 1
        found |= {"S": np.outer(ds, x), "s": ds}
    return found


def output(
    p: Parts, graph: Array, x: Array, *, soft: bool, d: int | None = None, **options: Any
) -> Array:
    """The scores of one image: with its domain, or with the student's probabilities."""
    relu, projection = options.get("relu", True), options.get("projection", True)
    agnostic = options.get("agnostic", True)
    a = np.tanh(p["W1"] @ x + p["b1"])
    rows = graph @ p["V"] @ (p["P"] if projection else np.eye(p["V"].shape[1]))
    rows = np.maximum(rows, 0) if relu else rows
    if d is None:
        w = softmax(p["S"] @ x + p["s"])
        w = w if soft else np.eye(len(w))[int(np.argmax(w))]
    else:
        w = np.eye(len(rows))[d]
    inputs = len(a)
    z = np.zeros(rows.shape[1] // (inputs + 1))
    for weight, row in zip(w, rows, strict=True):
        cut = len(z) * inputs
        z = z + weight * (row[:cut].reshape(len(z), inputs) @ a + row[cut:])
    return p["W2"] @ a + p["b2"] + p["lam"][0] * z if agnostic else z


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max())
    return np.asarray(e / e.sum())
