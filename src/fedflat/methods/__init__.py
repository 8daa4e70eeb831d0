"""Every method: one file per paper, and `recipes` and `pieces` for what is mere combination.

A module in this folder is found by being there.
"""
