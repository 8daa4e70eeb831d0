"""One client's device: how fast it computes and what its link carries.

    receives    latency + bytes / down
    computes    work / speed,   work: gradients of single examples
    sends       latency + bytes / up
    hands on    the latencies of both + bytes / min(up of the one, down of the other)

The server's own link and its computing take no time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """A client's device."""

    speed: float
    """Gradients of single examples that it takes in a second, of the model at hand."""
    down: float
    """Bytes a second that it receives."""
    up: float
    """Bytes a second that it sends."""
    latency: float = 0.0
    """Seconds that any message takes besides, to or from this device."""

    def receives(self, nbytes: float) -> float:
        """Seconds for so many bytes from the server."""
        return self.latency + nbytes / self.down

    def computes(self, work: float) -> float:
        """Seconds for so many gradients of single examples."""
        return work / self.speed

    def sends(self, nbytes: float) -> float:
        """Seconds for so many bytes to the server."""
        return self.latency + nbytes / self.up

    def forwards(self, to: Device, nbytes: float) -> float:
        """Seconds for so many bytes from this device to another one."""
        return self.latency + to.latency + nbytes / min(self.up, to.down)
