"""Client drift, recorded in every round.

``--record drift`` stores how far the clients' models move from the model that they received.
SCAFFOLD and FedDyn correct the local steps; the figure shows what that does to the drift.
"""

import json
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import fedflat as ff

METHODS = ["fedavg", "scaffold", "feddyn(alpha=0.1)"]

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
with tempfile.TemporaryDirectory() as folder:
    for number, method in enumerate(METHODS):
        run = Path(folder, str(number))
        ff.run(
            method,
            on="digits(lda(0), clients=20)",
            rounds=60,
            clients_per_round=5,
            local_epochs=3,
            batch_size=16,
            lr=0.05,
            record="drift",
            out=str(run),
        )
        rows = [json.loads(line) for line in (run / "recorded.jsonl").read_text().splitlines()]
        axes.plot([row["round"] for row in rows], [row["drift"] for row in rows], label=method)
axes.set(xlabel="round", ylabel="mean distance from the sent model")
axes.legend(frameon=False)
figure.savefig(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"), dpi=100)
