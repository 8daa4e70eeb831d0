"""Evaluation of a model on corrupted images, as in CIFAR-10-C.

Kinds of corruption and their evaluation belong here. Start reading at `corruptions.py` for the
kinds and at `evaluate.py` for the scores.
"""
