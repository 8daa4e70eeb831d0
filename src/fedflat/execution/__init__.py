"""Where clients train, how requests reach them, and where their states are kept.

An executor opens a pool (`client_pool.py`); `scheduler.py` decides which requests a `ClientPool`,
which works on several at a time, gets and when. `in_process.py`, `workers.py` and `stacked.py` are
the executors, `wire_format.py` encodes messages for clients elsewhere. What a client does with a
request is in `client/`.
"""
