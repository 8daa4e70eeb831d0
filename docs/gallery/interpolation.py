"""The loss on the line between two models.

Two runs from the same first weights with different cohorts. Between their models the loss hardly
rises, or there is a barrier. The line is extended on both sides.
"""

import json
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from fedflat.cli import main

SETTINGS = ["--on", "digits(lda(1), clients=20)", "--rounds", "60", "--clients-per-round", "5"]
SETTINGS += ["--batch-size", "16", "--lr", "0.05", "--quiet"]

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
with tempfile.TemporaryDirectory() as folder:
    for method, name in (("fedavg", "FedAvg"), ("fedsam(rho=0.3)", "FedSAM")):
        runs = [str(Path(folder, f"{name}-{seed}")) for seed in (0, 1)]
        for seed, run in enumerate(runs):
            main(["run", method, *SETTINGS, "--seed", str(seed), "--out", run])
        main(["analyse", *runs, "--interpolate", *runs, "--examples", "300", "--quiet"])
        [file] = Path(runs[0], "analysis").glob("interpolate-*.json")
        line = json.loads(file.read_text())
        line = line.get("result", line)
        axes.plot(line["gamma"], line["loss"], label=name)
axes.set(xlabel="0: seed 1, 1: seed 0", ylabel="loss on the test set", ylim=(0, 6))
axes.legend(frameon=False)
figure.savefig(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"), dpi=100)
