"""Runs told to experiment trackers as well, without a network: TensorBoard, Weights & Biases, MLflow."""

from fedflat.observe.trackers.tee import tracked
from fedflat.observe.trackers.tracker import SINKS, Tracker, check_installed, names_of

__all__ = ["SINKS", "Tracker", "check_installed", "names_of", "tracked"]
