"""Experiments of papers: their settings (`presets/`) and the reproduction of their tables.

Settings and printed numbers of papers belong here. The methods themselves are in `fedflat.methods`.
Nothing in the core imports this package. Start reading at `presets/preset.py` and
`reproduce/plan.py`.
"""
