"""Settings of a run: names, help texts, ranges and defaults, each defined once.

Signatures, command-line options, schemas of files and printed commands are derived from them. What
a setting does is written where it is used. Start with `groups.py`, then `setting.py`.
"""
