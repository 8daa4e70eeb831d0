"""Accuracy over rounds, with a band over seeds.

Four methods on clients with one class each. Lines are means over three seeds, bands go from the
smallest to the largest. All methods of one seed use the same clients and batches.
"""

import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import fedflat as ff

METHODS = ["fedavg", "fedsam(rho=0.2)", "feddyn(alpha=0.1)", "fedgloss(rho_s=0.15, rho_l=0.15)"]

results = ff.compare(
    METHODS,
    on="digits(lda(0), clients=50)",
    rounds=150,
    clients_per_round=5,
    batch_size=16,
    lr=0.05,
    eval_every=5,
    eval_last=1,
    seeds=3,
)
curves = defaultdict(list)
for result in results:
    curves[result.method].append([row["accuracy"] for row in result.rows])
rounds = [row["round"] for row in results[0].rows]

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for method, values in curves.items():
    axes.plot(rounds, 100 * np.mean(values, axis=0), label=method)
    axes.fill_between(rounds, 100 * np.min(values, 0), 100 * np.max(values, 0), alpha=0.15)
axes.set(xlabel="round", ylabel="accuracy %")
axes.legend(frameon=False)
figure.savefig(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"), dpi=100)
