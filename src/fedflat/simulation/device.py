"""The device of one client: its computing speed and its network link.

    receives    latency + bytes / down
    computes    work / speed,   work: gradients of single examples
    sends       latency + bytes / up
    forwards    both latencies + bytes / min(up of the sender, down of the receiver)

The link and the computation of the server take no time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """Speed and network link of one client."""

    speed: float
    """Gradients of single examples per second, for the model of the run."""
    down: float
    """Bytes per second that it receives."""
    up: float
    """Bytes per second that it sends."""
    latency: float = 0.0
    """Additional seconds per message, to or from this device."""

    def receives(self, nbytes: float) -> float:
        """Return the seconds to receive `nbytes` from the server."""
        return self.latency + nbytes / self.down

    def computes(self, work: float) -> float:
        """Return the seconds to compute `work` gradients of single examples."""
        return work / self.speed

    def sends(self, nbytes: float) -> float:
        """Return the seconds to send `nbytes` to the server."""
        return self.latency + nbytes / self.up

    def forwards(self, to: Device, nbytes: float) -> float:
        """Return the seconds to send `nbytes` to another device."""
        return self.latency + to.latency + nbytes / min(self.up, to.down)
