"""FedSAM, FedASAM and server-side SWA on driving scenes: Table 8 of the ECCV 2022 paper.

    eccv22/idda-country-seen-fedasam-swa           a town, weather and vehicle per client
    eccv22/idda-country-unseen-fedasam-swa         the same run on the town that no client has
    eccv22/idda-uniform-rainy-unseen-fedasam-swa   the same scenes shuffled, tested on rain
    eccv22/cityscapes-cities-silobn-asam

The other tables are in `fedflat.papers.presets.eccv22`. Data, task and model are those of
`fedflat.papers.presets.feddrive`, with its caveats. All runs have batches of 8, 1,500 rounds and no
mixed precision.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedflat.papers.presets.feddrive import CITYSCAPES, IDDA, UNIFORM
from fedflat.papers.presets.preset import Preset, rows

TABLE_8 = """
    uniform-fedavg      63.31 48.60 65.16 27.38 43.61
    uniform-fedsam      64.22 49.74 64.81 30.00 44.58
    uniform-fedasam     62.74 48.73 64.74 31.32 45.86
    uniform-fedavg+swa  63.91 43.28 63.24 47.72 45.64
    uniform-fedsam+swa  62.26 46.26 63.69 48.40 45.29
    uniform-fedasam+swa 60.78 44.23 63.18 51.76 45.69
    fedavg              42.06 36.04 39.50 24.59 38.65
    fedsam              43.28 37.83 39.65 29.27 41.22
    fedasam             43.67 36.11 41.68 30.07 42.27
    fedavg+swa          37.16 37.48 37.06 42.33 42.48
    fedsam+swa          44.26 40.45 38.15 45.25 43.42
    fedasam+swa         45.23 39.72 42.09 45.40 43.02
    silobn              45.86 32.77 48.09 39.67 45.96
    silobn+sam          46.88 33.71 48.22 40.08 49.10
    silobn+asam         46.57 35.22 48.33 40.76 49.75"""
COLUMNS = (
    "idda-country-seen",
    "idda-country-unseen",
    "idda-rainy-seen",
    "idda-rainy-unseen",
    "cityscapes",
)


def presets() -> Iterator[Preset]:
    for row, cells in rows(TABLE_8, *COLUMNS):
        for column, cell in cells.items():
            yield _preset(row, column, cell.value)


def _preset(row: str, column: str, reported: float | None) -> Preset:
    on_cityscapes = column == "cityscapes"
    split = "uniform" if row.startswith(UNIFORM) else "heterogeneous"
    uniform = split == "uniform"
    if on_cityscapes:
        name = f"eccv22/cityscapes-{'uniform' if uniform else 'cities'}"
    else:
        name = f"eccv22/{column.replace('idda', 'idda-uniform')}" if uniform else f"eccv22/{column}"
    unseen = "rainy" if "rainy" in column else "country"
    idda = f"idda(unseen='{unseen}', split='{split}', size=[512, 928])"
    asam = f"rho={0.1 if on_cityscapes else 0.5}, eta=0.2"
    words = {
        "fedavg": "fedavg()", "fedsam": "fedsam(rho=0.01)", "fedasam": f"fedasam({asam})", "sam": "sam(rho=0.01)",
        "asam": f"asam({asam})", "silobn": "silobn(only_named='bn')", "swa": "swa(cycle=5)",
    }  # fmt: skip
    settings = CITYSCAPES if on_cityscapes else IDDA
    return Preset(
        name=f"{name}-{row.removeprefix(UNIFORM).replace('+', '-')}",
        method=" + ".join(words[word] for word in row.removeprefix(UNIFORM).split("+")),
        on=f"cityscapes(split='{split}', double=True)" if on_cityscapes else idda,
        model="bisenetv2()",
        rounds=1500,
        settings=settings | {"dtype": "float32", "batch_size": 8},
        reported=reported,
        table="Table 8",
        column=name if row.endswith("fedasam+swa") else "",
        measure="tests.unseen" if column.endswith("unseen") else "miou",
    )
