"""Experiments: settings, the training loop, run folders and results.

Start with `train.py`, which is the loop, and `api.py`, which has `run`, `compare` and `resume`.
`run_folder/` writes and reads the files of a run, `results/` makes tables, `recording/` measures
during training, `loggers/` sends numbers to TensorBoard, Weights & Biases and MLflow. Methods,
topologies and data sets do not belong here.
"""
