"""What can be watched over the rounds of a run, without changing any number of it."""

from fedflat.experiments.recording.recording import (
    RECORDERS,
    Recording,
    recorders_of,
    recording_callback,
)

__all__ = ["RECORDERS", "Recording", "recorders_of", "recording_callback"]
