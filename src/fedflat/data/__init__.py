"""Data: examples and batches, federations of clients, partitions, named data sets.

Everything that reads or divides data is here; what a model learns from them belongs to `tasks/`.
Start with `examples.py` (examples and batches) and `federation.py` (clients and what each holds).
Named sets are in `sets/`, partitions in `partitions/`.
"""
