"""A method of your own, compared with FedAvg.

The method takes each gradient at a random point at distance ``rho``. It is a frozen dataclass with
one function. ``+`` combines it with any other method.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

import fedflat as ff


@dataclass(frozen=True, repr=False)
class Smooth(ff.Piece):
    """The gradient at a random point nearby."""

    rho: float = 0.05
    stage, key = ff.Stage.PROBE, "smooth"

    def gradient(self, v, grad, w):
        """One gradient, at another point."""
        noise = v.draw(lambda rng: torch.randn(w.shape[-1], generator=rng)).to(w)
        return grad(w + self.rho * noise / noise.norm())


@ff.method
def smooth(rho: float = 0.05) -> ff.Method:
    """The gradient at a random point at distance ``rho``."""
    return ff.Method(client=(Smooth(rho),))


results = ff.compare(
    ["fedavg", "smooth(rho=0.5)", "smooth(rho=0.5) + feddyn(alpha=0.1)"],
    on="digits(lda(1), clients=20)",
    rounds=60,
    clients_per_round=5,
    batch_size=16,
    lr=0.05,
    eval_every=3,
)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for result in results:
    rounds = [row["round"] for row in result.rows]
    axes.plot(rounds, [100 * row["accuracy"] for row in result.rows], label=result.method)
axes.set(xlabel="round", ylabel="accuracy %")
axes.legend(frameon=False)
figure.savefig(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"), dpi=100)
