"""What can be watched over the rounds of a run, without changing any number of it."""

from fedflat.experiments.recording.recording import RECORDERS, Recording, recording_callback, recorders_of

__all__ = ["RECORDERS", "Recording", "recording_callback", "recorders_of"]
