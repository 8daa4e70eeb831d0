"""The commands of ``fedflat``, one module each, found by being there: ``fedflat NAME`` is the
module ``NAME``.

A module has

    HELP                    one line for ``fedflat --help``
    add_arguments(parser)   the arguments of the command
    run(args)               what it does; returns the exit status

and may have ALIASES, other names of the command, and LOADS, the heavy modules to import before
``run``. The modules themselves import nothing heavy, so that ``fedflat --help`` is fast. Code that
is too long for these functions is in the package `fedflat.cli`.
"""
