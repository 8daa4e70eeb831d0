"""Models that can be said: ``cnn()``, ``resnet18(norm="batch")``. Each builds itself for given
data.

A module in this folder is found by being there.
"""
