"""The style of figures for papers: widths in inches, colours, fonts.

A column of a paper is 3.25 inches wide, and a page of two columns 6.75 inches. No text is smaller
than 7 points. Text stays text in PDF and SVG.
"""

from __future__ import annotations

from typing import Any

COLUMN, PAGE = 3.25, 6.75
COLORS = (
    "#0067a5",
    "#c44d00",
    "#007f5b",
    "#a0468a",
    "#85690a",
    "#2584b8",
    "#5d5d5d",
    "#7a3b0c",
    "#4b4bb5",
    "#b0063f",
)
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "savefig.dpi": 300,
    "axes.formatter.useoffset": False,
    "svg.hashsalt": "fedflat",  # drawn twice, the same bytes
}


def pyplot() -> Any:
    """matplotlib's pyplot; an error that says how to install it if it is missing."""
    from fedflat.errors import SettingError

    try:
        from matplotlib import pyplot as found
    except ImportError:
        raise SettingError(
            "figures need matplotlib, which is not installed. Install it: "
            "pip install 'fedflat[figures]'."
        ) from None
    return found
