"""Tasks: how batches are made, what the loss is, and which scores are computed.

A task names the headline score by which a run is judged. Networks belong to `models/`, data to
`data/`. Start with `task.py`; each other module is one task or a part of one.
"""
