"""Everything that runs on a client: pieces, local training, evaluation and descriptions.

Nothing here knows the server. Where clients run (processes, stacks) belongs in `execution`.
Start with `piece` (what a method's client half can change), then read `training`.
"""
