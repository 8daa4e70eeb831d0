"""Accuracy against bytes: compressed updates.

Three ways to send the same updates: as they are, with 8 bits per number, and only the largest two
per cent. Errors are fed back, so little accuracy is lost. Bytes count both directions; only replies
are compressed.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import fedflat as ff

METHODS = ["fedavg()", "fedavg() + int8()", "fedavg() + top_k(share=0.02)"]

results = ff.compare(
    METHODS,
    on="digits(lda(1), clients=20)",
    rounds=80,
    clients_per_round=5,
    batch_size=16,
    lr=0.05,
    eval_every=4,
)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for result in results:
    sent = [row["up"] / 1e6 for row in result.rows]
    axes.plot(sent, [100 * row["accuracy"] for row in result.rows], marker=".", label=result.method)
axes.set(xlabel="megabytes from clients to the server", ylabel="accuracy %", xscale="log")
axes.legend(frameon=False)
figure.savefig(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"), dpi=100)
