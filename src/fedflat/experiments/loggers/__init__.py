"""Loggers: libraries that receive the numbers of a run as well (``--logger``), without a network.

One module per library, each found by being there: a logger is a class under ``register("logger",
...)``. Start reading in `logger.py`, which has the base class.
"""

from fedflat.experiments.loggers.logger import Logger, check_installed, loggers_of, with_loggers

__all__ = ["Logger", "check_installed", "loggers_of", "with_loggers"]
