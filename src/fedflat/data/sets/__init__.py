"""The named data sets, a module for one or a few alike: description, files, reader, and sources.

Every module in this folder is imported. Its registered names can be used in texts and, after
``python -m fedflat.public``, imported from ``fedflat``. Shared base classes are in
`data/named_set.py` and `data/scenes/scene_set.py`. Start with `mnist.py`.
"""
