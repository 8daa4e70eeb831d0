"""Basic types of the engine: flat vectors, messages, instructions, stages, seeds, schedules.

Everything here is independent of any method, data set or executor. Code that runs on a client or on
the server belongs to `client/` and `server/`. Start with `messages.py` (what is sent) and `flat.py`
(a model as one vector).
"""
