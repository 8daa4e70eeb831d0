"""Flatness of minima: eigenvalues, trace and density of the Hessian, sharpness, loss surfaces.

Code that measures one model on one set of examples belongs here. Reading run folders and storing
results belong in `fedflat.analysis`. Start reading at `curvature.py` for the Hessian and at
`points.py` for loss landscapes.
"""
