"""Simulated time: what devices can do, when they are there, and when the visits of an exchange
would have ended.

Every module in here is imported to register its names.
"""
