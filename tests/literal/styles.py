"""FedAvg with styles from a bank: CFSI and LAB, on a linear model of pixels.

Fantauzzo et al., FedDrive: Generalizing Federated Learning to Semantic Segmentation in Autonomous
Driving, IROS 2022.

    before round 0, for every image of every client:
 1      CFSI: A = |FFT2| of each channel.  LAB: mean and standard deviation of each channel in 8-bit LAB
    client k of C^t, each time it comes by its image i, if i is even:
 2      one entry of the bank that is not of k's own domain, lam ~ U(0,1)
 3      CFSI: in rows h/2 +- floor(s h), columns w/2 +- floor(s w) of the shifted spectrum  A <- (1-lam) A + lam A_bank;
              phase kept; | inverse FFT2 |
        LAB:  (x - mu) sigma_bank / sigma + mu_bank in LAB, clipped, truncated; back to red, green and blue
 4      clipped to 0..255, truncated
 5      local SGD on scores = W x / 255 + b
    server:
 6      w^{t+1} = w^t - eta_g sum_{C^t} p_k (w^t - w_k)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from literal.network import Array, Examples, cut, joined, slope
from literal.problem import Plan, Trace, local_step, weights

GUARD = 1e-3
"""Added before truncation, so that an image with its own style does not lose a level by
rounding."""


class Draws(Protocol):
    """The random numbers of one request."""

    def below(self, count: int) -> int: ...

    def uniform(self, count: int) -> Array: ...


def run(
    data: Examples,
    plan: Plan,
    *,
    kind: str,
    share: float,
    domains: list[int],
    draws: Callable[[int, int], Draws],
    classes: int,
) -> Trace:
    """Trace: server and local. ``data.x``: images (N_k, 3, h, w) of bytes; ``domains``: that of
    each client."""
    bank = [(domains[k], style(x, kind)) for k, images in enumerate(data.x) for x in images]  # 1
    pixels = int(np.prod(data.x[0].shape[1:]))
    shapes = [(classes, pixels), (classes,)]
    w_server, trace = data.w0, Trace(server=[], local=[])
    for t in range(plan.rounds):
        local = {}
        for k in plan.cohorts[t]:
            w, m, drawn = w_server, np.zeros_like(w_server), draws(t, k)
            others = [entry for domain, entry in bank if domain != domains[k]]
            for places in plan.orders[t][k]:
                x = restyled(data.x[k], places, kind, share, others, drawn)
                y = data.y[k][list(places)]
                flat = x.reshape(len(x), -1) / 255
                W, b = cut(w, shapes)
                s = slope(flat @ W.T + b, y)
                w, m = local_step(w, m, joined([s.T @ flat, s.sum(0)]), plan.lr[t], plan)  # 5
            local[k] = w
        p = weights(data, plan.cohorts[t], "sized")
        w_server = w_server - plan.server_lr * sum(p[k] * (w_server - local[k]) for k in local)  # 6
        trace.server.append(w_server)
        trace.local.append(local)
    return trace


def restyled(
    images: Array, places: Any, kind: str, share: float, others: list[Any], drawn: Draws
) -> Array:
    """A client's images at these places, the even ones with styles of others."""
    entries = [others[drawn.below(len(others))] for place in places if place % 2 == 0]  # 2
    lams = drawn.uniform(len(entries)) if kind == "cfsi" and entries else [0.0] * len(entries)
    given = iter(zip(entries, lams, strict=True))
    found = []
    for place in places:
        x = images[place].astype(np.float64)
        if place % 2 == 0:
            entry, lam = next(given)
            x = mixed(x, entry, lam, share) if kind == "cfsi" else recoloured(x, *entry)
        found.append(x)
    return np.stack(found)


def style(x: Array, kind: str) -> Any:
    if kind == "cfsi":
        return np.abs(np.fft.fft2(x.astype(np.float64))).astype(np.float32)  # as it is sent
    values = bytes_of(x)
    return values.mean((1, 2)).astype(np.float32), values.std((1, 2)).astype(np.float32)


def mixed(x: Array, other: Array, lam: float, share: float) -> Array:
    """3 and 4, CFSI."""
    found = np.empty_like(x)
    h, w = x.shape[1:]
    r, c = int(share * h), int(share * w)
    for channel in range(len(x)):
        spectrum = np.fft.fft2(x[channel])
        a = np.fft.fftshift(np.abs(spectrum))
        b = np.fft.fftshift(other[channel].astype(np.float64))
        for i in range(h // 2 - r, h // 2 + r + 1):
            for j in range(w // 2 - c, w // 2 + c + 1):
                a[i, j] = (1 - lam) * a[i, j] + lam * b[i, j]
        found[channel] = np.abs(np.fft.ifft2(np.fft.ifftshift(a) * np.exp(1j * np.angle(spectrum))))
    return np.floor(np.minimum(found + GUARD, 255))


def recoloured(x: Array, mean: Array, std: Array) -> Array:
    """3 and 4, LAB."""
    values = bytes_of(x)
    for channel in range(3):
        own = values[channel]
        sigma = own.std() or 1e-12
        values[channel] = (own - own.mean()) * (float(std[channel]) / sigma) + float(mean[channel])
    values = np.floor(np.clip(values + GUARD, 0, 255))
    found = np.empty_like(values)
    for i in range(x.shape[1]):
        for j in range(x.shape[2]):
            found[:, i, j] = rgb(*values[:, i, j])
    return found


def bytes_of(x: Array) -> Array:
    """8-bit LAB of an image."""
    found = np.empty(x.shape)
    for i in range(x.shape[1]):
        for j in range(x.shape[2]):
            found[:, i, j] = np.clip(np.round(lab(*(x[:, i, j] / 255.0))), 0, 255)
    return found


MATRIX = np.array(
    [[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]]
)
WHITE = np.array([0.950456, 1.0, 1.088754])


def lab(r: float, g: float, b: float) -> Array:
    linear = [((c + 0.055) / 1.055) ** 2.4 if c > 0.04045 else c / 12.92 for c in (r, g, b)]
    x, y, z = (MATRIX @ linear) / WHITE
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    light = 116 * fy - 16 if y > 0.008856 else 903.3 * y
    return np.array([light * 255 / 100, 500 * (fx - fy) + 128, 200 * (fy - fz) + 128])


def rgb(light: float, a: float, b: float) -> list[float]:
    light = light * 100 / 255
    fy = (light + 16) / 116 if light > 903.3 * 0.008856 else 7.787 * light / 903.3 + 16 / 116
    fs = np.array([fy + (a - 128) / 500, fy, fy - (b - 128) / 200])
    xyz = (
        np.array([f**3 if f > 7.787 * 0.008856 + 16 / 116 else (f - 16 / 116) / 7.787 for f in fs])
        * WHITE
    )
    linear = np.clip(np.linalg.solve(MATRIX, xyz), 0, 1)
    return [
        float(np.round(255 * (1.055 * c ** (1 / 2.4) - 0.055 if c > 0.0031308 else 12.92 * c)))
        for c in linear
    ]
