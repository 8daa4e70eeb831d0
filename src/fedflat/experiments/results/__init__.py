"""Results of runs: scores, tables, plots and rankings, without PyTorch.

What is written during a run belongs in `run_folder/`, the HTML page in `fedflat.report`. Start
reading at `results.py`.
"""
