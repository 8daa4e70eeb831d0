"""Literal twins: every method written a second time, as its paper's box, in plain numpy loops.

Nothing here imports the library. A twin is slow, repetitive and easy to compare with the paper;
that is its whole purpose. ``problem.py`` has the quadratics, the plan of a run and the local step;
``numbers.py`` has values computed by hand for the toy problem Q; ``network.py`` has small networks
for methods that look inside one; the other files are one method each.
"""
