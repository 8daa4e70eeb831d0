"""The loss around two models.

FedAvg and FedSAM are trained on the same clients. Then the loss is computed on a grid around each
model, along two random directions that both share. A wider bowl is a flatter minimum.
"""

import json
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from fedflat.cli import main

SETTINGS = ["--on", "digits(lda(1), clients=20)", "--rounds", "80", "--clients-per-round", "5"]
SETTINGS += ["--batch-size", "16", "--lr", "0.05", "--quiet"]
METHODS = {"fedavg": "FedAvg", "fedsam(rho=0.3)": "FedSAM"}

figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
with tempfile.TemporaryDirectory() as folder:
    for place, (method, name) in zip(axes, METHODS.items(), strict=True):
        run = Path(folder, name)
        main(["run", method, *SETTINGS, "--out", str(run)])
        main(["analyse", str(run), "--surface", "--points", "13", "--examples", "300", "--quiet"])
        [file] = (run / "analysis").glob("surface-*.json")
        surface = json.loads(file.read_text())
        surface = surface.get("result", surface)
        loss = np.array(surface["loss"], dtype=float)
        drawn = place.contourf(
            surface["x"], surface["y"], loss, levels=np.linspace(0, 8, 17), extend="max"
        )
        place.plot(0, 0, "w+")
        place.set(title=name, xlabel="first direction", aspect="equal")
axes[0].set_ylabel("second direction")
figure.colorbar(drawn, ax=axes, label="loss")
figure.savefig(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"), dpi=100)
