"""Runs told to experiment trackers as well, without a network: TensorBoard, Weights & Biases,
MLflow."""

from fedflat.experiments.loggers.logger import SINKS, Logger, check_installed, names_of
from fedflat.experiments.loggers.tee import with_loggers

__all__ = ["SINKS", "Logger", "check_installed", "names_of", "with_loggers"]
