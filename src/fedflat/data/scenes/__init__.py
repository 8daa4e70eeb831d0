"""Driving scenes in files: images with masks of classes, read when they are needed.

Base classes and partitions of scene sets are here; the sets themselves are in `data/sets/`. Start
with `scenes.py` and `scene_set.py`.
"""
