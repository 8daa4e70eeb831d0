"""Sweeps: several values of settings, and the choice between them by the validation set.

The values that a sweep tries are in `experiments/search_space.py`. Tables of papers belong in
`fedflat.papers`. Start reading at `sweep.py`.
"""
