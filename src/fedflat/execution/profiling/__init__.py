"""Where the time of a run goes: a sampling profiler (``--profile``).

A thread samples the stacks of the others and counts them by category. A run without ``--profile``
executes none of this code, and profiling changes no result. Start reading at `sampler.py`.
"""
