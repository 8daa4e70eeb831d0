"""Draws docs/chains.png: FedAvg, FedSeq and FedSeq2Par against visits, what passes the server, and
simulated hours.

    python docs/chains.py [FILE]

The numbers are those of results/chains-*, runs which evidence.md describes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib import pyplot

RESULTS = Path(__file__).parent.parent / "results"
SETS = {
    "chains-cifar10": "CIFAR-10, 100 clients",
    "chains-100classes": "100 classes, 500 clients",
    "chains-shakespeare": "Shakespeare, 100 roles",
}
LOOKS = {
    "fedavg": ("FedAvg", "#0067a5", "-"),
    "fedseq": ("FedSeq", "#c44d00", "--"),
    "fedseq2par": ("FedSeq2Par", "#007f5b", ":"),
}


def against(row: dict[str, Any]) -> dict[str, float]:
    """What an evaluation is drawn against; before the first round clients are visited to describe
    themselves."""
    return {
        "visits": row["models_s2c"] + row.get("models_c2c", 0),
        "GB between server and clients": (row["down"] + row["up"]) / 1e9,
        "simulated hours": row["clock"] / 3600,
    }


def main(path: Path) -> None:
    """Write the picture."""
    there = [name for name in SETS if (RESULTS / name).is_dir()]
    pyplot.rcParams.update({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = pyplot.subplots(
        len(there),
        3,
        figsize=(8, 0.3 + 2.1 * len(there)),
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for line, name in zip(axes, there, strict=True):
        for folder in sorted((RESULTS / name).glob("*/seed-0")):
            setting = json.loads((folder / "run.json").read_text())["experiment"]
            rows = [json.loads(one) for one in (folder / "metrics.jsonl").read_text().splitlines()]
            label, colour, dash = LOOKS[setting["method"].split("(")[0]]
            places = [against(row) for row in rows]
            for axis, called in zip(line, places[0], strict=True):
                x, y = [place[called] for place in places], [100 * row["accuracy"] for row in rows]
                axis.plot(x, y, color=colour, linestyle=dash, linewidth=1.2, label=label)
                axis.set(xlabel=called)
        line[0].set(ylabel=f"{SETS[name]}\naccuracy, %")
    axes[0, 0].legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("chains.png"))
