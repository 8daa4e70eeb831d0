"""Attacks on a run: clients with manipulated data, and clients that recover others' data.

The attacks themselves and their networks belong here. Robust aggregation rules are in
`fedflat.server`. Start reading at `attack.py`.
"""
