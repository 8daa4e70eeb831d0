"""The analyses of a run, one file each, found by being there.

Each module registers a class under ``register("analysis", "name")``. It imports PyTorch only when
it computes. Start reading at `partition.py`, the shortest.
"""
