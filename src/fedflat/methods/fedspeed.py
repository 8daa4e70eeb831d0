"""FedSpeed: mixed plain and perturbed gradients, a proximal term, and corrected uploads.

Sun et al., FedSpeed: Larger Local Interval, Less Communication Round, and Higher Generalization
Accuracy, ICLR 2023.

    client   g1 = g_k(w);  g2 = g_k(w + rho g1/||g1||)
             u  = (1-a) g1 + a g2 - sigma_k + (w - w_sent)/lam
             sigma_k <- sigma_k - (w_k - w_sent)/lam;    sends z_k = w_k - lam sigma_k
    server   w <- mean(z_k)

The paper writes the ascent as ``rho g1`` and tunes ``rho`` by the norm of ``g1``; its code
normalises, and so do we. The released code has no correction at the client but FedDyn's server rule
and ``a = 1``: that is ``server="feddyn"``.

``fedspeed(...) + fsa(...)`` is FedSpeed with FedFSA's radii in place of its own: ``g2`` is taken at
``w + eps`` of FedFSA, and the mixing stays. With ``server="feddyn"`` that is FedDyn with FedFSA's
steps, as in FedFSA's code.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn, unit
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import SettingError, choice, number
from fedflat.methods.feddyn import Dual, ServerDual
from fedflat.methods.fedfsa import Fsa


@dataclass(frozen=True, repr=False)
class Blend(Piece):
    """A mixture of the plain gradient and that of SAM."""

    rho: Scalar
    a: Scalar

    stage, key = Stage.PROBE, "blend"
    stackable = True

    def __post_init__(self) -> None:
        scalar("fedspeed", "rho", self.rho)
        scalar("fedspeed", "a", self.a, high=1)

    @property
    def oracle_calls(self) -> int:
        return 2

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        g1 = grad(w)
        g2 = grad(torch.add(w, unit(g1), alpha=at(self.rho, v.round)))
        return torch.lerp(g1, g2, at(self.a, v.round))

    def joined(self, other: Piece) -> Piece | None:
        """Mix the plain gradient with that of FedFSA."""
        if type(other) is not Fsa:
            return None
        return FsaBlend(
            other.rho, other.rho_larger, other.top, other.score, other.selection, self.a
        )


@dataclass(frozen=True, repr=False)
class FsaBlend(Fsa):
    """A mixture of the plain gradient and that of FedFSA."""

    a: Scalar = 1.0

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return ``(1-a) g1 + a g2`` with ``g2`` at FedFSA's perturbed point."""
        g1 = grad(w)
        return torch.lerp(g1, self.perturbed(v, grad, w, g1), at(self.a, v.round))


@dataclass(frozen=True, repr=False)
class CorrectedDual(Dual):
    """FedDyn's dual at the client, which also corrects the upload."""

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Return ``w_k - lam sigma_k`` with the new ``sigma_k``."""
        return super().end(v, w) - v.state["sigma"] / self.length(v)


@method
def fedspeed(
    rho: Scalar = 0.1, a: Scalar | None = None, lam: float = 100.0, server: str = "paper"
) -> Method:
    """Mixed gradients, proximal term and corrected uploads (Sun et al., ICLR 2023).

    ``a`` is the share of the perturbed gradient, by default 0.95. ``server="feddyn"`` is the
    released code, which has ``a = 1``.
    """
    choice("fedspeed", "server", server, ["paper", "feddyn"])
    number("fedspeed", "lam", lam, low=0, open_low=True)
    if server == "feddyn":
        if a not in (None, 1):
            raise SettingError(
                "fedspeed: server='feddyn' is the released code, whose gradient is all perturbed "
                f"(a=1), found a={a!r}. Leave a out, or server='feddyn'."
            )
        client, at_server = (Blend(rho, 1.0), Dual(1 / lam)), (ServerDual(1 / lam),)
        return Method(client=client, server=at_server, weighting="uniform")
    return Method(
        client=(Blend(rho, 0.95 if a is None else a), CorrectedDual(1 / lam)), weighting="uniform"
    )
