"""MCD: maximum classifier discrepancy, with two optimizers and three alternating steps.

Saito et al., Maximum Classifier Discrepancy for Unsupervised Domain Adaptation, CVPR 2018.

    features G (a matrix here), classifiers F_1, F_2; one labelled x_s, y_s and one unlabelled x_t
    d = mean over classes of |softmax(F_1 G x_t) - softmax(F_2 G x_t)|
 A  G, F_1, F_2:  minimise  CE(F_1 G x_s, y_s) + CE(F_2 G x_s, y_s)
 B  F_1, F_2:     minimise  the same sum - weight d
 C  G:            minimise  weight d,  ``repeats`` times

Gradients are written out by hand. Each of the two optimizers is SGD: u = g + weight_decay w;
m = momentum m + u; w = w - lr m.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.problem import Array, Trace


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def run(
    G: Array,
    F_1: Array,
    F_2: Array,
    *,
    batches: Sequence[tuple[Sequence[float], int, Sequence[float]]],
    lr: float,
    repeats: int = 4,
    weight: float = 1.0,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> Trace:
    """Trace: G, F_1, F_2 after each batch; losses and apart: the source loss and d at the start of
    each batch and after A, B and C."""
    parts = {"G": G.copy(), "F_1": F_1.copy(), "F_2": F_2.copy()}
    speed = {name: np.zeros_like(part) for name, part in parts.items()}
    trace = Trace(G=[], F_1=[], F_2=[], losses=[], apart=[])

    def source(x: Array, y: int) -> tuple[float, dict[str, Array]]:
        features, loss = parts["G"] @ x, 0.0
        slopes = {"G": np.zeros_like(G)}
        for name in ("F_1", "F_2"):
            p = softmax(parts[name] @ features)
            loss -= np.log(p[y])
            error = p - np.eye(len(p))[y]
            slopes[name] = np.outer(error, features)
            slopes["G"] = slopes["G"] + np.outer(parts[name].T @ error, x)
        return float(loss), slopes

    def apart(x: Array) -> tuple[float, dict[str, Array]]:
        features = parts["G"] @ x
        p, q = softmax(parts["F_1"] @ features), softmax(parts["F_2"] @ features)
        sign = np.sign(p - q) / len(p)
        slopes = {"G": np.zeros_like(G)}
        for name, r, direction in (("F_1", p, sign), ("F_2", q, -sign)):
            error = r * (direction - direction @ r)  # through the softmax
            slopes[name] = np.outer(error, features)
            slopes["G"] = slopes["G"] + np.outer(parts[name].T @ error, x)
        return float(np.abs(p - q).mean()), slopes

    def step(slopes: dict[str, Array], *names: str) -> None:
        for name in names:
            u = slopes[name] + weight_decay * parts[name]
            speed[name] = momentum * speed[name] + u
            parts[name] = parts[name] - lr * speed[name]

    for labelled, y, unlabelled in batches:
        x_s, x_t = np.asarray(labelled), np.asarray(unlabelled)
        losses, distances = [source(x_s, y)[0]], [apart(x_t)[0]]

        def note(
            losses: list[float] = losses, distances: list[float] = distances, x=x_s, y=y, t=x_t
        ) -> None:
            losses.append(source(x, y)[0])
            distances.append(apart(t)[0])

        step(source(x_s, y)[1], "G", "F_1", "F_2")  # A
        note()
        up, fit = apart(x_t)[1], source(x_s, y)[1]
        step({name: fit[name] - weight * up[name] for name in ("F_1", "F_2")}, "F_1", "F_2")  # B
        note()
        for _ in range(repeats):
            step({"G": weight * apart(x_t)[1]["G"]}, "G")  # C
        note()
        for name, part in parts.items():
            getattr(trace, name).append(part)
        trace.losses.append(losses)
        trace.apart.append(distances)
    return trace
