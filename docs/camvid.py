"""Draws docs/camvid.png: frames of CamVid, what is there, and what each method of its table sees.

fedflat analyse runs/reproduce-feddrive-camvid --pictures
python docs/camvid.py runs/reproduce-feddrive-camvid [FILE]
"""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import pyplot
from PIL import Image

METHODS = {
    "fedavg": "FedAvg",
    "silobn": "SiLoBN",
    "fedavg-cfsi": "FedAvg + CFSI",
    "fedavg-lab": "FedAvg + LAB",
    "fedasam": "FedASAM",
    "fedasam-swa": "FedASAM + SWA",
    "fedgloss": "FedGloSS",
    "centralised": "in one place",
}


def seen(folder: Path) -> list[dict[str, Any]]:
    """The examples that an analysis has kept of a run, those of the sequence that nobody has at the
    end."""
    [path] = (folder / "analysis").glob("pictures-*.json")
    sets = json.loads(path.read_text())["result"]["sets"]
    return [example for name in ("test", "unseen") for example in sets[name]]


def main(runs: Path, path: Path) -> None:
    """Write the picture."""
    found = {
        label: seen(runs / f"camvid-dusk-seen-{name}" / "seed-0") for name, label in METHODS.items()
    }
    first = next(iter(found.values()))
    pyplot.rcParams.update({"font.size": 7})
    figure, axes = pyplot.subplots(
        len(first),
        2 + len(found),
        figsize=(12, 0.98 * len(first)),
        layout="constrained",
        squeeze=False,
    )
    for row, example in enumerate(first):
        masks = {label: examples[row] for label, examples in found.items()}
        assert {one["place"] for one in masks.values()} == {example["place"]}
        cells = {"image": example["image"], "truth": example["truth"]} | {
            k: one["mask"] for k, one in masks.items()
        }
        for axis, (label, picture) in zip(axes[row], cells.items(), strict=True):
            axis.imshow(Image.open(BytesIO(b64decode(picture))).convert("RGB"))
            axis.set(xticks=[], yticks=[])
            if row == 0:
                axis.set_title(label)
            if label in masks:
                axis.set_xlabel(f"{100 * masks[label]['score']:.0f} %", labelpad=1)
        axes[row, 0].set_ylabel(example["domain"] or "0001TP (dusk)")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).with_name("camvid.png"),
    )
