"""The words a person types. ``fedflat --help`` imports neither torch nor anything that does."""

from fedflat.cli.main import main

__all__ = ["main"]
