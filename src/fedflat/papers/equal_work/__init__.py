"""One table of methods under equal work, ``flat/equal-gradients``. Start reading at `grid.py`."""
