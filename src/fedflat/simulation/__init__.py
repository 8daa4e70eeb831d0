"""Simulated time: speed and availability of devices, durations of exchanges; and attacks.

Clocks, devices, distributions and availability models belong here, and attacks in `attacks/`.
`timing.py` applies a clock to the exchanges of a round. Start reading at `clock.py`. Every module
here is imported to register its names.
"""
