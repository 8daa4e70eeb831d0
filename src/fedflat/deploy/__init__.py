"""A federation over a network: a server and clients on machines of different owners.

`federation_folder.py` makes certificates and participants' files, `session.py` is the server's side
of a run, `node.py` a client's. A `Transport` carries signed bytes (`envelope.py`); `cells.py` is
the only module that knows the system underneath, NVIDIA FLARE's cell network. What clients compute
is in `client/`, and the round is the same as in a simulation. Start reading at `session.py`.
"""
