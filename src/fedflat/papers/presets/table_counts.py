"""How many numbers the tables of each paper print, and how many of them are presets.

A printed number is a preset, or it repeats a number of another table of the same run, or it is left
out for a stated reason. Symbols, settings and sizes of data sets are not counted, nor are entries
without a number (``-`` or ``N/A``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedflat.papers.presets.preset import Preset


@dataclass(frozen=True)
class TableCount:
    table: str
    printed: int
    """Numbers in the table."""
    repeated: int = 0
    """Those that are in another table of the same paper, whose preset they share."""
    why: str = ""
    """Why some are left out."""
    of_each: int = 1
    """Printed numbers that one preset stands for."""

    def presets(self, found: Sequence[Preset]) -> int:
        """Return how many of the printed numbers are presets."""
        return self.of_each * sum(
            preset.table == self.table and not preset.not_printed and not variant(preset)
            for preset in found
        )

    def left_out(self, found: Sequence[Preset]) -> int:
        """Return how many of the printed numbers cannot be run."""
        return self.printed - self.repeated - self.presets(found)


BY_DEFINITION = "FedAvg's rows, its own length by definition"
COUNTS: dict[str, tuple[TableCount, ...]] = {
    "eccv22": (
        TableCount("Table 1", 28),
        TableCount("Table 2", 126),
        TableCount("Table 3", 108),
        TableCount("Table 4", 108),
        TableCount(
            "Table 5", 88, 24, "differences of the other numbers; Table 16 has the rest of it"
        ),
        TableCount("Table 6", 208, 48),
        TableCount("Table 7", 10),
        TableCount("Table 8", 75),
        TableCount("Table 13", 24, 2),
        TableCount("Table 14", 216, 108),
        TableCount("Table 15", 24, 6),
        TableCount("Table 17", 108),
        TableCount("Table 4.6", 36, 16),
    ),
    "fedgloss": (
        TableCount("Table 1", 120, of_each=5),
        TableCount("Table 3", 66),
        TableCount("Table 4", 9),
        TableCount("Table 5", 110, why=BY_DEFINITION),
        TableCount("Table 6", 28, 8),
        TableCount("Table 7", 34, 34),
        TableCount("Table 8", 38),
        TableCount("Table 9", 36),
        TableCount("Table 10", 224, 100, BY_DEFINITION),
    ),
    "fedfsa": (TableCount("Table 1", 61), TableCount("Table 2", 29, 6)),
    "man": (
        TableCount("Table 1", 144),
        TableCount("Table 2", 32),
        TableCount("Table 5", 36),
        TableCount("Table 6", 16),
    ),
    "wima": (
        TableCount("Table 4.22", 126),
        TableCount("Table 4.23", 4),
        TableCount("Table 4.24", 10, 2),
        TableCount("Table 4.25", 12),
    ),
    "feddrive": (TableCount("Table 6.2", 7), TableCount("Table 6.3", 30)),
    "ladd": (
        TableCount("Table 5.6", 11, why="DAFormer, a network that the library does not have"),
        TableCount("Table 5.7", 6),
        TableCount("Table 5.8", 8),
    ),
    "attacks": (TableCount("Table 5.5", 100),),
    "fedseq": (
        TableCount("Table 5.1", 93),
        TableCount("Table 5.3", 90),
        TableCount(
            "Table 5.4",
            25,
            10,
            "numbers of superclients and their ratios, which follow from the settings",
        ),
    ),
    "fedvpr": (
        TableCount("Table 6.5", 6),
        TableCount("Table 6.6", 8, 1),
        TableCount("Table 6.7", 13, 1),
    ),
    "fedcg": (
        TableCount("Table 5.9", 9),
        TableCount("Table 5.10", 16),
        TableCount("Table 5.11", 6, 1),
    ),
    "flsam": (
        TableCount(
            "Table README",
            70,
            why="seconds of the authors' device, and ResNet-18, whose form is not printed",
        ),
    ),
    "fedwmsam": (
        TableCount("Table 1", 60, why="CIFAR-100 with ResNet-34, which the library does not have"),
    ),
}


def variant(preset: Preset) -> bool:
    """True for a second preset of the same number: as in the released code, or another reading."""
    return "-repo" in preset.name or preset.name.endswith("-mse")
