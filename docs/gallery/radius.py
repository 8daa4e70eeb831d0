"""How large SAM's radius should be.

The final accuracy of FedSAM for several radii, with three seeds each. The dashed line is FedAvg. A
choice by such a figure is a choice on the test set: report it as one.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import fedflat as ff

RADII = [0.02, 0.05, 0.1, 0.2, 0.5]

results = ff.compare(
    ["fedavg", *(f"fedsam(rho={rho})" for rho in RADII)],
    on="digits(lda(0), clients=50)",
    rounds=100,
    clients_per_round=5,
    batch_size=16,
    lr=0.05,
    seeds=3,
)
scores = {}
for result in results:
    scores.setdefault(result.method, []).append(100 * result.final())
plain = scores.pop("fedavg()")

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
means = [np.mean(values) for values in scores.values()]
spread = [np.std(values, ddof=1) for values in scores.values()]
axes.errorbar(RADII, means, spread, marker="o", capsize=3, label="FedSAM")
axes.axhline(np.mean(plain), linestyle="--", color="grey", label="FedAvg")
axes.set(xscale="log", xlabel="rho", ylabel="final accuracy %", xticks=RADII, xticklabels=RADII)
axes.minorticks_off()
axes.legend(frameon=False)
figure.savefig(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"), dpi=100)
