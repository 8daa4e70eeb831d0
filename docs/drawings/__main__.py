"""Draws the pictures of the concept pages.

python docs/drawings            # writes all of them
python docs/drawings --check    # names those that are out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from concepts import flatness, pieces, round_of_training, simulated_time  # noqa: E402
from partitions import partitions  # noqa: E402
from structures import adaptation, groups, topologies  # noqa: E402

DRAWINGS = {
    "round": round_of_training,
    "pieces": pieces,
    "partitions": partitions,
    "topologies": topologies,
    "groups": groups,
    "adaptation": adaptation,
    "flatness": flatness,
    "time": simulated_time,
}

if __name__ == "__main__":
    texts = {HERE / f"{name}.svg": draw().write() for name, draw in DRAWINGS.items()}
    if "--check" in sys.argv[1:]:
        stale = [p.name for p, text in texts.items() if not p.exists() or p.read_text() != text]
        sys.exit(" ".join(stale) or None)
    for path, text in texts.items():
        path.write_text(text)
