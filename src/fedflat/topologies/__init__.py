"""Topologies: which clients train which server model, in which order, and how models merge.

How clients are put into groups is in `groupings`; methods named after papers are in `methods`.
Start with `topology` (the base class), then read `star` and `chains`.
"""
