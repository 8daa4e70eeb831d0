"""The words a person types. ``fedflat --help`` imports neither torch nor anything that does."""

from fedflat.executors.interrupt import ending_at_once

with ending_at_once():
    from fedflat.cli.main import main

__all__ = ["main"]
