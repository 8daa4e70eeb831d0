"""Accuracy against simulated time: a server that does not wait.

Devices have very different speeds. FedAvg waits for the slowest client of each round. FedBuff makes
a step after every five replies. The time is simulated: nothing is measured on this machine.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import fedflat as ff

settings = {
    "on": "digits(lda(1), clients=40)",
    "clients_per_round": 10,
    "batch_size": 16,
    "lr": 0.05,
    "clock": "devices(speed=lognormal(50, 1))",
}
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for method, rounds in (("fedavg", 60), ("fedbuff(buffer=5)", 200)):
    result = ff.run(method, rounds=rounds, eval_every=max(1, rounds // 30), **settings)
    time = [row["clock"] for row in result.rows]
    axes.plot(time, [100 * row["accuracy"] for row in result.rows], marker=".", label=method)
axes.set(xlabel="simulated seconds", ylabel="accuracy %")
axes.legend(frameon=False)
figure.savefig(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"), dpi=100)
