"""The files of a run folder: what each holds, and how it is written and read.

`record.py` is `run.json`, `schema.py` checks it, `jsonl_log.py` holds metrics, `checkpoints.py` the
state of a run. What is computed from these files belongs in `results/` or `fedflat.analysis`. Start
reading at `run_folder.py`.
"""
