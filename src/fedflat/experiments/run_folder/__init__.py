"""The files of a run folder: what each holds, and how it is written and read."""
