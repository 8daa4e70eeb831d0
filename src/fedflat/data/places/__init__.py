"""Images of places: their positions, their roles as queries or database, and splits by sequence.

Data sets that use these modules are in `data/sets/`; training and recall are in
`tasks/retrieval.py`. Start with `targets.py`.
"""
