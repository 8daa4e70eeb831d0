"""Everything that runs on the server: pieces, optimizers, aggregators, averages, client selection.

`exchange.py` sends broadcasts and collects replies, `replies.py` handles them, and `step.py`
aggregates them and steps. The server never sees clients' data, only their replies. Which clients
talk to which server model belongs in `topologies`. Start with `piece` (what a method's server half
can change).
"""
