"""Write docs/leaderboard.md from the cells in results/equal-gradients.

python docs/leaderboard.py
"""

from __future__ import annotations

from pathlib import Path

from fedflat.papers.equal_work.page import page

HERE = Path(__file__).parent
CELLS = HERE.parent / "results" / "equal-gradients"

if __name__ == "__main__":
    (HERE / "leaderboard.md").write_text(page(CELLS))
