"""The words a person types. ``fedflat --help`` imports neither torch nor anything that does."""

from fedflat.execution.interrupt import signals_exit_at_once

with signals_exit_at_once():
    from fedflat.cli.main import main

__all__ = ["main"]
