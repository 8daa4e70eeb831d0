"""Files of data sets: search paths, downloads, and formats that several sets share.

What a data set is belongs to `data/sets/`. Start with `paths.py` and `sources.py`.
"""
