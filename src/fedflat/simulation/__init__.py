"""Simulated time: speed and availability of devices, durations of exchanges; and attacks.

Clocks, devices, distributions and availability models belong here, and attacks in `attacks/`. The
code that applies them to a run is in `fedflat.experiments`. Start reading at `clock.py`. Every
module here is imported to register its names.
"""
