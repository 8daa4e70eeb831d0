"""Image styles that can be transferred: by frequencies or by colours, and banks of styles.

Pieces and methods that use styles are in `client/` and `methods/`. Start with `frequencies.py`.
"""
