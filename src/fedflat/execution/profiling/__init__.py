"""Where the time of a run goes: a thread looks now and then at what is being done, and counts.

Nothing here is on the way of a run that is not profiled, and no number of a run that is changes.
"""
