"""Settings of a run: names, help texts, ranges and defaults, each defined once.

Signatures, command-line options, schemas of files and printed commands are derived from them. What
a setting does is written where it is used. `groups.py` has the settings that decide numbers,
`execution.py` the others. Start with `groups.py`, then `setting.py`.
"""
