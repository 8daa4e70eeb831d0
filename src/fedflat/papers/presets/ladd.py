"""Federated source-free domain adaptation: only the server has labels, of another domain.

Shenaj et al., Learning Across Domains and Devices: Style-Driven Source-Free Domain Adaptation in
Clustered Federated Learning (LADD), WACV 2023, arXiv:2210.02326; tables are numbered as in
Caldarola's doctoral thesis.

    ladd/cityscapes-ladd-cls              Table 5.6: GTA5 at the server, Cityscapes at 144 clients
    ladd/crosscity-ladd-all               Table 5.7: CrossCity at 476 clients
    ladd/mapillary-self-training          Table 5.8: Mapillary Vistas at 357 clients
    ladd/cityscapes-central-source-only   centralised training on the source, tested on the target
    ladd/cityscapes-fed-ftda              the source model fine-tuned with the target's labels
    ladd/street-ladd-cls                  the same rows on generated streets; no number
    ladd/camvid-ladd-cls                  the same rows from generated streets to CamVid; no number
    ladd/cityscapes                       the column's main run, LADD (cls)

Reported is the mean IoU. The thesis does not say over which rounds: ours are means over the last
100. Networks start from random weights: those of ImageNet, which the authors use, are not
available. Cityscapes' clients have every scene twice, the second time mirrored. The rates of
centralised and of supervised training are not printed: we use those of the source's training and of
LADD. The learning rate of the source's training falls with every epoch, the authors' with every
step. Left out: DAFormer, which needs a transformer and a sampler for rare classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fedflat.papers.presets.preset import Preset, PublishedCell, rows

TABLE_5_6 = """
    central-oracle      66.64±0.33
    central-source-only 24.05±1.14
    central-ftda        65.74±0.48
    central-mcd         20.55±2.66
    fed-oracle          58.16±1.02
    fed-ftda            59.35±0.61
    fed-mcd             10.86±0.67
    self-training       35.10±0.73
    ladd-cls            36.49±0.13
    ladd-all            36.49±0.14"""

TABLE_5_7 = """
    central-source-only 26.49±1.46
    central-mcd         27.15±0.87
    fed-mcd             24.80±1.56
    self-training       33.59±1.25
    ladd-cls            39.87±0.14
    ladd-all            40.09±0.19"""

TABLE_5_8 = """
    central-oracle      61.46±0.21
    central-source-only 32.40±0.71
    central-mcd         31.93±1.89
    fed-oracle          49.91±0.49
    fed-mcd             19.15±0.75
    self-training       38.97±0.21
    ladd-cls            40.16±1.02
    ladd-all            38.78±1.82"""

EVERY_ROW = [line.split()[0] for line in TABLE_5_6.strip().splitlines()]


@dataclass(frozen=True)
class World:
    """A target, its source, and the settings of the training."""

    name: str
    on: str
    source: str
    model: str
    rounds: int
    lr: float
    taught: str
    """The arguments of LADD that the paper gives."""
    size: str
    """Image size for styles."""
    epochs: int
    """Epochs of the training on the source."""
    rate: float
    """Learning rate of the training on the source. It falls to 0."""
    settings: dict[str, Any]
    table: str = ""
    fewest: int = 4


PAPER: dict[str, Any] = {
    "batch_size": 16, "momentum": 0.9, "drop_last": True, "task": "segmentation(hard=0.25)", "dtype": "mixed",
    "eval_every": 50, "eval_last": 100, "on_bad": "stop",
}  # fmt: skip
SMALL = PAPER | {
    "batch_size": 8,
    "dtype": "float32",
    "eval_every": 10,
    "eval_last": 10,
    "clients_per_round": 6,
}
MODEL = "deeplabv3(stride=32, rates=[12, 24, 36])"
SIZE = "mean_style(size=[512, 1024])"
CITYSCAPES = World(
    "cityscapes", "cityscapes(double=True)", "gta5()", MODEL, 300, 5e-5, "omega=5, t_start=200", SIZE, 10, 0.005,
    PAPER | {"clients_per_round": 5}, "Table 5.6",
)  # fmt: skip
CROSSCITY = World(
    "crosscity", "crosscity()", "gta5(classes='crosscity')", MODEL, 1000, 0.01, "kd=20.0, t_start=400", SIZE, 10,
    0.005, PAPER | {"clients_per_round": 4}, "Table 5.7",
)  # fmt: skip
MAPILLARY = World(
    "mapillary", "mapillary()", "gta5()", MODEL, 100, 0.01, "omega=5, t_start=50", SIZE, 10, 0.005,
    PAPER | {"clients_per_round": 6}, "Table 5.8",
)  # fmt: skip
STREET = World(
    "street", "street(towns=4, weather='sun,rain,night,fog', clients=32, unseen_towns=0, unseen_weather='')",
    "street(towns=3, weather='sun,clouds', clients=30, style='game', seed=7)", "small_unet()", 100, 0.01, "", "True",
    20, 0.05, SMALL,
)  # fmt: skip
CAMVID = World(
    "camvid", "camvid(crop=[128, 192])",
    "street(towns=6, weather='sun,clouds,dusk', clients=60, width=240, height=180, "
    "classes='camvid', seed=7)",
    "bisenetv2(width=0.25)", 100, 0.01, "", "True", 20, 0.05, SMALL | {"clients_per_round": 5},
)  # fmt: skip


def presets() -> Iterator[Preset]:
    for world, table in ((CITYSCAPES, TABLE_5_6), (CROSSCITY, TABLE_5_7), (MAPILLARY, TABLE_5_8)):
        for row, cells in rows(table, "miou"):
            yield _preset(world, row, cells["miou"])
    for world in (STREET, CAMVID):
        for row in EVERY_ROW:
            yield _preset(world, row, None)


def _preset(world: World, row: str, cell: PublishedCell | None) -> Preset:
    pooled, apart = row.startswith("central"), row.endswith("mcd")
    start, rounds = _start(world, row), world.epochs if pooled else world.rounds
    settings = world.settings | {
        "lr": f"poly({world.rate}, {world.epochs}, 0.9)" if pooled else world.lr
    }
    if apart:  # its steps have the momentum
        settings = {**settings, "task": f"twofold({settings['task']})", "momentum": 0.0}
    one_head = world.model.replace("width=0.25", "auxiliary=False, width=0.25")
    return Preset(
        name=f"ladd/{world.name}-{row}",
        method=_method(world, row),
        on=_on(world, row),
        model=one_head if apart else world.model,
        rounds=rounds,
        settings=settings | ({"init": start} if start else {}),
        reported=None if cell is None else cell.value,
        spread=None if cell is None else cell.spread,
        not_printed=cell is None,
        table=world.table or {"street": "Street", "camvid": "CamVid"}[world.name],
        note=_note(row),
        column=f"ladd/{world.name}" if row == "ladd-cls" else "",
        measure="miou",
    )


def _method(world: World, row: str) -> str:
    taught = world.taught
    match row:
        case "ladd-cls" | "ladd-all":
            parts = "" if row == "ladd-cls" else "parts='all'"
            groups = f"groups=by_style(psi={world.size})" if world.size != "True" else ""
            return f"ladd({', '.join(word for word in (parts, taught, groups) if word)})"
        case "self-training":
            return f"self_training({taught})"
        case "central-mcd":
            return "centralised() + mcd(momentum=0.9)"
        case "fed-mcd":
            return "mcd(momentum=0.9)"
    return "centralised()" if row.startswith("central") else "fedavg()"


def _on(world: World, row: str) -> str:
    if row == "central-source-only":
        return f"tested_on({world.source}, {world.on})"
    if not row.endswith("mcd"):
        return world.on
    return f"with_source({world.on.replace('crop=[128, 192]', 'augment=False')}, {world.source})"


def _start(world: World, row: str) -> str:
    """Return the initializer. LADD and self-training use the clients' styles, FTDA does not."""
    if not row.endswith(("cls", "all", "self-training", "ftda")):
        return ""
    styles = "" if row.endswith("ftda") else f", styles={world.size}"
    lr = f"poly({world.rate}, {world.epochs}, 0.9)"
    return f"pretrained({world.source}, {world.epochs}, lr={lr}{styles})"


def _note(row: str) -> str:
    if row.endswith("mcd"):
        return (
            "In three alternating steps; their weight, rate and number are not printed, 1 and 4 "
            "here."
        )
    return (
        "From the same start as LADD; distillation and teacher as LADD's."
        if row == "self-training"
        else ""
    )
