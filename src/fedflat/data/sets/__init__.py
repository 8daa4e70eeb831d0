"""The data sets that can be said, each a file: what it is, its files, who reads them, where they
can be had.

A module in this folder is found by being there: what it registers can be said in text and, once
``python -m fedflat.public`` has listed it, imported from ``fedflat``.
"""
