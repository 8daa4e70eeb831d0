"""The command line. ``fedflat --help`` imports neither torch nor anything that does.

`verbs` has one module per command, `parser` builds the parser from them, and `main` is the entry
point.
"""

from fedflat.execution.interrupt import signals_exit_at_once

with signals_exit_at_once():
    from fedflat.cli.main import main

__all__ = ["main"]
