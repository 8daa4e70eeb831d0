"""Analyses of finished or running runs: flatness, loss surfaces, robustness, predictions.

Code that reads a run folder, computes something from its models and stores the result belongs here.
The measures of flatness are in `fedflat.flatness`, the page that shows results in `fedflat.report`.
Start reading at `analysis.py`.
"""
