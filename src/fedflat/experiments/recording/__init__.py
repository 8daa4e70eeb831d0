"""Metrics that are recorded in every round of a run (``--record``). Recording changes no number of
the run.

One module per metric, each found by being there: a metric is a frozen dataclass under
``register("metric", ...)``. Start reading in `recorder.py`, which has the base class.
"""

from fedflat.experiments.recording.recorder import Recorder, metrics_of, recording_callback

__all__ = ["Recorder", "metrics_of", "recording_callback"]
