"""The entry point: parse the command line, run the command, and print errors as one message."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from fedflat.cli.parser import build
from fedflat.errors import FedflatError, printable
from fedflat.execution.interrupt import signals_as_ctrl_c, signals_exit_at_once, status_of
from fedflat.experiments.output_streams import readers_may_leave


@readers_may_leave()
def main(words: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    0: done; 1: the output could not be written; 2: an error, nothing was lost; 130, 143, 129:
    stopped by Ctrl-C, SIGTERM, SIGHUP. A reader that closes the output early (``| head -1``) does
    not change the status.
    """
    try:
        try:
            return _run_command(words)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if not _is_of_output(error):
            raise
        _drop_output()
        why = error.strerror or error
        print(
            f"fedflat: error: the output could not be written: {why}. Send it elsewhere.",
            file=sys.stderr,
        )
        return 1


def _is_of_output(error: OSError) -> bool:
    """Whether standard output cannot be written: errors of files have their names, and another try
    fails too."""
    if error.filename is not None:
        return False
    try:
        print(flush=True)
    except OSError:
        return True
    return False


def _drop_output() -> None:
    """Send what is still to be written nowhere, so that the end of the process does not try
    again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_command(words: Sequence[str] | None) -> int:
    try:
        with signals_exit_at_once():
            words = sys.argv[1:] if words is None else words
            words = words or ["--help"]
            args = build(words).read(words)
            if getattr(args.verb, "TAKES_FILE", False):
                from fedflat.cli.experiment_file import with_file

                if (expanded := with_file(words, args)) != words:
                    words, args = expanded, build(expanded).read(expanded)
            args.words = list(words)
            for module in getattr(args.verb, "LOADS", ()):
                import_module(module)
            if plugins := getattr(args, "plugin", None):
                from fedflat.registry.plugins import load_plugin

                for plugin in plugins:
                    load_plugin(plugin)
            if getattr(args, "data_dir", None):
                from fedflat.data.files.paths import set_data_dir

                set_data_dir(args.data_dir)
        with signals_as_ctrl_c():
            status: int = args.verb.run(args)
            return status
    except FedflatError as error:
        print(f"fedflat: error: {printable(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        print("fedflat: stopped.", file=sys.stderr)
        return status_of(stopped)
