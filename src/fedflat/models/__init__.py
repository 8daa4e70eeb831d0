"""Models by name, such as ``cnn()`` or ``resnet18(norm="batch")``.

Each model is a `ModelSpec` that builds a PyTorch module for given inputs and classes. Every module
in this folder is imported and may register names. Losses and scores belong to `tasks/`. Start with
`spec.py` and `simple.py`.
"""
