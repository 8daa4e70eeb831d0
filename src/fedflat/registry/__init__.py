"""Text specifications such as ``feddyn(alpha=0.01) + sam(rho=0.05)``: names, parser, plugins.

This package knows names and how to call what they stand for, but no method, model or data set.
Those register themselves where they are defined. Start with `specs.py`.
"""
