"""The dashboard: runs as they go on, in a browser on this machine.

The page itself is that of `fedflat.report`. Start reading at `server.py`.
"""

from fedflat.report.live.server import LiveServer

__all__ = ["LiveServer"]
