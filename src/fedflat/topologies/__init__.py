"""Topologies: which clients train which server model, in which order, and how models merge.

`chain_exchange` and `async_exchange` replace the exchange of a star. How clients are put into
groups is in `groupings`; methods named after papers are in `methods`. Start with `topology` (the
base class, and the star), then read `chains`. `server_models` has the models that a topology
arranges.
"""
