"""Composition: how pieces become a method with ``+``, and what a method costs.

Single methods belong in `methods`, pieces in `client` and `server`. Start with `method`.
"""
