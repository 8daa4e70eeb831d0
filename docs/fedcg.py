"""Draws docs/fedcg.png: accuracy, purity of found domains, and graphs of the runs in results/.

python docs/fedcg.py [FILE]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot

RESULTS = Path(__file__).parents[1] / "results"
NAMES = {
    "fedavg": "FedAvg",
    "fedprox-mu=0.01": "FedProx",
    "scaffold": "SCAFFOLD",
    "fedcg-found": "FedCG, found domains",
    "fedcg-found-from-zero": "FedCG, found, $\\lambda$ from 0",
    "fedcg-oracle": "FedCG, known domains",
    "domain-models": "separate models",
    "domain-models-domains=4": "separate models",
    "ifca-models=4": "IFCA",
}


def rows(run: Path, log: str = "metrics") -> list[dict[str, Any]]:
    """The rows of a log."""
    return [json.loads(line) for line in (run / f"{log}.jsonl").read_text().splitlines()]


def methods(folder: Path) -> dict[str, list[Path]]:
    """The runs of each method, one per seed."""
    return {
        NAMES[place.name.partition("-")[2]]: sorted(place.glob("seed-*"))
        for place in sorted(folder.glob("[0-9]*"))
    }


def curve(axis: Any, runs: Sequence[Path], log: str, key: str, **style: Any) -> None:
    """The mean over seeds, with a line per seed in the background."""
    found = [
        [(row["round"], 100 * row[key]) for row in rows(run, log) if key in row] for run in runs
    ]
    rounds, values = (np.array([[point[i] for point in one] for one in found]) for i in (0, 1))
    (line,) = axis.plot(rounds[0], values.mean(0), **style)
    for one in values:
        axis.plot(rounds[0], one, color=line.get_color(), alpha=0.3, linewidth=0.8)


def graph(axis: Any, run: Path, title: str) -> None:
    """The last graph of a run, without its diagonal of 0.5."""
    entries = [row["domain_graph"] for row in rows(run, "recorded") if "domain_graph" in row][-1]
    size = round(len(entries) ** 0.5)
    matrix = np.array(entries).reshape(size, size)
    shown = np.where(np.eye(size, dtype=bool), np.nan, matrix)
    image = axis.imshow(shown, cmap="viridis")
    axis.set(title=title, xlabel="domain", ylabel="domain", xticks=range(size), yticks=range(size))
    pyplot.colorbar(image, ax=axis, shrink=0.8)


def main(path: Path) -> None:
    """Write the picture."""
    figure, axes = pyplot.subplots(2, 4, figsize=(18, 8.4), layout="constrained")
    for line, (data, title) in zip(
        axes,
        (("fashion", "Fashion-MNIST in four rotations"), ("omniglot", "Omniglot, eight alphabets")),
        strict=True,
    ):
        runs = methods(RESULTS / f"fedcg-{data}")
        for name, mine in runs.items():
            curve(line[0], mine, "metrics", "accuracy", label=name)
        line[0].set(title=title, xlabel="round", ylabel="test accuracy %")
        line[0].legend(fontsize=8)
        found = [name for name in runs if "found" in name]
        for name in found:
            curve(line[1], runs[name], "recorded", "domain_purity", label=f"{name}: purity")
            curve(
                line[1],
                runs[name],
                "recorded",
                "domain_information",
                label=f"{name}: mutual information",
                linestyle="--",
            )
        line[1].set(title="Found against known domains", xlabel="round", ylabel="%", ylim=(-3, 103))
        line[1].legend(fontsize=8)
        graph(line[2], runs[found[0]][0], "A at the end, found domains (seed 0)")
        graph(line[3], runs["FedCG, known domains"][0], "A at the end, known domains (seed 0)")
    figure.savefig(path, dpi=70)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
