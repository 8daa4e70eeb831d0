"""Runs as they go on, in a browser on this machine."""

from fedflat.report.live.server import LiveServer

__all__ = ["LiveServer"]
