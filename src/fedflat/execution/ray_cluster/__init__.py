"""Clients in actors of a Ray cluster. Needs the extra ``fedflat[ray]``.

`executor.py` is the executor `ray(...)`, `connection.py` connects to the cluster, `pool.py` hands
requests to actors, and `actor.py` runs in the processes of the cluster. Only `executor.py` may be
imported where Ray is not installed.
"""

from fedflat.execution.ray_cluster.executor import Ray

__all__ = ["Ray"]
